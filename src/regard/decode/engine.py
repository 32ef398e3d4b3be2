"""What runs a model for a translator: from token numbers to hypotheses."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.decode.beam import beam_search
from regard.decode.options import DecodeOptions
from regard.decode.protocol import Hypothesis, least_limit
from regard.decode.sample import sample
from regard.text import EOS, PAD


class Engine(Protocol):
    """Decodes inputs (tokens without begin and end) into hypotheses, best first, in the order of the inputs."""

    limit: int | None  # the most tokens an input can have; None when any number will do

    def check(self, options: DecodeOptions) -> None:
        """Refuses what it cannot do, before anything is read or written."""

    def decode(
        self, inputs: Sequence[list[int]], numbers: Sequence[int], options: DecodeOptions
    ) -> list[list[Hypothesis]]:
        """numbers: by which each input's random draws are told apart."""


class Torch:
    """One model or several (an ensemble) that speak the decoding protocol."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self.models: list[Any] = [m.eval() for m in models]
        self.limit = least_limit(self.models)

    def check(self, options: DecodeOptions) -> None:
        """It can do all of them."""

    def decode(
        self, inputs: Sequence[list[int]], numbers: Sequence[int], options: DecodeOptions
    ) -> list[list[Hypothesis]]:
        """Inputs of like length are decoded together."""
        found: list[list[Hypothesis]] = [[] for _ in inputs]
        order = sorted(range(len(inputs)), key=lambda i: len(inputs[i]))
        device = next(self.models[0].parameters()).device
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and (len(inputs[order[end]]) + 1) * (end + 1 - start) <= options.batch:
                end += 1
            batch = order[start:end]
            source, lengths = pad([[*inputs[i], EOS] for i in batch], device)
            if options.sample:
                groups = sample(self.models, source, lengths, options, [numbers[i] for i in batch])
            else:
                groups = beam_search(self.models, source, lengths, options)
            for i, group in zip(batch, groups, strict=True):
                found[i] = group
            start = end
        return found


def pad(sequences: Sequence[Sequence[int]], device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Sequences as one tensor, padded at the end, and their lengths."""
    lengths = torch.tensor([len(s) for s in sequences])
    padded = torch.full((len(sequences), int(lengths.max())), PAD)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: len(sequence)] = torch.tensor(sequence)
    return padded.to(device), lengths.to(device)
