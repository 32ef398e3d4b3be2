"""Batched beam search with the paper's length penalty, over the decoding protocol."""

# Shapes: N sentences still open, W beam width, R = N W rows, C candidates, T length, V vocabulary.

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decode.options import DecodeOptions
from regard.decode.protocol import Decodable, Hypothesis, Model
from regard.text import Specials

BLOCK = 128  # see `top`


@torch.inference_mode()
def beam_search(
    models: Sequence[Decodable],
    source: Tensor,
    lengths: Tensor,
    options: DecodeOptions,
    starts: Tensor | None = None,
    specials: Specials | None = None,
) -> list[list[Hypothesis]]:
    """The n best outputs of each sentence, best first. starts: what they begin with (N T), by default the begin symbol.

    A sentence is done when `beam` hypotheses have ended. Each has its own limit of length, so that its result does
    not depend on its neighbours; at the limit only the end symbol may follow.
    """
    model = Model(models, source, lengths)
    width = options.beam
    finished: list[list[Hypothesis]] = [[] for _ in range(source.size(0))]
    places = list(range(source.size(0)))  # which input each open sentence is
    longest = options.longest(lengths, model.most_written)[:, None]  # N W
    specials = specials or Specials()
    if starts is None:
        starts = torch.full((source.size(0), 1), specials.begin, device=source.device)
    tokens, new, given = starts, starts, starts.size(1)  # R T; one row a sentence at first
    scores = torch.zeros(source.size(0), 1, device=source.device)  # N W: log P of each row
    while places:
        rows = scores.size(1)
        log_probs = model.step(new)  # R V
        options.forbid(log_probs, tokens, longest.expand(-1, rows).reshape(-1), given, specials)
        # Twice the width: even if `width` of them end here, as many can go on.
        values, ids = top(log_probs, 2 * width)  # R C: no row can have more of the best
        total = (scores.reshape(-1, 1) + values).view(len(places), -1)  # N W*C
        scores, chosen = total.topk(min(2 * width, total.size(1)))  # N 2W, best first
        next_ = ids.view(len(places), -1).gather(1, chosen)
        parents = chosen.div_(ids.size(1), rounding_mode="floor")  # N 2W: rows within the sentence
        parents += torch.arange(0, len(places) * rows, rows, device=source.device)[:, None]
        left: Tensor | None = None
        ends = (next_ == specials.end) | (scores == -torch.inf)
        if bool(ends.any()):
            _collect(finished, places, tokens[:, given:], scores, parents, next_ == specials.end, options)
            scores, order = scores.masked_fill_(ends, -torch.inf).topk(min(width, scores.size(1)))
            parents, next_ = parents.gather(1, order), next_.gather(1, order)
            dead = scores[:, 0].eq(-torch.inf).tolist()
            kept = [i for i, at in enumerate(places) if len(finished[at]) < width and not dead[i]]
            if len(kept) < len(places):
                left = torch.tensor(kept, dtype=torch.long, device=source.device)
                places = [places[i] for i in kept]
                scores, parents, next_, longest = scores[left], parents[left], next_[left], longest[left]
        else:
            scores, parents, next_ = scores[:, :width], parents[:, :width], next_[:, :width]
        parents = parents.reshape(-1)
        if width > 1 or parents.numel() < tokens.size(0):
            model.reorder(parents)
            tokens = tokens[parents]
        if left is not None:
            model.keep(left)
        new = next_.reshape(-1, 1)
        tokens = torch.cat((tokens, new), dim=1)
    return [sorted(found, key=lambda h: -h.score)[: options.n_best] for found in finished]


def top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The largest of each row and where they are (R C), as `topk` finds them, in a fraction of its time for many rows.

    The largest are among the blocks with the largest maxima, and a maximum is quick to find.
    """
    rows, size = scores.shape
    blocks = size // BLOCK
    if rows < 4 or blocks < 4 * count:
        return scores.topk(min(count, size))
    best = scores[:, : blocks * BLOCK].reshape(rows, blocks, BLOCK).amax(-1).topk(count).indices  # R C
    inside = (best[:, :, None] * BLOCK + torch.arange(BLOCK, device=scores.device)).view(rows, -1)  # R C*BLOCK
    rest = torch.arange(blocks * BLOCK, size, device=scores.device).expand(rows, -1)
    inside = torch.cat((inside, rest), dim=1)
    values, order = scores.gather(1, inside).topk(count)
    return values, inside.gather(1, order)


def _collect(
    finished: list[list[Hypothesis]],
    places: list[int],
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
        written = tokens[parents[sentence, rank]].tolist()
        score = options.normalise(log_prob, len(written) + 1)
        finished[places[sentence]].append(Hypothesis(tuple(written), log_prob, score))
