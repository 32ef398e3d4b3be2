"""Linear layers that share an input, and the feed-forward layer, each as one step with its gradient written out.

What is saved: passes over memory. The input's gradient grows inside the matrix products in place of a sum after each,
and the activation works in place, forward and backward. Each has a plain twin in the modules that call it.
"""

# Shapes: N tokens, D width in, E width out, F inner width.

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.nn import native
from regard.nn.product import affine, mm


def fuses(x: Tensor, *layers: nn.Module) -> bool:
    """Where the fused steps are worth it, training on a CPU in one precision; and stand for plain layers alone."""
    plain = all(type(layer) is nn.Linear and not native.heard(layer) for layer in layers)
    return plain and torch.is_grad_enabled() and x.device.type == "cpu" and not torch.is_autocast_enabled("cpu")


def linears(x: Tensor, *layers: nn.Linear) -> tuple[Tensor, ...]:
    """layer(x) for each layer."""
    flat = x.reshape(-1, x.size(-1))  # N D
    outputs = _Linears.apply(flat, *(p for layer in layers for p in (layer.weight, layer.bias)))  # type: ignore[no-untyped-call]
    return tuple(out.view(x.shape[:-1] + out.shape[-1:]) for out in outputs)


def linear(x: Tensor, layer: nn.Module) -> Tensor:
    """layer(x), as one such step where that is worth it."""
    if fuses(x, layer):
        assert isinstance(layer, nn.Linear)
        return linears(x, layer)[0]
    out: Tensor = layer(x)
    return out


def feed_forward(x: Tensor, inner: nn.Linear, outer: nn.Linear) -> Tensor:
    """outer(relu(inner(x)))."""
    flat = x.reshape(-1, x.size(-1))  # N D
    out: Tensor = _FeedForward.apply(flat, inner.weight, inner.bias, outer.weight, outer.bias)  # type: ignore[no-untyped-call]
    return out.view(x.shape[:-1] + out.shape[-1:])


class _Linears(torch.autograd.Function):
    """x W_i^T + b_i for several i; backward sum_i g_i W_i, g_i^T x and the sum of g_i over tokens."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *parameters: Any) -> tuple[Tensor, ...]:
        weights, biases = parameters[::2], parameters[1::2]
        ctx.save_for_backward(x, *weights)
        ctx.biased = [bias is not None for bias in biases]
        return tuple(affine(x, w, b) for w, b in zip(weights, biases, strict=True))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        found: list[Tensor | None] = []
        d_x: Tensor | None = None
        for number, (g, weight, biased) in enumerate(zip(grads, weights, ctx.biased, strict=True)):
            if ctx.needs_input_grad[0]:
                d_x = mm(g, weight, d_x, add=d_x is not None)
            learns, shifts = ctx.needs_input_grad[2 * number + 1 : 2 * number + 3]
            found += [mm(g.t(), x) if learns else None, g.sum(0) if biased and shifts else None]
        return d_x, *found


class _FeedForward(torch.autograd.Function):
    """max(0, x W1^T + b1) W2^T + b2."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
        compiled = native.usable(b1, x)
        h = native.relu_(mm(x, w1.t()), b1.contiguous()) if compiled else affine(x, w1, b1).relu_()  # N F
        ctx.save_for_backward(x, h, w1, w2)
        return affine(h, w2, b2)  # N E

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, h, w1, w2 = ctx.saved_tensors
        (g,), needs = grads, ctx.needs_input_grad
        d_h = mm(g, w2)  # N F
        if native.usable(d_h):
            d_b1 = native.relu_backward_(d_h, h)
        else:
            torch.ops.aten.threshold_backward.grad_input(d_h, h, 0, grad_input=d_h)  # zero where the activation was
            d_b1 = d_h.sum(0)
        return (
            mm(d_h, w1) if needs[0] else None,
            mm(d_h.t(), x) if needs[1] else None,
            d_b1 if needs[2] else None,
            mm(g.t(), h) if needs[3] else None,
            g.sum(0) if needs[4] else None,
        )
