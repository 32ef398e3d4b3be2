"""RISE for text: which words, characters or tokens a black box's score depends on."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import UserError
from regard.explain.result import Explanation, last_of
from regard.explain.rise import Array, Bits, planned, rise
from regard.view import words

Cut = Callable[[str], Sequence[str]]
BlackBox = Callable[[list[str]], Any]  # texts to scores: one for each text, or one row for each


def cut_words(text: str) -> list[str]:
    """Words and punctuation, each with the space before it; a script without spaces is cut into its characters."""
    return ["".join(text[i] for i in group) for group in words.groups(list(text))]


CUTS: dict[str, Cut] = {"words": cut_words, "characters": list}


@dataclass(frozen=True)
class Pieces:
    """A text in pieces that can be hidden: taken away, or replaced by a filler."""

    parts: tuple[str, ...]
    filler: str | None = None

    @classmethod
    def of(cls, text: str, by: str | Cut = "words", filler: str | None = None) -> "Pieces":
        """by: words, characters, or a function from the text to its pieces, which together are the text."""
        if not text.strip():
            raise UserError("there is no text to explain")
        if isinstance(by, str) and by not in CUTS:
            raise UserError(f"a text cannot be cut by {by!r}; choose {' or '.join(CUTS)}, or give a function")
        parts = tuple(CUTS[by](text) if isinstance(by, str) else by(text))
        if "".join(parts) != text:
            raise UserError("the pieces, put together, are not the text: a cut must keep every character, spaces too")
        return cls(parts, filler)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(words.labels(self.parts, ()))

    def masked(self, masks: Array) -> list[str]:
        """The text under each mask (B N), without the space that would be left at its start."""
        hidden = [self._hidden(part) for part in self.parts]
        texts = []
        for mask in masks > 0.5:
            text = "".join(p if seen else h for p, h, seen in zip(self.parts, hidden, mask, strict=True))
            texts.append(text if mask[0] else text.lstrip())
        return texts

    def _hidden(self, part: str) -> str:
        """The filler, with the space that stood around the piece; without a filler nothing."""
        if self.filler is None:
            return ""
        bare = part.strip()
        return part.replace(bare, self.filler) if bare else part


def text_steps(
    score: BlackBox,
    text: str,
    *,
    by: str | Cut = "words",
    filler: str | None = None,
    keep: float = 0.5,
    names: Sequence[str] | None = None,
    **plan: Any,
) -> Iterator[Explanation]:
    """Which pieces of a text a black box's scores depend on, again and again as more masks are tried.

    score takes a list of texts and gives an array: one score a text, or one row of scores a text (one map each).
    A hidden piece is taken away, or replaced by the filler. keep is how likely a piece stays. names are those of
    the scores. The plan's options are those of `Plan`, such as masks=500.
    """
    pieces = Pieces.of(text, by, filler)
    masks = Bits(len(pieces.parts), keep)

    def scored(masks: Array) -> Any:
        return score(pieces.masked(masks))

    for found in rise(scored, masks, planned(**plan)):
        yield Explanation(text, pieces.labels, named(names, len(found.values)), found, scored)


text = last_of(text_steps)


def named(names: Sequence[str] | None, scores: int) -> tuple[str, ...]:
    """What the scores are called; they are numbered from 1 when nobody says."""
    if names is None:
        return ("score",) if scores == 1 else tuple(f"score {i + 1}" for i in range(scores))
    if len(names) != scores:
        raise UserError(f"there are {len(names)} names for {scores} scores")
    return tuple(names)
