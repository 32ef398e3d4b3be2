"""Small models that speak the decoding protocol, whose answers are known without them."""

import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.decode import Hypothesis
from regard.text import EOS

Source = tuple[int, ...]
Prefix = tuple[int, ...]


class Rows:
    """The prefixes that a model has read, row by row, and the sentences that they belong to."""

    def __init__(self, sources: list[Source]) -> None:
        self.sources = sources
        self.prefixes: list[Prefix] = [()] * len(sources)

    def reorder(self, rows: Tensor) -> None:
        self.prefixes = [self.prefixes[i] for i in rows.tolist()]

    def keep(self, sentences: Tensor) -> None:
        self.sources = [self.sources[i] for i in sentences.tolist()]


class Toy(nn.Module):
    """Logits from a function of the source (without padding) and of all tokens read so far."""

    def __init__(self, logits: Callable[[Source, Prefix], Sequence[float]], limit: int | None = None) -> None:
        super().__init__()
        self.logits, self.limit = logits, limit
        self.place = nn.Parameter(torch.zeros(()))  # says which device

    def encode(self, source: Tensor, lengths: Tensor | None) -> list[Source]:
        sizes = [source.size(1)] * len(source) if lengths is None else lengths.tolist()
        return [tuple(row[:n]) for row, n in zip(source.tolist(), sizes, strict=True)]

    def start(self, memory: list[Source]) -> Rows:
        return Rows(list(memory))

    def step(self, tokens: Tensor, state: Rows) -> tuple[Tensor, Rows]:
        assert len(tokens) == len(state.prefixes)
        assert len(tokens) % len(state.sources) == 0
        each = len(tokens) // len(state.sources)
        state.prefixes = [(*p, *new) for p, new in zip(state.prefixes, tokens.tolist(), strict=True)]
        return torch.tensor([self.logits(state.sources[i // each], p) for i, p in enumerate(state.prefixes)]), state


def table(vocabulary: int, seed: int = 0, spread: float = 1.5) -> Callable[[Source, Prefix], list[float]]:
    """Random logits, but always the same for one source and prefix."""

    def logits(source: Source, prefix: Prefix) -> list[float]:
        generator = torch.Generator().manual_seed(zlib.crc32(repr((seed, source, prefix)).encode()))
        return (torch.randn(vocabulary, generator=generator) * spread).tolist()

    return logits


def fixed(probabilities: dict[int, float], vocabulary: int) -> Callable[[Source, Prefix], list[float]]:
    """The same distribution everywhere."""
    row = [math.log(probabilities[i]) if probabilities.get(i) else -math.inf for i in range(vocabulary)]
    return lambda source, prefix: row


def echo(vocabulary: int) -> Callable[[Source, Prefix], list[float]]:
    """Writes what it reads. To end early is the least likely, or a beam's worth of that would end the search."""

    def logits(source: Source, prefix: Prefix) -> list[float]:
        wanted = source[len(prefix) - 1] if len(prefix) <= len(source) else EOS
        return [30.0 if i == wanted else -30.0 if i == EOS else 0.0 for i in range(vocabulary)]

    return logits


def log_probs(logits: Sequence[float]) -> list[float]:
    total = math.log(sum(math.exp(x) for x in logits))
    return [x - total for x in logits]


def padded(sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([len(s) for s in sources])
    rows = torch.zeros(len(sources), int(lengths.max()), dtype=torch.long)
    for row, source in zip(rows, sources, strict=True):
        row[: len(source)] = torch.tensor(source)
    return rows, lengths


def ids(found: Any) -> list[list[tuple[int, ...]]]:
    return [[h.tokens for h in group] for group in found]


def in_order(found: Iterable[tuple[int, list[Hypothesis]]]) -> list[list[Hypothesis]]:
    """What an engine decodes, by the inputs' order."""
    return [group for _, group in sorted(found, key=lambda pair: pair[0])]
