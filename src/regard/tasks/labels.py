"""Scores of labels and numbers: accuracy, F1, Matthews, Pearson and Spearman, and how honest probabilities are."""

# Shapes: N examples, C classes.

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def of_classes(truth: Ints, probabilities: Floats) -> dict[str, float]:
    """truth: N. probabilities: N C. Macro F1 is over the classes that are there or are guessed.

    Of two classes there is the F1 of the last one too, which is called the positive one.
    """
    classes = probabilities.shape[1]
    guesses = probabilities.argmax(1)
    table = np.zeros((classes, classes))  # truth x guess
    np.add.at(table, (truth, guesses), 1)
    each = _f1(np.diag(table), table.sum(0), table.sum(1))
    seen = table.sum(0) + table.sum(1) > 0
    return {
        "accuracy": float((guesses == truth).mean()),
        "macro_f1": float(each[seen].mean()),
        **({"f1": float(each[-1])} if classes == 2 else {}),
        "matthews": matthews(table),
        "calibration_error": calibration_error(probabilities.max(1), guesses == truth),
    }


def of_several(truth: Ints, probabilities: Floats) -> dict[str, float]:
    """Any number of labels to an example (N C of 0 and 1): a label is given from a probability of one half."""
    guesses = probabilities >= 0.5
    hits, given, true = (guesses & (truth > 0)).sum(0), guesses.sum(0), truth.sum(0)
    return {
        "accuracy": float((guesses == (truth > 0)).all(1).mean()),
        "macro_f1": float(_f1(hits, given, true).mean()),
        "f1": float(_f1(hits.sum(keepdims=True), given.sum(keepdims=True), true.sum(keepdims=True))[0]),
        "calibration_error": calibration_error(
            np.where(guesses, probabilities, 1 - probabilities).ravel(), (guesses == (truth > 0)).ravel()
        ),
    }


def of_numbers(truth: Floats, guesses: Floats) -> dict[str, float]:
    return {
        "pearson": pearson(truth, guesses),
        "spearman": pearson(_ranks(truth), _ranks(guesses)),
        "mean_error": float(np.abs(truth - guesses).mean()),
    }


def matthews(table: Floats) -> float:
    """Of a table truth x guess, for any number of classes; 0 when all guesses, or all truths, are one class."""
    total, right = table.sum(), np.trace(table)
    true, guessed = table.sum(1), table.sum(0)
    across = np.sqrt((total**2 - (guessed**2).sum()) * (total**2 - (true**2).sum()))
    return float((right * total - (true * guessed).sum()) / across) if across else 0.0


def pearson(a: Floats, b: Floats) -> float:
    """0 when one of the two does not vary."""
    a, b = a - a.mean(), b - b.mean()
    across = float(np.sqrt((a**2).sum() * (b**2).sum()))
    return float((a * b).sum()) / across if across else 0.0


def calibration_error(confidence: Floats, right: NDArray[np.bool_], bins: int = 10) -> float:
    """The expected gap between how sure a model is and how often it is right (Guo 2017)."""
    place = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [
        abs(confidence[place == i].mean() - right[place == i].mean()) * (place == i).mean() for i in set(place.tolist())
    ]
    return float(sum(gaps))


def _f1(hits: Floats, given: Floats, true: Floats) -> Floats:
    """0 for a class that is neither given nor true."""
    both = given + true
    f1: Floats = np.divide(2.0 * hits, both, out=np.zeros(len(both)), where=both > 0)
    return f1


def _ranks(values: Floats) -> Floats:
    """From 1; equal values share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = counts.cumsum()
    ranks: Floats = (last - (counts - 1) / 2)[place]
    return ranks
