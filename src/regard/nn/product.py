"""Matrix products of training: PyTorch's, or our own on processors where those are faster."""

# Shapes: N rows, M inner, E columns.

import torch
from torch import Tensor

from regard.nn import native


def mm(a: Tensor, b: Tensor, out: Tensor | None = None, *, add: bool = False) -> Tensor:
    """a b (N M, M E -> N E); in the place of `out` if there is one, or added to it."""
    if native.multiplies(a, b):
        place = a.new_empty(a.size(0), b.size(1)) if out is None else out
        if native.multiply(a, b, place, add=add):
            return place
    if add:
        assert out is not None
        return out.addmm_(a, b)
    return torch.mm(a, b) if out is None else torch.mm(a, b, out=out)


def affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x W^T + b (N M, E M, E -> N E)."""
    if bias is None:
        return mm(x, weight.t())
    if not native.multiplies(x, weight):
        return torch.addmm(bias, x, weight.t())
    return mm(x, weight.t(), x.new_empty(x.size(0), weight.size(0)).copy_(bias), add=True)
