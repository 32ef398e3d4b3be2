"""Label-smoothed cross entropy straight from hidden vectors, never holding all logits at once."""

# Shapes: N tokens, D width, V vocabulary.

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.nn.product import mm

CHUNK_ELEMENTS = 1 << 21  # logits held at a time: 8 MB, which stays in the cache of an ordinary CPU
RARE = 1e-30  # a probability so small that its logarithm is taken another way: float32 ends at 1e-38


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
    """Each chunk of logits becomes its softmax, then its gradient, in place: one pass over it beside the products.

    The smoothing's even part is the same for every token, so that it goes into loss and gradients once, as the mean of
    the output matrix and the sum of the hidden vectors.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float, grads: bool
    ) -> tuple[Tensor, Tensor]:
        vocabulary = weight.size(0)
        grads = grads and any(ctx.needs_input_grad)
        d_hidden = torch.empty_like(hidden) if grads else None
        d_weight = torch.empty_like(weight) if grads and ctx.needs_input_grad[1] else None
        d_bias = torch.zeros_like(bias) if grads and bias is not None else None
        even = weight.mean(0) if smoothing else None  # D
        loss = torch.zeros((), dtype=torch.float64)
        nll = torch.zeros((), dtype=torch.float64)
        rows = max(1, CHUNK_ELEMENTS // vocabulary)
        buffer = hidden.new_empty(min(rows, hidden.size(0)), vocabulary)
        for start in range(0, hidden.size(0), rows):
            h, y = hidden[start : start + rows], target[start : start + rows, None]
            place = buffer[: h.size(0)]
            # What is scored is not learned from, and stays in float32.
            logits = mm(h, weight.t(), place) if grads else torch.mm(h, weight.t(), out=place)  # n V
            if bias is not None:
                logits += bias
            picked = logits.gather(1, y)
            p = torch.softmax(logits, 1, out=logits)  # in place
            chosen = p.gather(1, y)
            minus_log = -chosen.log()
            rare = chosen[:, 0] < RARE
            if rare.any():
                minus_log[rare] = _normaliser(h[rare], weight, bias, p[rare]) - picked[rare]
            nll += minus_log.sum()
            if even is not None:
                mean = torch.mv(h, even)[:, None] + (0 if bias is None else bias.mean())  # of a token's logits
                loss += smoothing * (picked - mean).sum()
            if d_hidden is None:
                continue
            p.scatter_(1, y, chosen + (smoothing - 1))
            mm(p, weight, d_hidden[start : start + rows])
            if d_weight is not None:
                mm(p.t(), h, d_weight, add=start > 0)
            if d_bias is not None:
                d_bias += p.sum(0)
        if d_weight is not None and not len(hidden):
            d_weight.zero_()  # no token, no product
        if even is not None:
            share = smoothing / vocabulary
            if d_hidden is not None:
                d_hidden -= smoothing * even
            if d_weight is not None:
                d_weight -= share * hidden.sum(0)
            if d_bias is not None:
                d_bias -= share * len(hidden)
        ctx.grads = (d_hidden, d_weight, d_bias)
        loss, nll = (loss + nll).to(hidden.dtype), nll.to(hidden.dtype)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        scale = outputs[0]
        return (*(None if g is None else g * scale for g in ctx.grads), None, None, None)


def _normaliser(hidden: Tensor, weight: Tensor, bias: Tensor | None, p: Tensor) -> Tensor:
    """log sum exp of the logits (n 1) whose softmax is p, from the likeliest token."""
    most, best = p.max(1, keepdim=True)
    logit = (hidden * weight[best[:, 0]]).sum(1, keepdim=True)
    return logit - most.log() if bias is None else logit + bias[best] - most.log()
