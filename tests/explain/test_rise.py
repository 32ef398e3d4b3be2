"""The map is the paper's, without bias, and its error bars are what they say."""

import tracemalloc
from itertools import product

import numpy as np
import pytest

from regard.errors import UserError
from regard.explain.rise import Array, Bits, Masks, Plan, Saliency, rise

WEIGHTS = np.array([0.5, 0.0, -1.0, 2.0, 0.25])


def bent(masks: Array) -> Array:
    """A score that no sum of words can be: words that need each other, and one that spoils."""
    return 3 + masks[:, 0] * masks[:, 1] - 2 * masks[:, 2] * (1 - masks[:, 0]) + masks[:, 3:].max(1)


def linear(masks: Array) -> Array:
    return 7 + masks @ WEIGHTS


def last(score: object, source: Masks, **plan: object) -> Saliency:
    *_, found = rise(score, source, Plan(**plan))  # type: ignore[arg-type]
    return found


def exact(score: object, places: int, keep: float) -> tuple[Array, Array]:
    """The paper's equation in the limit: S = E[f(M) M] / E[M], and E[f], over all masks there are."""
    masks = np.array(list(product([0.0, 1.0], repeat=places)))
    chance = np.where(masks == 1, keep, 1 - keep).prod(1)
    scores = score(masks)  # type: ignore[operator]
    return (chance * scores) @ masks / keep, chance @ scores


@pytest.mark.parametrize("keep", [0.3, 0.5, 0.8])
def test_it_converges_to_the_papers_map(keep: float) -> None:
    found = last(bent, Bits(6, keep), masks=20_000)
    saliency, mean = exact(bent, 6, keep)
    np.testing.assert_allclose(found.rise[0], saliency, atol=0.04)
    np.testing.assert_allclose(found.values[0], (saliency - mean) / (1 - keep), atol=0.06)
    assert (np.abs(found.values[0] - (saliency - mean) / (1 - keep)) < 4 * found.errors[0]).all()


def test_it_agrees_with_the_papers_sum_over_the_same_masks() -> None:
    masks = Bits(6, 0.5)
    drawn = masks.draw(np.random.default_rng(3), 20_000)
    plain = bent(drawn) @ drawn / (0.5 * len(drawn))
    np.testing.assert_allclose(last(bent, masks, masks=20_000, seed=3).rise[0], plain, atol=0.05)


def test_a_value_is_the_difference_that_seeing_makes() -> None:
    found = last(lambda m: np.stack([linear(m), m[:, 2], bent(m)], 1), Bits(5), masks=4000)
    np.testing.assert_allclose(found.values[0], WEIGHTS, atol=0.05)
    np.testing.assert_allclose(found.values[1], [0, 0, 1, 0, 0], atol=0.02)
    assert found.whole[0] == pytest.approx(7 + WEIGHTS.sum())
    assert found.nothing[0] == pytest.approx(7)
    assert found.mean[0] == pytest.approx(7 + WEIGHTS.sum() / 2, abs=0.05)


def test_a_score_that_never_changes_has_an_empty_map() -> None:
    found = last(lambda m: np.full(len(m), 42.0), Bits(20), masks=100, confidence=0.95, batch=8)
    assert (found.values == 0).all()
    assert (found.errors == 0).all()
    np.testing.assert_array_equal(found.rise, np.full((1, 20), 42.0))
    assert found.reached
    assert found.masks == 64


def test_it_has_no_bias_and_its_errors_are_honest() -> None:
    """Over many seeds with few masks: the mean is the truth, and 95 % intervals hold it 95 times of 100."""
    saliency, mean = exact(bent, 6, 0.5)
    truth = (saliency - mean) / 0.5
    runs = [last(bent, Bits(6), masks=96, seed=seed) for seed in range(600)]
    values = np.stack([found.values[0] for found in runs])
    standard = values.std(0) / np.sqrt(len(runs))
    assert (np.abs(values.mean(0) - truth) < 3.5 * standard).all()
    held = np.abs(values - truth) < 1.96 * np.stack([found.errors[0] for found in runs])
    assert 0.93 < held.mean() < 0.97
    assert np.abs(np.mean([found.mean[0] for found in runs]) - mean) < 0.02


def test_predicting_by_the_map_so_far_spares_masks() -> None:
    class Correlated(Bits):
        independent = False  # as if the map could not predict: the centred estimate

    score = lambda m: m @ np.arange(12.0)  # noqa: E731
    plain, better = last(score, Correlated(12), masks=512), last(score, Bits(12), masks=512)
    assert better.errors.max() < plain.errors.max() / 3


