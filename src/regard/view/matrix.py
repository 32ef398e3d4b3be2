"""Attention weights as arrays: merging tokens into words, and finding the layer that aligns most clearly."""

# Shapes: L layers, H heads, T queries, S keys.

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating[Any]]  # ... T S


def merge(weights: Matrix, queries: Sequence[Sequence[int]], keys: Sequence[Sequence[int]]) -> Matrix:
    """Sums over the keys of a word, means over the queries of a word: rows still sum to one."""
    summed = np.stack([weights[..., list(group)].sum(-1) for group in keys], axis=-1)
    return np.stack([summed[..., list(group), :].mean(-2) for group in queries], axis=-2)


def information(weights: Matrix) -> Matrix:
    """How much a query's place tells of the place it looks at, in bits, for each matrix (... T S).

    It is the entropy of the mean row less the mean entropy of the rows: 0 when every query looks at the same keys,
    however sharply (heads often rest on the end symbol), and high when each looks at one place of its own.
    """
    bits: Matrix = _entropy(weights.mean(-2)) - _entropy(weights).mean(-1)
    return bits


def clearest(weights: Matrix) -> int:
    """The layer (of L H T S) whose mean over heads is most informative."""
    return int(information(weights.mean(1)).argmax())


def _entropy(p: Matrix) -> Matrix:
    entropy: Matrix = -(p * np.log2(np.where(p > 0, p, 1))).sum(-1)
    return entropy
