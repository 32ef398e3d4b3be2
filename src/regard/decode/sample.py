"""Sampling: temperature, then top-k, then nucleus, over the decoding protocol, after any given beginning."""

# Shapes: N sentences, R rows, T length, V vocabulary.

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from regard.decode.beam import top
from regard.decode.greedy import likeliest
from regard.decode.options import DecodeOptions
from regard.decode.protocol import Decodable, Hypothesis, Model, averaged
from regard.text import Specials

COLDEST = 1e-6  # what is less is nothing in float32
HEAD = 256  # tokens among which a nucleus is looked for first
BLOCK = 256  # places whose random numbers are made together
APART = 0x9E3779B9  # between the seeds of one sentence's outputs


def sample(
    models: Sequence[Decodable],
    source: Tensor,
    lengths: Tensor,
    options: DecodeOptions,
    numbers: Sequence[int] | None = None,
    starts: Sequence[Sequence[int]] | None = None,
    specials: Specials | None = None,
) -> list[list[Hypothesis]]:
    """n_best random outputs of each sentence, likeliest first (see `Sampler`)."""
    sampler = Sampler(models, source, lengths, options, numbers, starts, specials)
    while not sampler.done:
        sampler.step()
    copies = options.n_best
    found = [sampler.written(row) for row in range(sampler.count)]
    groups = [found[i : i + copies] for i in range(0, len(found), copies)]
    return [sorted(group, key=lambda h: -h.score) for group in groups]


class Sampler:
    """Rows written side by side, a token each at every step.

    starts: what each sentence's output begins with, by default the begin symbol. It is given, not scored, and no part
    of what is written. Rows with a shorter start begin to draw while the others still read theirs.

    A draw depends on the seed, the sentence's number (its row, unless given), which of its outputs it is for and the
    place there alone; a row that has ended changes none of the others, and sentences all of whose rows have ended leave
    the batch in time.
    """

    @torch.inference_mode()
    def __init__(
        self,
        models: Sequence[Decodable],
        source: Tensor,
        lengths: Tensor,
        options: DecodeOptions,
        numbers: Sequence[int] | None = None,
        starts: Sequence[Sequence[int]] | None = None,
        specials: Specials | None = None,
    ) -> None:
        self.options, self.specials = options, specials or Specials()
        self.model = Model(models, source, lengths)
        device, copies, count = source.device, options.n_best, source.size(0)
        starts = starts or [[self.specials.begin]] * count
        self.every = torch.arange(count, device=device).repeat_interleave(copies)  # which sentence a row is of
        self.longest = options.longest(lengths, self.model.most_written)[self.every]  # R
        self.most: list[int] = self.longest.tolist()
        numbers = range(count) if numbers is None else numbers
        self.draws = Draws([options.seed * 1_000_003 + n + c * APART for n in numbers for c in range(copies)], device)
        self.given = torch.tensor([len(start) for start in starts], device=device)  # N, then R
        most = int(self.given.max())
        self.starts = torch.tensor([[*s, *[0] * (most - len(s))] for s in starts], device=device)  # N T, then R T
        self.tokens = self.starts[:, : int(self.given.min())]
        self.count = len(self.every)
        self.rows = list(range(self.count))  # those still in the batch, in its order
        self.left: dict[int, Hypothesis] = {}  # the others
        self.log_prob = torch.zeros(self.count, device=device)
        self.ended = torch.zeros_like(self.log_prob, dtype=torch.bool)
        self.size = torch.zeros_like(self.every)  # tokens written, without the end symbol
        self.begun = False
        # Is shown log p(next) (R V) of the rows in the batch before anything is forbidden.
        self.watch: Callable[[Tensor], None] | None = None

    @property
    def done(self) -> bool:
        return bool(self.ended.all())

    @torch.inference_mode()
    def step(self) -> list[int | None]:
        """One token more. What each row has written now; None where it is given or the row had ended before."""
        self._let_go()
        penalty = self.options.repetition_penalty
        log_probs = self.model.step(self.tokens[:, -1:] if self.begun else self.tokens, scored=penalty == 1)
        if not self.begun:
            self.begun = True
            if self.options.n_best > 1:
                self.model.reorder(self.every)
                log_probs, self.tokens = log_probs[self.every], self.tokens[self.every]
                self.given, self.starts = self.given[self.every], self.starts[self.every]
        likely = log_probs  # what is drawn from, before any rule; of one model with a penalty its logits
        if penalty != 1:
            likely, log_probs = self._penalised(log_probs, penalty), averaged([log_probs.log_softmax(-1)])
        if self.watch is not None:
            self.watch(log_probs)
        likely = self._shifted(likely)
        place = self.tokens.size(1) - self.given  # R; below 0 in the start
        self.options.forbid(log_probs, self.tokens, self.longest, self.given, self.specials)
        next_ = pick(likely.where(log_probs > -torch.inf, log_probs), self.draws.at(place), self.options)
        reading = place < 0
        if bool(reading.any()):
            next_ = torch.where(reading, self.starts[:, min(self.tokens.size(1), self.starts.size(1) - 1)], next_)
        silent = reading | self.ended
        self.log_prob += torch.where(silent, 0.0, log_probs.gather(1, next_[:, None]).squeeze(1))
        self.tokens = torch.cat((self.tokens, next_[:, None]), dim=1)
        ends = (next_ == self.specials.end) & ~reading
        self.size += ~(silent | ends)
        self.ended |= ends
        said: list[int | None] = [None] * self.count
        for row, no, token in zip(self.rows, silent.tolist(), next_.tolist(), strict=True):
            said[row] = None if no else token
        return said

    def _let_go(self) -> None:
        """Sentences that have ended leave the batch once they are a quarter of it: to copy the rest costs something."""
        copies = self.options.n_best
        ended = self.ended.view(-1, copies).all(1)  # N
        if not len(ended) > int(ended.sum()) >= len(ended) / 4:
            return
        open_ = ~ended.repeat_interleave(copies)
        self.left |= {row: self.written(row) for row, on in zip(self.rows, open_.tolist(), strict=True) if not on}
        self.rows = [row for row, on in zip(self.rows, open_.tolist(), strict=True) if on]
        kept = open_.nonzero().squeeze(1)
        self.model.reorder(kept)
        self.model.keep((~ended).nonzero().squeeze(1))
        self.draws.keep(kept)
        for name in ("tokens", "given", "starts", "longest", "log_prob", "ended", "size"):
            setattr(self, name, getattr(self, name)[kept])

    @torch.inference_mode()
    def stop(self, row: int) -> None:
        """Nothing more is wanted of this row."""
        self.ended[self.rows.index(row)] = True

    def full(self, row: int) -> bool:
        """Whether a row has as many tokens as it may have."""
        size = len(self.left[row].tokens) if row in self.left else int(self.size[self.rows.index(row)])
        return size >= self.most[row]

    def written(self, row: int) -> Hypothesis:
        if row in self.left:
            return self.left[row]
        at = self.rows.index(row)
        ids = self.tokens[at, int(self.given[at]) :][: int(self.size[at])].tolist()
        total = float(self.log_prob[at])
        return Hypothesis(tuple(ids), total, self.options.normalise(total, len(ids) + 1))

    def _penalised(self, logits: Tensor, penalty: float) -> Tensor:
        """The logit of what a row holds already, divided by the penalty, or times it below 0 (Keskar 2019).

        An ensemble has no logits; its log-probabilities stand for them.
        """
        seen = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, self.tokens, True)
        seen[:, [self.specials.begin, self.specials.end]] = False
        return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)

    def _shifted(self, logits: Tensor) -> Tensor:
        """Each logit with its bias, less the frequency penalty for each time that the row wrote it, and the presence
        penalty if it did at all. What a row was given does not count. (To log-probabilities it is the same.)
        """
        options = self.options
        if options.logit_bias:
            bias = torch.tensor(options.logit_bias, device=logits.device)  # tokens, 2
            logits = logits.index_add(1, bias[:, 0].long(), bias[:, 1].expand(len(logits), -1))
        if options.frequency_penalty or options.presence_penalty:
            own = torch.arange(self.tokens.size(1), device=logits.device) >= self.given[:, None]
            counts = torch.zeros_like(logits).scatter_add_(1, self.tokens, own.to(logits.dtype))
            logits = logits - options.frequency_penalty * counts - options.presence_penalty * (counts > 0)
        return logits