@pytest.mark.parametrize("places", [5, 20])
def test_no_batch_size_changes_the_result(places: int) -> None:
    score = lambda m: m[:, 0] * m[:, 1] - m[:, 2]  # noqa: E731
    first = last(score, Bits(places), masks=200, batch=64)
    for batch in (1, 7, 200, 1000):
        found = last(score, Bits(places), masks=200, batch=batch)
        np.testing.assert_allclose(found.values, first.values, atol=1e-12)
        np.testing.assert_allclose(found.errors, first.errors, atol=1e-12)
    other = last(score, Bits(places), masks=200, seed=1)
    assert not np.allclose(other.values, first.values)


def test_it_is_asked_in_batches_and_shows_every_step() -> None:
    sizes: list[int] = []

    def score(masks: Array) -> Array:
        sizes.append(len(masks))
        return masks[:, 0]

    steps = list(rise(score, Bits(30), Plan(masks=200, batch=32)))
    assert max(sizes) <= 32
    assert sum(sizes) == 202  # the whole and the empty input are the two more
    assert [s.masks for s in steps] == [32, 64, 96, 128, 160, 192, 200]
    assert [s.done for s in steps] == [False] * 6 + [True]


def test_few_places_are_asked_once_for_each_mask() -> None:
    asked: list[bytes] = []

    def score(masks: Array) -> Array:
        asked.extend(m.tobytes() for m in masks)
        return masks.sum(1)

    found = last(score, Bits(4), masks=1000)
    assert found.masks == 1000
    assert len(asked) == len(set(asked)) == 16


def test_it_stops_when_it_is_sure() -> None:
    found = last(linear, Bits(5), masks=100_000, confidence=0.95, within=0.05)
    assert found.reached
    assert found.done
    assert 64 <= found.masks < 3000
    assert np.abs(found.values[0] - WEIGHTS).max() < 0.05 * np.ptp(WEIGHTS)
    surer = last(linear, Bits(5), masks=100_000, confidence=0.95, within=0.02)
    assert surer.masks > found.masks


def test_what_it_promises_when_it_stops_holds() -> None:
    saliency, mean = exact(bent, 6, 0.5)
    truth = (saliency - mean) / 0.5
    kept = []
    for seed in range(150):
        found = last(bent, Bits(6), masks=20_000, confidence=0.95, within=0.1, seed=seed, batch=8)
        kept.append(np.abs(found.values[0] - truth).max() <= 0.1 * np.ptp(found.values))
    assert np.mean(kept) >= 0.9


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda m: np.where(np.arange(len(m)) == 3, np.nan, 1.0), "nan for masked input 6"),
        (lambda m: np.where(np.arange(len(m)) == 1, np.inf, 1.0)[:, None] * [1, 2], "inf for masked input 2"),
        (lambda m: np.ones(len(m) + 1), r"got 2 inputs and answered with shape \(3,\)"),
        (lambda m: 0.5, r"shape \(\)"),
        (lambda m: np.ones((len(m), 0)), r"shape \(2, 0\)"),
        (lambda m: ["good"] * len(m), "not an array of numbers"),
        (lambda m: [[1, 2], [3]], "not an array of numbers"),
        (lambda m: np.ones((len(m), len(m))), "gave 2 scores for an input before, now 16"),
    ],
)
def test_a_wrong_answer_is_told(answer: object, said: str) -> None:
    with pytest.raises(UserError, match=said):
        last(answer, Bits(20), masks=40, batch=16)


@pytest.mark.parametrize(
    "options", [{"masks": 1}, {"batch": 0}, {"seed": -1}, {"confidence": 1.0}, {"within": 0.0}], ids=str
)
def test_a_plan_that_cannot_be_is_refused(options: dict[str, float]) -> None:
    with pytest.raises(UserError, match=next(iter(options))):
        Plan(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("keep", [0.0, 1.0, float("nan")])
def test_all_or_nothing_is_no_mask(keep: float) -> None:
    with pytest.raises(UserError, match="keep"):
        Bits(3, keep)


def test_more_than_memory_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.explain.rise.LARGEST", 100)
    last(lambda m: np.ones((len(m), 10)), Bits(10), masks=2)
    with pytest.raises(UserError, match="11 scores of 10 places are too many"):
        last(lambda m: np.ones((len(m), 11)), Bits(10))


def test_memory_does_not_grow_with_the_masks() -> None:
    def most(masks: int) -> int:
        tracemalloc.start()
        for _ in rise(lambda m: m[:, 0], Bits(2000), Plan(masks=masks, batch=32)):
            pass
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    assert most(1024) < 1.1 * most(128)
    assert most(1024) < 1024 * 2000 * 8 / 4  # a quarter of what all masks would take
