"""Muon: momentum whose update is made orthogonal, for weight matrices (Jordan 2024), in float32 and batched.

PyTorch has one too, which works matrix by matrix in bfloat16; on a CPU without bfloat16 units this one takes a fraction
of its time. A test holds the two to the same update.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # of the Newton-Schulz iteration that pushes singular values towards 1


def orthogonalise(matrices: Tensor, steps: int = 5) -> Tensor:
    """U V^T (nearly) for each matrix U S V^T of a batch (N rows columns)."""
    a, b, c = COEFFICIENTS
    tall = matrices.size(1) > matrices.size(2)
    x = matrices.mT if tall else matrices
    x = x / x.flatten(1).norm(dim=1).clamp(min=1e-7)[:, None, None]
    for _ in range(steps):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """A matrix changes by lr * sqrt(max(1, rows / columns)) * orthogonalise(momentum), with Nesterov's look ahead."""

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            shapes: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
            for p in group["params"]:
                if p.grad is not None:
                    shapes[tuple(p.shape)].append(p)
            for same in shapes.values():
                self._update(same, group)

    def _update(self, params: list[Tensor], group: dict[str, Any]) -> None:
        grads = [p.grad for p in params if p.grad is not None]
        for p in params:
            if "momentum" not in self.state[p]:
                self.state[p]["momentum"] = torch.zeros_like(p)
        buffers = [self.state[p]["momentum"] for p in params]
        torch._foreach_lerp_(buffers, grads, 1 - group["momentum"])
        ahead = torch._foreach_lerp(grads, buffers, group["momentum"])  # Nesterov
        updates = orthogonalise(torch.stack(ahead))
        scale = max(1, params[0].size(0) / params[0].size(1)) ** 0.5
        if group["weight_decay"]:
            torch._foreach_mul_(params, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(params, list(updates.unbind()), alpha=-group["lr"] * scale)
