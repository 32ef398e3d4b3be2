"""Deletion and insertion: whether the score falls as the places go that a map names first, and rises as they come."""

# Shapes: B masks, K scores (rows), N places, P points of a curve.

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.explain.rise import Array, Asking, Score

Order = NDArray[np.signedinteger[Any]]  # places, or ends of stretches of them
STEPS = 50  # points of a curve at most, beyond the first


@dataclass(frozen=True, eq=False)
class Curve:
    """The score as places go or come, in the map's order, and what random orders give."""

    share: Array  # P, of the places that were changed: 0 to 1
    scores: Array  # P
    auc: float
    chance: Array  # P, the mean score of random orders
    random: tuple[float, ...]  # the areas under their curves

    def to_dict(self) -> dict[str, Any]:
        return {
            "share": [round(float(x), 4) for x in self.share],
            "scores": [float(f"{y:.5g}") for y in self.scores],
            "chance": [float(f"{y:.5g}") for y in self.chance],
            "auc": round(self.auc, 5),
            "random": [round(area, 5) for area in self.random],
        }


@dataclass(frozen=True)
class Curves:
    """Deletion is better the smaller its area, insertion the larger."""

    deletion: Curve
    insertion: Curve

    def to_dict(self) -> dict[str, Any]:
        return {"deletion": self.deletion.to_dict(), "insertion": self.insertion.to_dict()}


def curves(
    score: Score,
    values: Array,
    *,
    inserting: Score | None = None,
    steps: int = STEPS,
    orders: int = 5,
    seed: int = 0,
    batch: int = 64,
) -> tuple[Curves, ...]:
    """The curves of each row of a map (K and the map's shape), beside as many random orders.

    inserting: the black box of the insertion curve, where hidden places look different (the paper blurs them there).
    """
    if orders < 1:
        raise UserError(f"orders is {orders}; the least is 1")
    shape, flat = values.shape[1:], values.reshape(len(values), -1)
    places = flat.shape[1]
    random = np.random.default_rng(seed)
    shuffled = [random.permutation(places) for _ in range(orders)]
    ends = np.unique(np.linspace(0, places, min(steps, places) + 1).round().astype(int))  # P
    share = ends / places

    def scored(ask: Asking, order: Order, insert: bool) -> Array:
        """P K"""
        found = [ask(masks.reshape(-1, *shape)) for masks in _masks(order, ends, insert, batch)]
        return np.concatenate(found)

    def curve(ask: Asking, insert: bool) -> list[Curve]:
        chance = np.stack([scored(ask, order, insert) for order in shuffled])  # orders P K
        made = []
        for row, one in enumerate(flat):
            scores = scored(ask, np.argsort(-one, kind="stable"), insert)[:, row]
            areas = tuple(area(share, y) for y in chance[:, :, row])
            made.append(Curve(share, scores, area(share, scores), chance[:, :, row].mean(0), areas))
        return made

    both = curve(Asking(score, batch), False), curve(Asking(inserting or score, batch), True)
    return tuple(Curves(deletion, insertion) for deletion, insertion in zip(*both, strict=True))


def area(x: Array, y: Array) -> float:
    """Under a curve, by trapezoids; a score that stays 1 has 1."""
    return float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum())


def _masks(order: Order, ends: Order, insert: bool, batch: int) -> Iterator[Array]:
    """For each point a mask in which the first places of the order are changed, at most `batch` at once."""
    rank = np.empty(len(order), dtype=int)
    rank[order] = np.arange(len(order))
    for i in range(0, len(ends), batch):
        changed = rank < ends[i : i + batch, None]  # B N
        yield (changed if insert else ~changed).astype(np.float64)
