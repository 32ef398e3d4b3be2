"""Label-smoothed cross entropy straight from hidden vectors, never holding all logits at once."""

# Shapes: N tokens, D width, V vocabulary.

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

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
            logits = torch.mm(h, weight.t(), out=buffer[: h.size(0)])  # n V
            if bias is not None:
                logits += bias
            picked = logits.gather(1, y)
            p = torch.softmax(logits, 1, out=logits)  # in place
            nll += _minus_log(h, weight, bias, p, y, picked).sum()
            if even is not None:
                mean = torch.mv(h, even)[:, None] + (0 if bias is None else bias.mean())  # of a token's logits
                loss += smoothing * (picked - mean).sum()
            if d_hidden is None:
                continue
            p.scatter_add_(1, y, p.new_full(y.shape, smoothing - 1))
            torch.mm(p, weight, out=d_hidden[start : start + rows])
            if d_weight is not None:
                summed = 1 if start else 0  # at 0 what stood there is ignored
                torch.addmm(d_weight, p.t(), h, beta=summed, out=d_weight)
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


def agreeing_loss_plain(
    hidden: Tensor, again: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float, agree: float
) -> tuple[Tensor, Tensor]:
    """The reference of R-Drop (Liang 2021): the same tokens read twice, through other dropout masks.

    The mean of the two readings' smoothed losses, and how far they are from each other: agree / 4 times KL(p || q) +
    KL(q || p). (The paper, with alpha for agree, has twice all that.)
    """
    readings = [F.linear(h, weight, bias).float() for h in (hidden, again)]
    p, q = (logits.log_softmax(1) for logits in readings)
    far = F.kl_div(p, q, reduction="sum", log_target=True) + F.kl_div(q, p, reduction="sum", log_target=True)
    loss = sum(F.cross_entropy(r, target, label_smoothing=smoothing, reduction="sum") for r in readings) / 2
    nll = sum(F.nll_loss(r.detach(), target, reduction="sum") for r in (p, q)) / 2
    return loss + agree / 4 * far, torch.as_tensor(nll)


def agreeing_loss(
    hidden: Tensor, again: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor, smoothing: float, agree: float
) -> tuple[Tensor, Tensor]:
    """The same as `agreeing_loss_plain`, chunk by chunk, with the gradient made on the way."""
    if hidden.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return agreeing_loss_plain(hidden, again, weight, bias, target, smoothing, agree)
    loss, nll = _Agreeing.apply(hidden, again, weight, bias, target, smoothing, agree)  # type: ignore[no-untyped-call]
    return loss, nll


class _Agreeing(torch.autograd.Function):
    """With logits l and m, p = softmax(l), q = softmax(m) and d = l - m, the normalisers cancel in the distance:

    KL(p || q) + KL(q || p) = sum (p - q) d, whose gradient is p (d - sum p d) + p - q for l, and for m the same with p
    and q, l and m changing places.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        again: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        target: Tensor,
        smoothing: float,
        agree: float,
    ) -> tuple[Tensor, Tensor]:
        tokens, vocabulary = len(hidden), weight.size(0)
        d_weight, d_bias = torch.zeros_like(weight), None if bias is None else torch.zeros_like(bias)
        d_hidden = torch.empty_like(hidden), torch.empty_like(again)
        even, share = weight.mean(0), agree / 4
        loss, nll = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        rows = max(1, CHUNK_ELEMENTS // (2 * vocabulary))
        held = hidden.new_empty(4, min(rows, tokens), vocabulary)
        for start in range(0, tokens, rows):
            y = target[start : start + rows, None]
            p, q, d, gradient = held[:, : len(y)]  # n V each
            sides = [(h[start : start + rows], made) for h, made in ((hidden, p), (again, q))]
            picked = []
            for h, logits in sides:
                torch.mm(h, weight.t(), out=logits)
                if bias is not None:
                    logits += bias
                picked.append(logits.gather(1, y))
                mean = torch.mv(h, even)[:, None] + (0 if bias is None else bias.mean())
                loss += smoothing / 2 * (picked[-1] - mean).sum()
            torch.sub(p, q, out=d)
            for (h, logits), logit in zip(sides, picked, strict=True):
                torch.softmax(logits, 1, out=logits)
                nll += _minus_log(h, weight, bias, logits, y, logit).sum() / 2
            far = torch.linalg.vecdot(p, d)[:, None], torch.linalg.vecdot(q, d)[:, None]  # n 1 each
            loss += share * (far[0] - far[1]).sum()
            for side, (own, other, sign) in enumerate(((p, q, share), (q, p, -share))):
                h = sides[side][0]
                torch.mul(d, sign, out=gradient).add_(0.5 + share - sign * far[side]).mul_(own)
                gradient.sub_(other, alpha=share)
                gradient.scatter_add_(1, y, gradient.new_full(y.shape, (smoothing - 1) / 2))
                torch.mm(gradient, weight, out=d_hidden[side][start : start + rows])
                d_weight.addmm_(gradient.t(), h)
                if d_bias is not None:
                    d_bias += gradient.sum(0)
        if smoothing:  # the even part, as in `_Chunked`
            for made in d_hidden:
                made -= smoothing / 2 * even
            d_weight -= smoothing / (2 * vocabulary) * (hidden.sum(0) + again.sum(0))
            if d_bias is not None:
                d_bias -= smoothing / vocabulary * tokens
        ctx.grads = (*d_hidden, d_weight, d_bias)
        loss, nll = (loss + nll).to(hidden.dtype), nll.to(hidden.dtype)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor | None, ...]:
        return (*(None if g is None else g * outputs[0] for g in ctx.grads), None, None, None)


def _minus_log(h: Tensor, weight: Tensor, bias: Tensor | None, p: Tensor, y: Tensor, picked: Tensor) -> Tensor:
    """-log p(y) (n 1), exact where p(y) is too small for float32. picked: the logits of y."""
    chosen = p.gather(1, y)
    found = -chosen.log()
    rare = chosen[:, 0] < RARE
    if rare.any():
        found[rare] = _normaliser(h[rare], weight, bias, p[rare]) - picked[rare]
    return found


def _normaliser(hidden: Tensor, weight: Tensor, bias: Tensor | None, p: Tensor) -> Tensor:
    """log sum exp of the logits (n 1) whose softmax is p, from the likeliest token."""
    most, best = p.max(1, keepdim=True)
    logit = (hidden * weight[best[:, 0]]).sum(1, keepdim=True)
    return logit - most.log() if bias is None else logit + bias[best] - most.log()
