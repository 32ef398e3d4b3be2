"""Deletion and insertion curves: the paper's areas, in the map's order, beside chance."""

import numpy as np
import pytest

from regard.errors import UserError
from regard.explain.curves import area, curves
from regard.explain.rise import Array

WEIGHTS = np.array([1.0, 8.0, 0.0, 4.0, 2.0])


def linear(masks: Array) -> Array:
    return masks @ WEIGHTS


def test_the_area_is_the_papers() -> None:
    y = np.array([1.0, 0.5, 0.25, 0.0])
    assert area(np.arange(4) / 3, y) == pytest.approx((y.sum() - (y[0] + y[-1]) / 2) / 3)
    assert area(np.linspace(0, 1, 9), np.ones(9)) == pytest.approx(1)


def test_places_go_and_come_in_the_maps_order() -> None:
    (both,) = curves(linear, WEIGHTS[None], orders=2)
    np.testing.assert_array_equal(both.deletion.scores, [15, 7, 3, 1, 0, 0])
    np.testing.assert_array_equal(both.insertion.scores, [0, 8, 12, 14, 15, 15])
    np.testing.assert_allclose(both.deletion.share, np.arange(6) / 5)
    assert both.deletion.auc == pytest.approx((15 / 2 + 7 + 3 + 1) / 5)


def test_chance_is_random_orders_of_the_same_places() -> None:
    (both,) = curves(linear, WEIGHTS[None], orders=400, seed=1)
    np.testing.assert_allclose(both.deletion.chance, 15 * (1 - np.arange(6) / 5), atol=0.8)
    assert np.mean(both.deletion.random) == pytest.approx(7.5, abs=0.3)
    assert both.deletion.auc < min(both.deletion.random) + 1e-9
    assert both.insertion.auc > max(both.insertion.random) - 1e-9
    (again,) = curves(linear, WEIGHTS[None], orders=400, seed=1)
    assert again.deletion.random == both.deletion.random


def test_each_row_has_its_own_order() -> None:
    score = lambda masks: np.stack([masks @ WEIGHTS, masks @ -WEIGHTS], 1)  # noqa: E731
    first, second = curves(score, np.stack([WEIGHTS, -WEIGHTS]), orders=1)
    np.testing.assert_array_equal(first.deletion.scores, [15, 7, 3, 1, 0, 0])
    np.testing.assert_array_equal(second.deletion.scores, [-15, -15, -14, -12, -8, 0])


def test_many_places_go_in_steps_and_batches() -> None:
    sizes = []

    def score(masks: Array) -> Array:
        sizes.append(masks.shape)
        return masks.mean((1, 2))

    (both,) = curves(score, np.random.default_rng(0).random((1, 30, 40)), steps=20, orders=1, batch=8)
    assert both.deletion.share.shape == (21,)
    np.testing.assert_allclose(both.deletion.scores, 1 - both.deletion.share, atol=1e-9)
    assert max(size[0] for size in sizes) == 8
    assert {size[1:] for size in sizes} == {(30, 40)}


def test_insertion_may_see_hidden_places_otherwise() -> None:
    (both,) = curves(linear, WEIGHTS[None], inserting=lambda masks: linear(masks) + 100, orders=1)
    assert both.deletion.scores[-1] == 0
    assert both.insertion.scores[0] == 100


def test_no_orders_are_refused() -> None:
    with pytest.raises(UserError, match="orders"):
        curves(linear, WEIGHTS[None], orders=0)
