"""Scores of spans: names in sentences as seqeval counts them, and answers as SQuAD does."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError


def require_seqeval() -> Any:
    """It is asked for before anything is learned, so that no training ends without scores."""
    try:
        from seqeval import metrics, scheme
    except ImportError:
        raise UserError("spans are scored by seqeval, which is not installed: pip install 'regard[tagging]'") from None
    return metrics, scheme


def of_tags(
    truth: Sequence[Sequence[str]], guesses: Sequence[Sequence[str]]
) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Over all spans, and of each type. A span is right when its type, first and last word are (strict BIO)."""
    metrics, scheme = require_seqeval()
    pairs = [pair for tags in zip(truth, guesses, strict=True) for pair in zip(*tags, strict=True)]
    scores = {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    types: dict[str, dict[str, float]] = {}
    if any(tag != "O" for pair in pairs for tag in pair):
        report = metrics.classification_report(
            [list(tags) for tags in truth], [list(tags) for tags in guesses],
            mode="strict", scheme=scheme.IOB2, output_dict=True, zero_division=0,
        )  # fmt: skip
        table = {
            name: {
                "precision": row["precision"],
                "recall": row["recall"],
                "f1": row["f1-score"],
                "spans": row["support"],
            }
            for name, row in report.items()
        }
        types = {name: _floats(row) for name, row in table.items() if not name.endswith(" avg")}
        scores = {name: float(value) for name, value in table["micro avg"].items() if name in scores}
    return scores | {"accuracy": sum(a == b for a, b in pairs) / max(1, len(pairs))}, types


def _floats(row: dict[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in row.items()}


def normalised(answer: str) -> list[str]:
    """The words that SQuAD compares: lower case, without punctuation and articles."""
    bare = "".join(c for c in answer.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", bare).split()


def of_answer(answer: str, references: Sequence[str]) -> tuple[float, float]:
    """Exact match and F1 against the reference that fits best. No references: the right answer is none at all."""
    guess = normalised(answer)
    sides = [side for side in map(normalised, references) if side] or [[]]
    return max(float(guess == side) for side in sides), max(_overlap(guess, side) for side in sides)


def _overlap(guess: list[str], side: list[str]) -> float:
    if not guess or not side:
        return float(guess == side)
    same = (Counter(guess) & Counter(side)).total()
    return 2 * same / (len(guess) + len(side))


def best_threshold(margins: NDArray[np.float64], answered: NDArray[np.float64], silent: NDArray[np.float64]) -> float:
    """The margin (of no answer over the best one) up to which answering scores most in all.

    answered, silent: each question's score with its best answer, and with none.
    """
    order = np.argsort(margins, kind="stable")
    steps = np.concatenate([[-np.inf], margins[order], [np.inf]])
    gains = np.concatenate([[0.0], np.cumsum((answered - silent)[order])])
    gains[:-1][steps[1:-1] == steps[:-2]] = -np.inf  # no threshold lies between equals
    cut = int(gains.argmax())
    low, high = steps[cut], steps[cut + 1]
    if not np.isfinite(low):
        return float(high - 1)
    return float(low + 1 if not np.isfinite(high) else (low + high) / 2)
