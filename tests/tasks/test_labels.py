"""Scores of labels, beside the field's own implementations."""

import numpy as np
import pytest
from sklearn import metrics

from regard.tasks.labels import calibration_error, of_classes, of_numbers, of_several

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_classes(classes: int) -> None:
    truth = RANDOM.integers(0, classes, 200)
    logits = RANDOM.normal(size=(200, classes)) + 2 * np.eye(classes)[truth]
    made = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    found, guesses = of_classes(truth, made), made.argmax(1)
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(truth, guesses))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(truth, guesses, average="macro"))
    assert ("f1" in found) == (classes == 2)  # of more than two, which one's would it be?
    if classes == 2:
        assert found["f1"] == pytest.approx(metrics.f1_score(truth, guesses))
    assert found["matthews"] == pytest.approx(metrics.matthews_corrcoef(truth, guesses))


def test_one_class_guessed_and_one_never_seen() -> None:
    found = of_classes(np.array([0, 1, 0, 1]), np.array([[0.9, 0.1, 0.0]] * 4))
    assert found["matthews"] == 0
    assert found["accuracy"] == 0.5
    assert found["macro_f1"] == pytest.approx(metrics.f1_score([0, 1, 0, 1], [0] * 4, average="macro"))
    assert found["macro_f1"] == pytest.approx(1 / 3)  # 2/3 and 0; the third class does not come up


def test_several_labels() -> None:
    truth = RANDOM.integers(0, 2, (100, 4))
    made = np.clip(RANDOM.normal(size=(100, 4)) * 0.3 + truth * 0.5 + 0.25, 0, 1)
    found, guesses = of_several(truth, made), made >= 0.5
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(truth, guesses))
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(truth, guesses, average="macro"))
    assert found["f1"] == pytest.approx(metrics.f1_score(truth, guesses, average="micro"))


def test_numbers() -> None:
    a = RANDOM.normal(size=50).round(1)  # with ties
    b = (a + RANDOM.normal(size=50)).round(1)
    found = of_numbers(a, b)
    assert found["pearson"] == pytest.approx(np.corrcoef(a, b)[0, 1])
    from scipy.stats import spearmanr

    assert found["spearman"] == pytest.approx(spearmanr(a, b).statistic)
    assert of_numbers(a, np.ones(50))["pearson"] == 0
    assert of_numbers(a, a)["spearman"] == pytest.approx(1)


def test_calibration() -> None:
    sure = np.array([0.95, 0.95, 0.95, 0.95, 0.55, 0.55])
    right = np.array([True, True, True, False, True, False])
    # Four at 0.95 of which three are right, two at 0.55 of which one is.
    assert calibration_error(sure, right) == pytest.approx((4 * 0.2 + 2 * 0.05) / 6)
    assert calibration_error(np.ones(5), np.ones(5, dtype=bool)) == 0
