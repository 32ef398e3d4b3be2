"""One update: the gradient in parts, side by side, and then all that follows for each parameter by itself."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import TrainConfig
from regard.device import find_device
from regard.nn.dropout import drawing
from regard.tasks.task import Task
from regard.training.optim import Optimizer, Share
from regard.workers import Workers


@dataclass(frozen=True)
class Part:
    """What one part of a batch gives."""

    gradient: dict[Tensor, Tensor | None]
    total: float
    nll: float


@dataclass(frozen=True)
class Updated:
    """What an update came to: sums over so many items, the gradient's norm and the learning rate.

    One whose loss or gradient is not finite changed nothing, at a rate of 0.
    """

    count: int
    total: float
    nll: float
    norm: float
    lr: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.total) and math.isfinite(self.norm)


class Update:
    """Makes updates of a model's weights, and of their moving average if one is wanted."""

    def __init__(self, task: Task, model: Any, config: TrainConfig, *, seed: int, d_model: int) -> None:
        self.task, self.config, self.seed = task, config, seed
        self.device, self.autocast = choose_device(config)
        self.model: nn.Module = model.to(self.device)
        self.optimizer = Optimizer(model, config, d_model, max(1, config.parts))
        self.learned = [p for p in model.parameters() if p.requires_grad]
        self.workers = Workers(max(1, config.parts))
        self.average = {n: p.detach().clone() for n, p in model.named_parameters()} if config.ema else None

    def __call__(self, step: int) -> Updated:
        """From `accumulate` batches; a random draw depends on seed, step, batch and part alone."""
        batches = [next(self.task.batches) for _ in range(self.config.accumulate)]
        count = sum(batch.count for batch in batches)
        self.model.train()
        total, nll = 0.0, 0.0
        for number, batch in enumerate(batches):
            parts = batch.cut(max(1, self.config.parts))
            seeds = [mixed(self.seed, step, number, part) for part in range(len(parts))]
            work = [(part, count, seed) for part, seed in zip(parts, seeds, strict=True)]
            for first in range(0, len(work), self.workers.count):  # of more parts than workers, not all at once
                found = list(self.workers.map(self._gradient, work[first : first + self.workers.count]))
                self._add(found)
                for part in found:
                    total, nll = total + part.total, nll + part.nll
        updated = Updated(count, total, nll, self._clip(), 0.0)
        if updated.finite:
            updated = Updated(count, total, nll, updated.norm, self.optimizer.step(step, self.workers.map))
            self._move_average(step)
        for parameter in self.model.parameters():
            parameter.grad = None
        return updated

    def _gradient(self, work: tuple[Any, int, int]) -> Part:
        """Of one part of a batch: the gradient of its loss over the update's count, and its sums of loss and nll."""
        batch, count, seed = work
        draws = torch.Generator(self.device).manual_seed(seed)
        with drawing(draws), torch.autocast(self.device.type, torch.bfloat16, enabled=self.autocast):
            loss = self.task.loss(self.model, batch.to(self.device))
        gradient = torch.autograd.grad(loss.total / count, self.learned, allow_unused=True)
        nll = loss.metrics.get("nll", loss.total)
        return Part(dict(zip(self.learned, gradient, strict=True)), float(loss.total.detach()), float(nll.detach()))

    # What follows is done for each parameter by itself, on all cores: each has a share of them, and they meet once.

    def _add(self, found: list[Part]) -> None:
        """Sums the gradients in the order of the parts, and takes them away from these: they are large."""

        def add(share: Share) -> None:
            for parameter in share.params:
                for more in (part.gradient.pop(parameter) for part in found):
                    if more is not None:
                        parameter.grad = more if parameter.grad is None else parameter.grad + more

        list(self.workers.map(add, self.optimizer.shares))

    def _clip(self) -> float:
        """The norm of the whole gradient, which is held to `clip` if that is set."""
        shares = [share for share in self.optimizer.shares if share.gradients()]  # a task may not use some of them

        def norm_of(share: Share) -> float:
            return float(torch.stack(torch._foreach_norm(share.gradients())).norm())

        norm = math.hypot(*self.workers.map(norm_of, shares))
        if self.config.clip and norm > self.config.clip:
            factor = self.config.clip / norm
            list(self.workers.map(lambda share: torch._foreach_mul_(share.gradients(), factor), shares))
        return norm

    def _move_average(self, step: int) -> None:
        if self.average is None:
            return
        decay = min(self.config.ema, (1 + step) / (10 + step))  # a short memory while there is little to remember
        names, average = self.optimizer.names, self.average

        def move(share: Share) -> None:
            params = [p.detach() for p in share.params]
            torch._foreach_lerp_([average[names[p]] for p in share.params], params, 1 - decay)

        list(self.workers.map(move, self.optimizer.shares))


def mixed(*numbers: int) -> int:
    """A seed from several numbers: different for different ones, the same every time."""
    value = 0x9E3779B97F4A7C15
    for number in numbers:
        value = (value ^ number) * 0xBF58476D1CE4E5B9 % 2**64
        value ^= value >> 31
    return value % 2**63


def choose_device(config: TrainConfig) -> tuple[torch.device, bool]:
    """The device, and whether bfloat16 gains there: on CUDA it does; a CPU without its units is slower with it."""
    device = find_device(config.device)
    return device, config.precision == "bfloat16" or (config.precision == "auto" and device.type == "cuda")
