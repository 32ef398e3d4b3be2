"""What runs a model for a translator: from token numbers to hypotheses."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.decode.beam import beam_search
from regard.decode.greedy import greedy
from regard.decode.options import DecodeOptions
from regard.decode.protocol import Hypothesis, least_limit
from regard.decode.sample import sample
from regard.text import EOS, PAD
from regard.workers import Workers

FEW = 8  # rows of a sentence, up to which a batch is as large as was asked for


class Engine(Protocol):
    """Decodes inputs (tokens without begin and end) into hypotheses, best first."""

    limit: int | None  # the most tokens an input can have; None when any number will do

    def check(self, options: DecodeOptions) -> None:
        """Refuses what it cannot do, before anything is read or written."""

    def decode(
        self, inputs: Sequence[list[int]], numbers: Sequence[int], options: DecodeOptions, *, scored: bool = True
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Which input it is and what was found, in whatever order, batch by batch while others still run.

        numbers: by which each input's random draws are told apart. scored: else scores may be left out (nan).
        """


class Torch:
    """One model or several (an ensemble) that speak the decoding protocol. On a CPU, batches run side by side."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self.device = next(models[0].parameters()).device
        self.models: list[Any] = [fast(m.eval()) for m in models]
        self.limit = least_limit(self.models)
        self.workers = Workers(torch.get_num_threads() if self.device.type == "cpu" else 1)

    def check(self, options: DecodeOptions) -> None:
        """It can do all of them."""

    def decode(
        self, inputs: Sequence[list[int]], numbers: Sequence[int], options: DecodeOptions, *, scored: bool = True
    ) -> Iterator[tuple[int, list[Hypothesis]]]:
        """Inputs of like length are decoded together."""

        def work(batch: list[int]) -> list[list[Hypothesis]]:
            source, lengths = pad([[*inputs[i], EOS] for i in batch], self.device)
            if options.sample:
                return sample(self.models, source, lengths, options, [numbers[i] for i in batch])
            if options.beam == 1:
                return greedy(self.models, source, lengths, options, scored=scored)
            return beam_search(self.models, source, lengths, options)

        rows = options.n_best if options.sample else options.beam
        most = max(1, options.batch * FEW // max(FEW, rows))  # a step holds the logits of every row
        batches = batched([len(tokens) + 1 for tokens in inputs], most, self.workers.count)
        share = self.workers.map if len(batches) > 1 else map  # one sentence has all cores
        for batch, groups in zip(batches, share(work, batches), strict=True):
            yield from zip(batch, groups, strict=True)


def batched(lengths: Sequence[int], tokens: int, workers: int) -> list[list[int]]:
    """Numbers of inputs of like length, at most so many tokens together with padding, the longest first.

    As few as there must be, made up to as many for each worker; none larger than that needs, so that all end together.
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])

    def cut(room: int) -> list[list[int]]:
        batches, start = [], 0
        while start < len(order):
            end = start + max(1, room // lengths[order[start]])
            batches.append(order[start:end])
            start = end
        return batches

    most = workers * math.ceil(len(cut(tokens)) / workers)
    return cut(bisect_left(range(tokens), True, key=lambda room: len(cut(room)) <= most))


def fast(model: Any) -> Any:
    """A model may offer a twin of itself that decodes faster."""
    return model.for_decoding() if hasattr(model, "for_decoding") else model


def pad(sequences: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Sequences as one tensor, padded at the end, and their lengths."""
    lengths = torch.tensor([len(s) for s in sequences])
    padded = torch.full((len(sequences), int(lengths.max())), PAD)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = torch.tensor(sequence)
    return padded.to(device), lengths.to(device)
