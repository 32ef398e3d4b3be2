"""Text in, text out: an engine with its tokenizers, and splitting of over-long input."""

import math
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from regard.decode.engine import Engine
from regard.decode.options import DecodeOptions
from regard.decode.protocol import Hypothesis
from regard.text import Tokenizer

# Together the matches are the whole text.
SENTENCE = re.compile(r".+?(?:[.!?…][\"'»”’)\]]*\s+|[。！？][」』”’）]*|\Z)", re.DOTALL)
WORD = re.compile(r"\S+\s*|\s+")
# The end of a text in Thai, Lao, Burmese, Khmer, kana, Han, or with their full-width punctuation.
UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uff01-\uff60\U00020000-\U0003ffff][”’…]*\Z"
)
WINDOW = 512  # lines sorted by length and decoded together while streaming
PART = 1_000_000_007  # between the numbers of two parts of one text


@dataclass(frozen=True)
class Translation:
    """One output with the score it is ranked by and its tokens' probability, as a geometric mean (0 to 1)."""

    text: str
    score: float
    confidence: float


class OverlongWarning(UserWarning):
    """An input was longer than the model is made for and was translated in parts."""


class Translator:
    """Translates texts with an engine and its tokenizers. cut: of an over-long text only the beginning is read."""

    def __init__(
        self,
        engine: Engine,
        source: Tokenizer,
        target: Tokenizer,
        options: DecodeOptions,
        max_source: int,
        *,
        cut: bool = False,
    ) -> None:
        self.engine, self.cut = engine, cut
        self.source, self.target = source, target
        self.options = options
        self.max_source = max_source if engine.limit is None else min(max_source, engine.limit)

    def translate(self, texts: Sequence[str], options: DecodeOptions | None = None) -> list[str]:
        """The best translation of each text. An empty text stays empty."""
        return [found[0].text for found in self.n_best(texts, options, scored=False)]

    def stream(
        self, lines: Iterable[str], options: DecodeOptions | None = None, window: int = WINDOW, *, scored: bool = True
    ) -> Iterator[list[Translation]]:
        """Translations in the order of the lines, window by window; memory does not grow with the input.

        The first windows are small, so that the first results come soon.
        """
        rest, first, size = iter(lines), 0, min(16, window)
        while texts := list(islice(rest, size)):
            yield from self.n_best(texts, options, first, scored=scored)
            first, size = first + len(texts), min(2 * size, window)

    def n_best(
        self, texts: Sequence[str], options: DecodeOptions | None = None, first: int = 0, *, scored: bool = True
    ) -> list[list[Translation]]:
        """The n best translations of each text, best first. `first` numbers the texts, for warnings and sampling.

        scored: else the engine may leave scores out, which are nan then.
        """
        inputs: list[list[int]] = []
        places: list[tuple[int, int]] = []  # which text each input is of, and which part of it
        parts: list[list[list[Hypothesis] | None]] = [[] for _ in texts]  # None: not there yet
        there = [i for i, text in enumerate(texts) if text.strip()]
        for i, tokens in zip(there, self.source.encode_batch([texts[i] for i in there]), strict=True):
            pieces = self._pieces(texts[i], tokens, first + i)
            inputs += pieces
            places += [(i, part) for part in range(len(pieces))]
            parts[i] = [None] * len(pieces)
        numbers = [first + i + PART * part for i, part in places]
        found = [[Translation("", 0.0, 1.0)] for _ in texts]
        for place, hypotheses in self.engine.decode(inputs, numbers, options or self.options, scored=scored):
            i, part = places[place]
            parts[i][part] = hypotheses
            if None not in parts[i]:  # text is made while the engine goes on with others
                found[i] = self._join(list(filter(None, parts[i])))
        return found

    def _pieces(self, text: str, tokens: list[int], number: int) -> list[list[int]]:
        """A text's tokens; in several pieces, cut at sentence ends, when it is longer than the model is made for."""
        if len(tokens) <= self.max_source or self.cut:
            return [tokens[: self.max_source]]
        size = self.max_source
        whole = [self.source.encode(part.strip()) for part in self._split(text) if part.strip()]
        # One character may have more tokens than fit: those alone are cut anywhere.
        pieces = [tokens[i : i + size] for tokens in whole for i in range(0, len(tokens), size)]
        warnings.warn(
            f"input {number + 1} has {len(tokens)} tokens, more than the {self.max_source} the model is made for; "
            f"it is translated in {len(pieces)} parts",
            OverlongWarning,
            stacklevel=4,
        )
        return pieces

    def _split(self, text: str) -> Iterator[str]:
        """Whole sentences as far as they fit together; together the parts are the text."""
        held = ""
        for unit in self._units(text, (SENTENCE, WORD)):
            if held and not self._fits(held + unit):
                yield held
                held = ""
            held += unit
        yield held

    def _units(self, text: str, cuts: tuple[re.Pattern[str], ...]) -> Iterator[str]:
        """What fits: sentences, else words, else halves of a word and of its halves."""
        if self._fits(text) or len(text) == 1:
            yield text
        elif cuts:
            for unit in cuts[0].findall(text):
                yield from self._units(unit, cuts[1:])
        else:
            for half in (text[: len(text) // 2], text[len(text) // 2 :]):
                yield from self._units(half, cuts)

    def _fits(self, text: str) -> bool:
        return len(self.source.encode(text.strip())) <= self.max_source

    def _join(self, pieces: list[list[Hypothesis]]) -> list[Translation]:
        """The parts of one text put together again: the i-th best with the i-th best."""
        if not pieces:  # the model gives no probability to any output
            return [Translation("", -math.inf, 0.0)]
        if len(pieces) == 1:  # nearly always
            decode = self.target.decode
            return [
                Translation(decode(h.tokens), h.score, math.exp(h.log_prob / (len(h.tokens) + 1))) for h in pieces[0]
            ]
        joined = []
        for rank in range(min(len(group) for group in pieces)):
            chosen = [group[rank] for group in pieces]
            length = sum(len(h.tokens) + 1 for h in chosen)
            log_prob = sum(h.log_prob for h in chosen)
            score = sum(h.score for h in chosen) / len(chosen)
            text = _joined([self.target.decode(h.tokens) for h in chosen])
            joined.append(Translation(text, score, math.exp(log_prob / length)))
        return joined


def _joined(parts: Sequence[str]) -> str:
    """Parts with a space between, but not after a script that is written without (Chinese, Japanese, Thai)."""
    text = ""
    for part in filter(None, parts):
        gap = "" if not text or UNSPACED.search(text) else " "
        text += gap + part
    return text
