"""Batched beam search with the paper's length penalty, over the decoding protocol."""

# Shapes: N sentences still open, W beam width, R = N W rows, T length, V vocabulary.

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decode.options import DecodeOptions
from regard.decode.protocol import Decodable, Hypothesis, Model
from regard.text import BOS, EOS


@torch.inference_mode()
def beam_search(
    models: Sequence[Decodable], source: Tensor, lengths: Tensor, options: DecodeOptions
) -> list[list[Hypothesis]]:
    """The n best outputs of each sentence, best first.

    A sentence is done when `beam` hypotheses have ended. Each has its own limit of length, so that its result does
    not depend on its neighbours; at the limit only the end symbol may follow.
    """
    model = Model(models, source, None if bool((lengths == source.size(1)).all()) else lengths)
    width = options.beam
    finished: list[list[Hypothesis]] = [[] for _ in range(source.size(0))]
    place = torch.arange(source.size(0), device=source.device)  # N: which input each open sentence is
    longest = options.longest(lengths, model.limit)  # N
    tokens = torch.full((source.size(0), 1), BOS, device=source.device)  # R T; one row a sentence at first
    scores = torch.zeros(source.size(0), 1, device=source.device)  # N W: log P of each row
    while place.numel():
        open_, rows = scores.shape
        log_probs = model.step(tokens[:, -1:])  # R V
        options.forbid(log_probs, tokens, longest.repeat_interleave(rows))
        total = (scores.view(-1, 1) + log_probs).view(open_, -1)  # N W*V
        # Twice the width: even if `width` of them end here, as many can go on.
        scores, chosen = total.topk(min(2 * width, total.size(1)))  # N 2W, best first
        parents = chosen // log_probs.size(1) + torch.arange(open_, device=source.device)[:, None] * rows
        next_ = chosen % log_probs.size(1)
        ends = next_ == EOS
        _collect(finished, place, tokens, scores, parents, ends, options)
        done = torch.tensor([len(finished[i]) >= width for i in place.tolist()], device=source.device)
        scores, order = scores.masked_fill(ends, -torch.inf).topk(min(width, scores.size(1)))  # N W
        done |= scores[:, 0] == -torch.inf
        kept = (~done).nonzero().squeeze(1)
        parents, next_ = parents.gather(1, order)[kept], next_.gather(1, order)[kept]
        tokens = torch.cat((tokens[parents.view(-1)], next_.view(-1, 1)), dim=1)
        if not _same(parents.view(-1), open_ * rows):
            model.reorder(parents.view(-1))
        if kept.numel() < open_:
            model.keep(kept)
            place, longest, scores = place[kept], longest[kept], scores[kept]
    return [sorted(found, key=lambda h: -h.score)[: options.n_best] for found in finished]


def _collect(
    finished: list[list[Hypothesis]],
    place: Tensor,
    tokens: Tensor,
    scores: Tensor,
    parents: Tensor,
    ends: Tensor,
    options: DecodeOptions,
) -> None:
    """Hypotheses that end within the best `beam` candidates are finished."""
    ended = ends[:, : options.beam] & scores[:, : options.beam].isfinite()
    for sentence, rank in ended.nonzero().tolist():
        log_prob = float(scores[sentence, rank])
        written = tokens[parents[sentence, rank], 1:].tolist()
        score = options.normalise(log_prob, len(written) + 1)
        finished[int(place[sentence])].append(Hypothesis(tuple(written), log_prob, score))


def _same(rows: Tensor, count: int) -> bool:
    return rows.numel() == count and bool((rows == torch.arange(count, device=rows.device)).all())
