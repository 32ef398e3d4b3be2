"""Label-smoothed cross entropy straight from hidden vectors, never holding all logits at once."""

# Shapes: N tokens, D width, V vocabulary.

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

CHUNK_ELEMENTS = 1 << 21  # logits held at a time: 8 MB, which stays in the cache of an ordinary CPU


def smoothed_loss_plain(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The reference: sums over tokens of the smoothed loss (epsilon / V to every class) and of -log p(target)."""
    logits = F.linear(hidden, weight, bias).float()
    loss = F.cross_entropy(logits, target, label_smoothing=smoothing, reduction="sum")
    return loss, F.cross_entropy(logits.detach(), target, reduction="sum")


def smoothed_loss(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float
) -> tuple[Tensor, Tensor]:
    """The same as `smoothed_loss_plain`, chunk by chunk, with the gradient made on the way."""
    if hidden.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return smoothed_loss_plain(hidden, weight, bias, target, smoothing)
    grads = torch.is_grad_enabled()  # inside the function it never is
    loss, nll = _Chunked.apply(hidden, weight, bias, target, smoothing, grads)  # type: ignore[no-untyped-call]
    return loss, nll


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float, grads: bool
    ) -> tuple[Tensor, Tensor]:
        vocabulary = weight.size(0)
        grads = grads and any(ctx.needs_input_grad)
        d_hidden = torch.empty_like(hidden) if grads else None
        d_weight = torch.zeros_like(weight) if grads else None
        d_bias = torch.zeros_like(bias) if grads and bias is not None else None
        loss = torch.zeros((), dtype=torch.float64)
        nll = torch.zeros((), dtype=torch.float64)
        rows = max(1, CHUNK_ELEMENTS // vocabulary)
        buffer = hidden.new_empty(min(rows, hidden.size(0)), vocabulary)
        for start in range(0, hidden.size(0), rows):
            h, y = hidden[start : start + rows], target[start : start + rows, None]
            logits = torch.mm(h, weight.t(), out=buffer[: h.size(0)])  # n V
            if bias is not None:
                logits += bias
            picked = logits.gather(1, y)
            mean = logits.mean(1, keepdim=True)
            top = logits.amax(1, keepdim=True)
            p = logits.sub_(top).exp_()  # in place: from here on it holds the softmax
            total = p.sum(1, keepdim=True)
            normaliser = total.log() + top
            nll += (normaliser - picked).sum()
            loss += (normaliser - (1 - smoothing) * picked - smoothing * mean).sum()
            if d_hidden is None or d_weight is None:
                continue
            p.div_(total)  # the gradient: softmax - smoothed one-hot
            if smoothing:
                p.sub_(smoothing / vocabulary)
            p.scatter_add_(1, y, torch.full_like(picked, smoothing - 1))
            torch.mm(p, weight, out=d_hidden[start : start + rows])
            d_weight.addmm_(p.t(), h)
            if d_bias is not None:
                d_bias += p.sum(0)
        ctx.grads = (d_hidden, d_weight, d_bias)
        loss, nll = loss.to(hidden.dtype), nll.to(hidden.dtype)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        scale = outputs[0]
        return (*(None if g is None else g * scale for g in ctx.grads), None, None, None)
