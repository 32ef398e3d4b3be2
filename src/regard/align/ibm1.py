"""IBM model 1 (Brown 1993): how likely each source word is to be written as each target word, by EM over pairs."""

# Shapes: T target words, S source words, L links: every target word of a pair with every source word of it.

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating[Any]]
Words = Sequence[str]
NULL = 0  # the empty word, which stands for target words that no source word asks for


class IBM1:
    """t(target word | source word), learned so that pairs become likely; every order of words is alike to it."""

    def __init__(self, pairs: Iterable[tuple[Words, Words]], iterations: int = 10) -> None:
        self.words: tuple[dict[str, int], dict[str, int]] = ({"": NULL}, {})
        numbered = [
            tuple(self._numbers(side, known) for side, known in zip(pair, self.words, strict=True)) for pair in pairs
        ]
        links = [(np.tile(np.append(NULL, s), len(t)), np.repeat(t, len(s) + 1)) for s, t in numbered]
        none = [np.zeros(0, dtype=np.int64)]
        sources, targets = (np.concatenate([link[side] for link in links] or none) for side in (0, 1))
        sizes = [len(s) + 1 for s, t in numbered for _ in t]
        row = np.repeat(np.arange(len(sizes)), sizes)  # L: which target word of the corpus a link is of
        self._keys, entry = np.unique(sources * len(self.words[1]) + targets, return_inverse=True)
        source_of = self._keys // max(1, len(self.words[1]))
        self._table = 1 / np.bincount(source_of)[source_of]  # alike at first
        self.log_likelihood: list[float] = []  # of the corpus, before each iteration: it never falls
        for _ in range(iterations if len(sizes) else 0):
            likely = self._table[entry]  # L
            total = np.bincount(row, likely)
            self.log_likelihood.append(float(np.log(total / sizes).sum()))
            counts = np.bincount(entry, likely / total[row])
            self._table = counts / np.bincount(source_of, counts)[source_of]

    @staticmethod
    def _numbers(words: Words, known: dict[str, int]) -> NDArray[np.int64]:
        return np.array([known.setdefault(word, len(known)) for word in words], dtype=np.int64)

    def probability(self, target: str, source: str = "") -> float:
        """t(target | source); of the empty word when no source is given; 0 for what was never seen together."""
        return float(self._entries([source], [target])[0, 0])

    def matrix(self, source: Words, target: Words) -> Matrix:
        """How much of each target word is owed to each source word (T S); what is left to 1 is the empty word's.

        A target word that was never seen with any of them is owed to all alike.
        """
        table = self._entries(["", *source], target).T  # T S+1
        total = table.sum(1, keepdims=True)
        alike = np.full_like(table, 1 / table.shape[1])
        return np.where(total > 0, table / np.where(total > 0, total, 1), alike)[:, 1:]

    def _entries(self, source: Words, target: Words) -> Matrix:
        """t(target | source) of all pairs (S T)."""
        ours, theirs = (
            [known.get(word, -1) for word in words] for words, known in zip((source, target), self.words, strict=True)
        )
        keys = np.array(ours)[:, None] * len(self.words[1]) + np.array(theirs)
        known = (np.array(ours)[:, None] >= 0) & (np.array(theirs) >= 0)
        at = np.searchsorted(self._keys, keys).clip(max=max(0, len(self._keys) - 1))
        if not len(self._keys):
            return np.zeros(keys.shape)
        found: Matrix = np.where(known & (self._keys[at] == keys), self._table[at], 0.0)
        return found


def owed(matrix: Matrix) -> NDArray[np.bool_]:
    """Which target words (T) are owed to a source word more than to the empty one, which has what is left to 1."""
    found: NDArray[np.bool_] = matrix.max(1) > 1 - matrix.sum(1) + 1e-9
    return found


def both_ways(forward: Matrix, backward: Matrix) -> NDArray[np.bool_]:
    """Links (T S) that both directions find: each word's best of the other side, and the other way round."""
    links = np.zeros(forward.shape, bool)
    for target, source in enumerate(forward.argmax(1)):
        links[target, source] = backward[source].argmax() == target
    return links & owed(forward)[:, None] & owed(backward)


def same_places(one: Matrix, other: Matrix) -> int:
    """How many target words have the same source word as their strongest in two matrices (T S)."""
    return int((one.argmax(1) == other.argmax(1)).sum())
