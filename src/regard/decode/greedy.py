"""Greedy search: the likeliest token, again and again. What beam search of width one finds, without its bookkeeping."""

# Shapes: N sentences still open, T length, V vocabulary.

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decode.options import DecodeOptions
from regard.decode.protocol import NOT_NUMBERS, Decodable, Hypothesis, Model
from regard.errors import UserError
from regard.text import BOS, EOS


@torch.inference_mode()
def greedy(
    models: Sequence[Decodable], source: Tensor, lengths: Tensor, options: DecodeOptions, *, scored: bool = True
) -> list[list[Hypothesis]]:
    """One output of each sentence. scored: else no softmax is made, and its score and log-probability are nan."""
    model = Model(models, source, lengths)
    found: list[list[Hypothesis]] = [[] for _ in range(source.size(0))]
    places = list(range(source.size(0)))  # which input each open sentence is
    longest = options.longest(lengths, model.most_written)  # N
    tokens = torch.full((source.size(0), 1), BOS, device=source.device)  # N T
    total = torch.zeros(source.size(0), device=source.device)  # N: log P so far
    while True:
        scores = model.step(tokens[:, -1:], scored=scored)  # N V
        options.forbid(scores, tokens, longest)
        next_ = likeliest(scores)[:, None]  # N 1
        total += scores.gather(1, next_)[:, 0]
        sums, kept = total.tolist(), []
        for i, token in enumerate(next_[:, 0].tolist()):
            if not sums[i] < math.inf:
                raise UserError(NOT_NUMBERS)
            if sums[i] == -math.inf:  # nothing may follow
                continue
            if token != EOS:
                kept.append(i)
                continue
            written = tokens[i, 1:].tolist()
            log_prob = sums[i] if scored else math.nan
            found[places[i]].append(Hypothesis(tuple(written), log_prob, options.normalise(log_prob, len(written) + 1)))
        if not kept:
            return found
        if len(kept) < len(places):
            left = torch.tensor(kept, device=source.device)
            places = [places[i] for i in kept]
            tokens, next_, total, longest = tokens[left], next_[left], total[left], longest[left]
            model.reorder(left)
            model.keep(left)
        tokens = torch.cat((tokens, next_), dim=1)


def likeliest(scores: Tensor) -> Tensor:
    """Where each row has its largest number. NumPy looks for it a multiple as fast as PyTorch."""
    if scores.device.type != "cpu":
        return scores.argmax(-1)
    return torch.from_numpy(scores.numpy().argmax(-1))