class Draws:
    """Random numbers from 0 to 1, of each row from a seed of its own, made as the outputs grow."""

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        self.generators = [torch.Generator().manual_seed(seed % 2**63) for seed in seeds]
        self.made = torch.empty(len(seeds), 0, device=device)  # R T

    def at(self, place: Tensor) -> Tensor:
        """Those of each row's place (R), which grows by one at every step; below 0 any will do."""
        if int(place.max()) >= self.made.size(1):
            more = torch.stack([torch.rand(BLOCK, generator=generator) for generator in self.generators])
            self.made = torch.cat((self.made, more.to(self.made.device)), 1)
        return self.made.gather(1, place.clamp(min=0)[:, None]).squeeze(1)

    def keep(self, rows: Tensor) -> None:
        self.made, self.generators = self.made[rows], [self.generators[row] for row in rows.tolist()]


def pick(log_probs: Tensor, draw: Tensor, options: DecodeOptions) -> Tensor:
    """The token at which the cumulated probability passes the draw, after temperature, top-k and nucleus."""
    if options.top_k == 1:
        return likeliest(log_probs)
    below = log_probs - log_probs.amax(-1, keepdim=True)  # the best stays 0 however small the temperature is
    weights = (below / max(options.temperature, COLDEST)).exp()  # R V
    order = None  # to sort all of them takes longer than most models take to make them
    if options.top_k:
        weights, order = top(weights, options.top_k)
    mass = weights.sum(-1, keepdim=True)
    if options.top_p < 1:
        if order is None:
            head, order = top(weights, HEAD)
            if bool((head.sum(-1, keepdim=True) < options.top_p * mass).any()):
                head, order = weights.sort(descending=True, stable=True)
            weights = head
        before = weights.cumsum(-1) - weights
        weights = weights.masked_fill(before >= options.top_p * mass, 0)  # the one that crosses top_p stays
    total = weights.cumsum(-1)
    end = total[:, -1:]
    # Below the end, however the product is rounded: what has no weight is never passed.
    wanted = torch.minimum(draw[:, None] * end, end.nextafter(torch.zeros_like(end)))
    chosen = torch.searchsorted(total, wanted, right=True)
    return (chosen if order is None else order.gather(1, chosen)).squeeze(1)
