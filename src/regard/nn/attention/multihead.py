"""Multi-head attention: projections around a kernel (section 3.2.2)."""

# Shapes: B batch, R rows (B, or hypotheses when decoding), H heads, T queries, S keys, D width, K head width.

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor, nn

from regard.nn.attention.cache import Fixed, Growing
from regard.nn.attention.mask import Mask
from regard.nn.fused import fuses, linear, linears
from regard.nn.position import Rotary


class Kernel(nn.Module, ABC):
    """From q, k, v and a mask to the mixed values. `can` says what it is able to do."""

    can: ClassVar[frozenset[str]]  # of: causal, cross, cache, dropout
    scaled: ClassVar[bool] = True  # its weights are softmax(q k^T / sqrt(d_k)), so that they can be shown step by step

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout

    @abstractmethod
    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor: ...

    @abstractmethod
    def weights(self, q: Tensor, k: Tensor, mask: Mask) -> Tensor:
        """The weights that `forward` mixes with (B H T S), for recording."""


class MultiHead(nn.Module):
    """Concat(head_1 .. head_h) W_O, head_i = kernel(Q W_i^Q, K W_i^K, V W_i^V)."""

    def __init__(self, d_model: int, heads: int, kernel: Kernel, *, bias: bool, rotary: Rotary | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(d_model, d_model, bias=bias)
        self.k = nn.Linear(d_model, d_model, bias=bias)
        self.v = nn.Linear(d_model, d_model, bias=bias)
        self.out = nn.Linear(d_model, d_model, bias=bias)
        self.kernel = kernel
        self.rotary = rotary

    def forward(self, x: Tensor, memory: Tensor | None, mask: Mask, cache: Growing | Fixed | None = None) -> Tensor:
        """Over memory, or over x itself when memory is None. What layers share in one pass travels in the mask."""
        if isinstance(cache, Fixed):
            mixed = self._over_shared(self.split(self.q(x)), cache, mask)
        else:
            q, k, v = self.projected(x, memory)  # R H T K, R H S K
            if self.rotary is not None:
                start = 0 if cache is None else cache.length
                q, k = self.rotary(q, start), self.rotary(k, start)
            if cache is not None:
                k, v = cache.extend(k, v)
            mixed = self.kernel(q, k, v, mask)
        return linear(self.merge(mixed), self.out)  # R T D

    def projected(self, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        if memory is None and fuses(x, self.q, self.k, self.v):
            q, k, v = linears(x, self.q, self.k, self.v)
            return self.split(q), self.split(k), self.split(v)
        return self.split(linear(x, self.q)), *self.project(x if memory is None else memory)

    def project(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        k, v = linears(memory, self.k, self.v) if fuses(memory, self.k, self.v) else (self.k(memory), self.v(memory))
        return self.split(k), self.split(v)

    def _over_shared(self, q: Tensor, cache: Fixed, mask: Mask) -> Tensor:
        """The hypotheses of one sentence are further queries over its one memory: nothing is repeated."""
        sentences, rows = cache.k.size(0), q.size(0)
        _, heads, length, width = q.shape
        beam = rows // sentences
        q = q.view(sentences, beam, heads, length, width).transpose(1, 2).reshape(sentences, heads, -1, width)
        mixed: Tensor = self.kernel(q, cache.k, cache.v, mask)  # N H beam*T K
        mixed = mixed.view(sentences, heads, beam, length, width).transpose(1, 2)
        return mixed.reshape(rows, heads, length, width)

    def split(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], self.heads, -1).transpose(1, 2)  # B T D -> B H T K

    def merge(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2).flatten(2)  # B H T K -> B T D
