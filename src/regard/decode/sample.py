"""Sampling: temperature, then top-k, then nucleus, over the decoding protocol."""

# Shapes: N sentences, R rows, T length, V vocabulary.

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decode.options import DecodeOptions
from regard.decode.protocol import Decodable, Hypothesis, Model
from regard.text import BOS, EOS


@torch.inference_mode()
def sample(
    models: Sequence[Decodable],
    source: Tensor,
    lengths: Tensor,
    options: DecodeOptions,
    numbers: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """n_best random outputs of each sentence, likeliest first.

    A draw depends on the seed, the sentence's number (its row, unless given) and the position alone.
    """
    model = Model(models, source, None if bool((lengths == source.size(1)).all()) else lengths)
    copies = options.n_best
    longest = options.longest(lengths, model.limit).repeat_interleave(copies)  # R
    numbers = range(source.size(0)) if numbers is None else numbers
    draws = _draws(options.seed, numbers, copies, int(longest.max()) + 1).to(source.device)  # R T
    tokens = torch.full((source.size(0), 1), BOS, device=source.device)
    every = torch.arange(source.size(0), device=source.device).repeat_interleave(copies)
    log_prob = torch.zeros(every.numel(), device=source.device)
    ended = torch.zeros_like(log_prob, dtype=torch.bool)
    for position in range(draws.size(1)):
        log_probs = model.step(tokens[:, -1:])
        if position == 0 and copies > 1:
            log_probs, tokens = log_probs[every], tokens[every]
            model.reorder(every)
        options.forbid(log_probs, tokens, longest)
        next_ = pick(log_probs, draws[:, position], options)
        log_prob += torch.where(ended, 0.0, log_probs.gather(1, next_[:, None]).squeeze(1))
        tokens = torch.cat((tokens, next_[:, None]), dim=1)
        ended |= next_ == EOS
        if bool(ended.all()):
            break
    found: list[list[Hypothesis]] = [[] for _ in range(source.size(0))]
    for row, (ids, total) in enumerate(zip(tokens[:, 1:].tolist(), log_prob.tolist(), strict=True)):
        written = ids[: ids.index(EOS)]
        found[row // copies].append(Hypothesis(tuple(written), total, options.normalise(total, len(written) + 1)))
    return [sorted(group, key=lambda h: -h.score) for group in found]


def pick(log_probs: Tensor, draw: Tensor, options: DecodeOptions) -> Tensor:
    """The token at which the cumulated probability passes the draw, after temperature, top-k and nucleus."""
    probs, order = (log_probs / options.temperature).softmax(-1).sort(dim=-1, descending=True, stable=True)
    if options.top_k:
        probs[:, options.top_k :] = 0
    before = probs.cumsum(-1) - probs
    mass = probs.sum(-1, keepdim=True)
    # The nucleus includes the token that crosses top_p.
    probs = probs.masked_fill(before >= options.top_p * mass, 0) if options.top_p < 1 else probs
    total = probs.cumsum(-1)
    rank = torch.searchsorted(total, draw[:, None] * total[:, -1:], right=True)
    last = (probs > 0).sum(-1, keepdim=True) - 1
    return order.gather(1, torch.minimum(rank, last)).squeeze(1)


def _draws(seed: int, numbers: Sequence[int], copies: int, length: int) -> Tensor:
    rows = []
    for number in numbers:
        generator = torch.Generator().manual_seed((seed * 1_000_003 + number) % 2**63)
        rows.append(torch.rand(length, copies, generator=generator).t())  # position by position: prefix-stable
    return torch.cat(rows)
