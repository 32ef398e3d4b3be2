"""Text in, text out: a model or an ensemble with its tokenizers, batching, and splitting of over-long input."""

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor, nn

from regard.decode.beam import beam_search
from regard.decode.options import DecodeOptions
from regard.decode.protocol import Hypothesis
from regard.decode.sample import sample
from regard.text import EOS, PAD, Tokenizer

SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'»”’)\]]*\s+|(?<=[。！？])")
WINDOW = 512  # lines sorted by length and decoded together while streaming


@dataclass(frozen=True)
class Translation:
    """One output with the score it is ranked by and the mean probability of its tokens (0 to 1)."""

    text: str
    score: float
    confidence: float


class OverlongWarning(UserWarning):
    """An input was longer than the model is made for and was translated in parts."""


class Translator:
    """Translates texts with one model or several (an ensemble) that share their tokenizers."""

    def __init__(
        self,
        models: Sequence[nn.Module],
        source: Tokenizer,
        target: Tokenizer,
        options: DecodeOptions,
        max_source: int,
    ) -> None:
        self.models = [m.eval() for m in models]
        self.source, self.target = source, target
        self.options = options
        self.max_source = max_source

    def translate(self, texts: Sequence[str], options: DecodeOptions | None = None) -> list[str]:
        """The best translation of each text. An empty text stays empty."""
        return [found[0].text for found in self.n_best(texts, options)]

    def stream(self, lines: Iterable[str], options: DecodeOptions | None = None) -> Iterator[list[Translation]]:
        """Translations in the order of the lines, window by window; memory does not grow with the input."""
        rest, first = iter(lines), 0
        while window := list(islice(rest, WINDOW)):
            yield from self.n_best(window, options, first)
            first += len(window)

    def n_best(
        self, texts: Sequence[str], options: DecodeOptions | None = None, first: int = 0
    ) -> list[list[Translation]]:
        """The n best translations of each text, best first. `first` numbers the texts, for warnings and sampling."""
        options = options or self.options
        parts: list[tuple[int, list[int]]] = []  # which text, its tokens
        for number, text in enumerate(texts):
            parts += [(number, piece) for piece in self._pieces(text, first + number)]
        found = self._decode([piece for _, piece in parts], options, first)
        results: list[list[list[Hypothesis]]] = [[] for _ in texts]
        for (number, _), hypotheses in zip(parts, found, strict=True):
            results[number].append(hypotheses)
        return [self._join(pieces) for pieces in results]

    def _pieces(self, text: str, number: int) -> list[list[int]]:
        """A text's tokens; in several pieces, cut at sentence ends, when it is longer than the model is made for."""
        if not text.strip():
            return []
        tokens = self.source.encode(text)
        if len(tokens) <= self.max_source:
            return [tokens]
        pieces = list(self._split(text))
        warnings.warn(
            f"input {number + 1} has {len(tokens)} tokens, more than the {self.max_source} the model is made for; "
            f"it is translated in {len(pieces)} parts",
            OverlongWarning,
            stacklevel=4,
        )
        return pieces

    def _split(self, text: str) -> Iterator[list[int]]:
        """Whole sentences as far as they fit together; a sentence that alone is too long is cut between words."""
        held = ""
        for unit in self._units(text):
            joined = f"{held} {unit}" if held else unit
            if held and len(self.source.encode(joined)) > self.max_source:
                yield self.source.encode(held)
                joined = unit
            held = joined
        tokens = self.source.encode(held)
        for start in range(0, len(tokens), self.max_source):  # one word longer than the limit: cut anywhere
            yield tokens[start : start + self.max_source]

    def _units(self, text: str) -> Iterator[str]:
        for sentence in SENTENCE_END.split(text):
            if not sentence.strip():
                continue
            if len(self.source.encode(sentence)) <= self.max_source:
                yield sentence
            else:
                for word in sentence.split():
                    tokens = self.source.encode(word)
                    if len(tokens) <= self.max_source:
                        yield word
                    else:
                        cuts = range(0, len(tokens), self.max_source)
                        yield from (self.source.decode(tokens[i : i + self.max_source]) for i in cuts)

    def _decode(self, inputs: list[list[int]], options: DecodeOptions, first: int) -> list[list[Hypothesis]]:
        """Decodes inputs of like length together; results in the order of the inputs."""
        found: list[list[Hypothesis]] = [[] for _ in inputs]
        order = sorted(range(len(inputs)), key=lambda i: len(inputs[i]))
        device = next(self.models[0].parameters()).device
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and (len(inputs[order[end]]) + 1) * (end + 1 - start) <= options.batch_tokens:
                end += 1
            batch = order[start:end]
            source, lengths = pad([[*inputs[i], EOS] for i in batch], device)
            if options.sample:
                # One by one: a draw is numbered by its sentence.
                groups = [
                    sample(self.models, source[j : j + 1, : lengths[j]], lengths[j : j + 1], options, first + i)[0]
                    for j, i in enumerate(batch)
                ]
            else:
                groups = beam_search(self.models, source, lengths, options)  # type: ignore[arg-type]
            for i, group in zip(batch, groups, strict=True):
                found[i] = group
            start = end
        return found

    def _join(self, pieces: list[list[Hypothesis]]) -> list[Translation]:
        """The parts of one text put together again: the i-th best with the i-th best."""
        if not pieces:
            return [Translation("", 0.0, 1.0)]
        joined = []
        for rank in range(min(len(group) for group in pieces)):
            chosen = [group[rank] for group in pieces]
            text = " ".join(self.target.decode(list(h.tokens)) for h in chosen)
            length = sum(len(h.tokens) + 1 for h in chosen)
            log_prob = sum(h.log_prob for h in chosen)
            score = sum(h.score for h in chosen) / len(chosen)
            joined.append(Translation(text, score, float(torch.tensor(log_prob / length).exp())))
        return joined


def pad(sequences: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Sequences as one tensor, padded at the end, and their lengths."""
    lengths = torch.tensor([len(s) for s in sequences])
    padded = torch.full((len(sequences), int(lengths.max())), PAD)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = torch.tensor(sequence)
    return padded.to(device), lengths.to(device)
