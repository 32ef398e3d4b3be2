"""Inline tags around the words of a translation that stand for the words they were around."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import NDArray

from regard.serve.align import Alignment
from regard.serve.markup import Mark
from regard.view.matrix import Matrix


@dataclass
class Placed:
    """An element over target words start to stop; where they are equal, it stands before the word of that number."""

    mark: Mark
    start: int
    stop: int
    inner: list["Placed"] = field(default_factory=list)


def written(text: str) -> str:
    """Text as HTML has it."""
    return escape(text, quote=False).replace("\u00a0", "&nbsp;")


def tagged(text: str, marks: Sequence[Mark], alignment: Alignment) -> str:
    """A translation as HTML, with the marks of its source at their words; each tag comes once, properly nested."""
    return _Writer(text, alignment).write(_place(marks, alignment, 0, len(alignment.target)))


def _place(marks: Sequence[Mark], alignment: Alignment, low: int, high: int) -> list[Placed]:
    """Each mark at the run of words that looks most at its words; no word is taken twice.

    First each gets the word that speaks most for it, while there are words; then the free words beside it.
    """
    inside = [_words(mark, alignment) for mark in marks]
    gains = [alignment.weights[low:high, its].sum(-1) - 0.5 for its in inside]
    free = np.ones(high - low, dtype=bool)
    seeds: dict[int, int] = {}
    for i in sorted((i for i, its in enumerate(inside) if len(its)), key=lambda i: -gains[i].max(initial=-1)):
        if free.any():
            seeds[i] = int(np.where(free, gains[i], -np.inf).argmax())
            free[seeds[i]] = False
    placed = []
    for i, mark in enumerate(marks):
        if i in seeds:
            stop = seeds[i] + 1 + _reach(gains[i][seeds[i] + 1 :], free[seeds[i] + 1 :])
            start = seeds[i] - _reach(gains[i][: seeds[i]][::-1], free[: seeds[i]][::-1])
            free[start:stop] = False
            placed.append(Placed(mark, low + start, low + stop))
        else:
            at = _point(mark, alignment, low, high)
            placed.append(Placed(mark, at, at))
    for one in placed:
        one.inner = _place(one.mark.inner, alignment, one.start, one.stop)
    return sorted(placed, key=lambda p: (p.start, p.stop))


def _words(mark: Mark, alignment: Alignment) -> NDArray[np.intp]:
    """The source words that an element is around."""
    return np.array([i for i, (a, b) in enumerate(alignment.source) if a < mark.end and b > mark.start], dtype=np.intp)


def _reach(gain: Matrix, free: NDArray[np.bool_]) -> int:
    """How many of the words that follow to take: as far as they are free, up to where most speaks for them."""
    end = len(free) if free.all() else int(free.argmin())
    sums = gain[:end].cumsum()
    return int(sums.argmax()) + 1 if end and sums.max() > 0 else 0


def _point(mark: Mark, alignment: Alignment, low: int, high: int) -> int:
    """Before the word that looks most at the source word that follows; after all of them when none follows."""
    following = [i for i, (a, _) in enumerate(alignment.source) if a >= mark.start]
    if not following or low == high:
        return high
    looks = alignment.weights[low:high, following[0]]
    return low + int(looks.argmax()) if looks.max() > 0 else high


class _Writer:
    """Writes words and tags in their order."""

    def __init__(self, text: str, alignment: Alignment) -> None:
        self.text, self.spans = text, alignment.target
        self.parts: list[str] = []
        self.done = 0  # characters written

    def write(self, placed: Sequence[Placed]) -> str:
        self._all(placed)
        self._up_to(len(self.text))
        return "".join(self.parts)

    def _all(self, placed: Sequence[Placed]) -> None:
        for one in placed:
            before, after = one.mark.spaced
            if one.start < len(self.spans) and not (after and not before and one.start):
                self._up_to(self.spans[one.start][0])
                self.parts += [one.mark.open, " " if after else ""]
            else:  # right after the word before it
                self._up_to(self.spans[one.start - 1][1] if self.spans else 0)
                self.parts += [" " if before else "", one.mark.open]
            self._all(one.inner)
            if one.stop > one.start:
                self._up_to(self.spans[one.stop - 1][1])
            self.parts.append(one.mark.close)

    def _up_to(self, place: int) -> None:
        if place > self.done:
            self.parts.append(written(self.text[self.done : place]))
            self.done = place
