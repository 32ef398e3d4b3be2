"""Attention before the Transformer, one head over the source: dot, general and additive scores; global or local."""

# Shapes: R rows (hypotheses), N sentences, T queries, S keys, D state width, M memory width, A width of the scores.

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor, nn

from regard.nn.attention.cache import Fixed
from regard.nn.attention.mask import Mask
from regard.nn.attention.multihead import Kernel

Score = Literal["dot", "general", "additive"]
Span = Literal["global", "local-m", "local-p"]


class Window(Mask):
    """Keys near a place of each query's own (Luong 2015, section 3.2): |s - p| <= reach, clipped to the sentence.

    bell: a Gaussian around p multiplies the weights, after the softmax and without making their sum 1 again.
    """

    def __init__(self, places: Tensor, reach: int, *, bell: bool, lengths: Tensor | None) -> None:
        super().__init__(lengths=lengths)
        self.places, self.reach, self.bell = places, reach, bell  # N 1 T

    def _build(self, queries: int, keys: int, device: torch.device) -> Tensor:
        near = self._distance(keys).abs() <= self.reach  # N 1 T S
        real = super()._build(queries, keys, device)
        return near if real is None else near & real

    def shaped(self, weights: Tensor) -> Tensor:
        """The weights under the bell, sigma = reach / 2."""
        return weights * (-2 * (self._distance(weights.size(-1)) / self.reach) ** 2).exp() if self.bell else weights

    def _distance(self, keys: int) -> Tensor:
        return torch.arange(keys, device=self.places.device) - self.places[..., None]


class Aligner(Kernel):
    """softmax(score(q, k)) v with a score that is not divided by anything."""

    can = frozenset({"cross", "cache"})
    scaled = False

    @abstractmethod
    def scores(self, q: Tensor, k: Tensor) -> Tensor: ...

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
        return self.weights(q, k, mask) @ v

    def weights(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        scores = self.scores(q, k)  # N 1 T S
        allowed = mask.allowed(q.size(-2), k.size(-2), q.device)
        if allowed is not None:
            scores = scores.masked_fill(~allowed, -torch.inf)
        weights = scores.softmax(-1)
        return mask.shaped(weights) if isinstance(mask, Window) else weights


class Dot(Aligner):
    """q . k"""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1)


class Additive(Aligner):
    """v . tanh(q + k) (Bahdanau 2015, appendix A.1.2). v begins at zero, so that first every word counts the same."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.v = nn.Parameter(torch.empty(width))
        nn.init.zeros_(self.v)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return (q[:, :, :, None] + k[:, :, None]).tanh() @ self.v  # N 1 T S A -> N 1 T S


def look(kernel: Kernel, q: Tensor, source: Fixed, mask: Mask) -> Tensor:
    """One head's queries (R T A) over the source (R T M).

    The hypotheses of one sentence are further queries over its one memory: nothing is repeated.
    """
    rows, length, width = q.shape
    mixed: Tensor = kernel(q.reshape(source.k.size(0), 1, -1, width), source.k, source.v, mask)
    return mixed.view(rows, length, -1)


class Alignment(nn.Module):
    """The projections around a score, and where a local one looks."""

    def __init__(
        self, score: Score, d_state: int, d_memory: int, d_align: int, span: Span = "global", reach: int = 10
    ) -> None:
        super().__init__()
        self.span, self.reach = span, reach
        self.kernel = Additive(d_align) if score == "additive" else Dot()
        self.q: nn.Module = nn.Linear(d_state, d_align, bias=False) if score == "additive" else nn.Identity()
        width = d_align if score == "additive" else d_state
        self.k: nn.Module = nn.Identity() if score == "dot" else nn.Linear(d_memory, width, bias=False)
        if span == "local-p":
            self.place = nn.Sequential(
                nn.Linear(d_state, d_state, bias=False), nn.Tanh(), nn.Linear(d_state, 1, bias=False)
            )

    def project(self, memory: Tensor, values: Tensor) -> Fixed:
        """What is the same at every step, from what is compared with and what is taken (N S M)."""
        return Fixed(self.k(memory)[:, None], values[:, None])

    def forward(self, states: Tensor, source: Fixed, mask: Mask, start: int = 0) -> Tensor:
        """Of each state (R T D) what it looks for in its sentence (R T M). start: how many states were before."""
        if self.span != "global":
            places = self._places(states, source, mask, start).reshape(source.k.size(0), 1, -1)  # N 1 rows*T
            mask = Window(places, self.reach, bell=self.span == "local-p", lengths=mask.lengths)
        return look(self.kernel, self.q(states), source, mask)

    def _places(self, states: Tensor, source: Fixed, mask: Mask, start: int) -> Tensor:
        """p of each state (R T): its own number, or S sigmoid(v . tanh(W h)), equation 9."""
        rows, length, _ = states.shape
        each = torch.full((source.k.size(0),), source.k.size(2), device=states.device)
        each = (each if mask.lengths is None else mask.lengths).repeat_interleave(rows // len(each))[:, None]  # R 1
        if self.span == "local-p":
            places: Tensor = each * self.place(states).squeeze(-1).sigmoid()
            return places
        own = torch.arange(start, start + length, device=states.device).expand(rows, -1)
        return own.minimum(each - 1).to(states.dtype)  # past the end of the source it stays there
