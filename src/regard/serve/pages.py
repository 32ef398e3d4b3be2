"""An HTML text on its way through a model: cut into sentences, translated, and its tags put back."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.serve.align import Alignment, by_place
from regard.serve.inline import tagged, written
from regard.serve.markup import Block, parse
from regard.serve.sentences import Cut, cut


@dataclass(frozen=True)
class Part:
    """A block with its sentences."""

    block: Block
    cut: Cut

    @classmethod
    def of(cls, block: Block) -> "Part":
        """Line breaks in HTML are spaces and end no sentence; between sentences they stay what they were."""
        found = cut(block.text.replace("\n", " ").replace("\r", " "))
        gaps, position = [], 0
        for gap, sentence in zip(found.gaps, (*found.sentences, ""), strict=True):
            gaps.append(block.text[position : position + len(gap)])
            position += len(gap) + len(sentence)
        return cls(block, Cut(tuple(gaps), found.sentences))


class Page:
    """The parts of an HTML text."""

    def __init__(self, html: str) -> None:
        self.parts: list[str | Part] = []
        for one in parse(html):
            part = one if isinstance(one, str) else Part.of(one)
            if isinstance(part, Part) and not part.cut.sentences:
                part = part.block.raw  # nothing to translate: as it was written
            self.parts.append(part)

    @property
    def sentences(self) -> list[str]:
        """What there is to translate, white space as HTML shows it."""
        return [" ".join(s.split()) for part in self.parts if isinstance(part, Part) for s in part.cut.sentences]

    def marked(self, translations: Sequence[str]) -> list[tuple[str, str]]:
        """The sentences of blocks with tags inside, with their translations: those that need an alignment."""
        return [
            pair
            for part, texts in self._with(translations)
            if isinstance(part, Part) and part.block.marks
            for pair in zip(part.cut.sentences, texts, strict=True)
        ]

    def filled(self, translations: Sequence[str], alignments: Sequence[Alignment]) -> str:
        """The page with these translations of its sentences, in their order. alignments: of those `marked`."""
        aligned, html = iter(alignments), []
        for part, texts in self._with(translations):
            if isinstance(part, str):
                html.append(part)
            elif not part.block.marks:
                html.append(written(part.cut.filled(texts)))
            else:
                whole = _joined(part.cut, texts, [next(aligned) for _ in texts])
                html.append(tagged(part.cut.filled(texts), part.block.marks, whole))
        return "".join(html)

    def _with(self, translations: Sequence[str]) -> list[tuple[str | Part, list[str]]]:
        rest = iter(translations)
        return [(p, [next(rest) for _ in p.cut.sentences] if isinstance(p, Part) else []) for p in self.parts]


def _joined(cut: Cut, texts: Sequence[str], alignments: Sequence[Alignment]) -> Alignment:
    """The alignment of a whole block: its sentences by theirs, and what stands between them with itself."""
    parts, ours, theirs = [], 0, 0
    for i, gap in enumerate(cut.gaps):
        steps = [(by_place(gap, gap), gap, gap)]
        if i < len(texts):
            steps.append((alignments[i], cut.sentences[i], texts[i]))
        for one, source, target in steps:
            moved = [[(a + at, b + at) for a, b in spans] for spans, at in ((one.source, ours), (one.target, theirs))]
            parts.append(Alignment(moved[0], moved[1], one.weights))
            ours, theirs = ours + len(source), theirs + len(target)
    source_words = [span for part in parts for span in part.source]
    target_words = [span for part in parts for span in part.target]
    weights = np.zeros((len(target_words), len(source_words)))
    row = column = 0
    for part in parts:
        rows, columns = len(part.target), len(part.source)
        weights[row : row + rows, column : column + columns] = part.weights
        row, column = row + rows, column + columns
    return Alignment(source_words, target_words, weights)
