"""Dropout from random bytes: a sixth of the time of PyTorch's own on a CPU."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.nn import native

_thread = threading.local()


@contextmanager
def drawing(generator: torch.Generator) -> Iterator[None]:
    """Masks made by this thread inside come from this generator, whatever other threads draw meanwhile."""
    before = getattr(_thread, "generator", None)
    _thread.generator = generator
    try:
        yield
    finally:
        _thread.generator = before


def draws(like: Tensor, p: float) -> tuple[Tensor, int]:
    """A random byte for each element, and k from 1 to 255: those below it are kept, k/256 being 1 - p rounded.

    A 64-bit draw over its full range gives eight independent bytes (random_() alone would leave out the sign bit,
    and every eighth byte would never reach 128).
    """
    count = like.numel()
    words = torch.empty((count + 7) // 8, dtype=torch.int64, device=like.device)
    words.random_(-(2**63), None, generator=getattr(_thread, "generator", None))
    return words.view(torch.uint8)[:count], min(max(round((1.0 - p) * 256), 1), 255)


def keep_mask(like: Tensor, p: float) -> Tensor:
    """Zeros and 256/k, so that the scale is exact."""
    drawn, keep = draws(like, p)
    return (drawn < keep).to(like.dtype).mul_(256 / keep).view(like.shape)


class Dropout(nn.Module):
    """Zeroes a share p of its input while training."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    @property
    def active(self) -> bool:
        return self.training and self.p > 0

    def forward(self, x: Tensor) -> Tensor:
        if not self.active:
            return x
        return native.add_dropped(None, x, *draws(x, self.p)) if native.ready(x) else x * keep_mask(x, self.p)

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """x + dropout(y), in one pass."""
        if not self.active:
            return x + y
        if native.ready(x, y):
            return native.add_dropped(x, y, *draws(y, self.p))
        total: Tensor = _AddMasked.apply(x, y, keep_mask(y, self.p))  # type: ignore[no-untyped-call]
        return total


class _AddMasked(torch.autograd.Function):
    """x + y * mask. As `torch.addcmul`, whose backward would take one pass more for a factor that is 1 here."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        ctx.save_for_backward(mask)
        return torch.addcmul(x, y, mask)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        (mask,) = ctx.saved_tensors
        return grads[0], grads[0] * mask, None
