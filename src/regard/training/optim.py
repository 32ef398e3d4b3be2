"""Optimizers and schedules behind one object whose state is plain named tensors."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import TrainConfig
from regard.errors import UserError
from regard.tasks.task import shares
from regard.training.muon import Muon

MUON_WORK = 1 / 8  # by reckoning: of a number in a matrix, beside Adam's 1, for each row of its shorter side


@dataclass(frozen=True)
class Share:
    """Some of the parameters, with optimizers of their own and the peak rate of each."""

    params: list[Tensor]
    parts: list[tuple[float, torch.optim.Optimizer]]

    def gradients(self) -> list[Tensor]:
        return [p.grad for p in self.params if p.grad is not None]

    def step(self) -> None:
        for _, part in self.parts:
            part.step()


Each = Callable[[Callable[[Share], Any], Sequence[Share]], Iterable[Any]]  # map, or its like for several cores


def rate(config: TrainConfig, step: int, d_model: int) -> float:
    """The factor on the peak learning rate at update `step`, counted from 1.

    It is 1 at the end of warm-up. Linear and cosine would reach 0 one step after the last: no update is for nothing.
    """
    ends = config.schedule in ("linear", "cosine")
    warm = max(1, min(config.warmup, config.steps // 4) if ends else config.warmup)
    if config.schedule == "paper":  # section 5.3, equation 3
        return float(d_model**-0.5 * min(step**-0.5, step * warm**-1.5))
    if step < warm:
        return step / warm
    if config.schedule == "inverse_sqrt":
        return math.sqrt(warm / step)
    done = min(1.0, (step - warm) / max(1, config.steps + 1 - warm))
    if config.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * done))
    if config.schedule == "linear":
        return 1 - done
    return 1.0


class Optimizer:
    """Adam, AdamW, or Muon for the matrices inside the layers with Adam for everything else.

    The parameters lie in shares of like work, so that cores can work side by side. What becomes of a parameter does not
    depend on its share, but for the last bits: those of Muon, and of the norm of all gradients where it is clipped.
    """

    def __init__(self, model: nn.Module, config: TrainConfig, d_model: int, shared_by: int = 1) -> None:
        self.config, self.d_model = config, d_model
        self.names: dict[Tensor, str] = {p: name for name, p in model.named_parameters() if p.requires_grad}
        muon = config.optimizer == "muon"
        # A matrix that is made of others, as a normed one is, is no leaf.
        self.matrices = {m for m in _matrices(model) if m.requires_grad and m.is_leaf} if muon else set()
        self.depths = _depths(model)
        params = list(self.names)
        work = [p.numel() * (max(1.0, min(p.shape) * MUON_WORK) if p in self.matrices else 1.0) for p in params]
        self.shares = [self._share(params[chosen]) for chosen in shares(work, shared_by)]
        self.last: Any = getattr(model, "out", None)
        if config.max_norm and self.last is None:
            raise UserError("train.max_norm is for models with a layer of classes; this one has none")

    @property
    def parts(self) -> list[tuple[float, torch.optim.Optimizer]]:
        """All optimizers, each with its peak rate."""
        return [part for share in self.shares for part in share.parts]

    def _share(self, params: list[Tensor]) -> Share:
        """Groups of parameters by what they are, how far down they stand, if that matters, and so their rates."""
        config = self.config
        decay, top = config.weight_decay if config.optimizer != "adam" else 0.0, max(self.depths.values())
        groups: dict[tuple[bool, int, bool], dict[str, Any]] = {}
        for p in params:
            matrix, vector = p in self.matrices, p.ndim < 2 or p[0].numel() == 1  # a column is a vector, too
            below = top - self.depths[self.names[p]] if config.layer_decay < 1 else 0
            rate_share = config.layer_decay**below * (config.vector_share if vector else 1.0)
            group = {"params": [], "weight_decay": 0.0 if vector else decay, "share": rate_share}
            groups.setdefault((matrix, below, vector), group)["params"].append(p)
        parts: list[tuple[float, torch.optim.Optimizer]] = []
        if for_muon := [groups[key] for key in sorted(groups) if key[0]]:
            parts.append((config.matrix_lr, Muon(for_muon, lr=config.matrix_lr)))
        if rest := [groups[key] for key in sorted(groups) if not key[0]]:
            adam = torch.optim.AdamW(rest, lr=config.peak, betas=config.betas, eps=config.eps, fused=True)
            parts.append((config.peak, adam))
        return Share(params, parts)

    def step(self, step: int, each: Each = map) -> float:
        """One update at the schedule's rate; gives the learning rate back. each: goes through the shares."""
        factor = rate(self.config, step, self.d_model)
        for peak, part in self.parts:
            for group in part.param_groups:
                group["lr"] = peak * factor * group["share"]
        list(each(Share.step, self.shares))
        if self.config.max_norm:
            self.last.weight.data.renorm_(2, 0, self.config.max_norm)  # a row is the weights of one class
        return self.config.peak * factor

    def state(self) -> dict[str, Tensor]:
        """Everything the optimizers remember, as `what/parameter` tensors."""
        found: dict[str, Tensor] = {}
        for _, part in self.parts:
            for parameter, memory in part.state.items():
                for what, value in memory.items():
                    found[f"{what}/{self.names[parameter]}"] = torch.as_tensor(value)
        return found

    def load(self, state: dict[str, Tensor]) -> None:
        owners: dict[str, tuple[torch.optim.Optimizer, Any]] = {
            self.names[p]: (part, p) for _, part in self.parts for g in part.param_groups for p in g["params"]
        }
        for key, value in state.items():
            what, _, name = key.partition("/")
            if name not in owners:  # it is frozen by now
                continue
            part, parameter = owners[name]
            part.state[parameter][what] = value.to(parameter.device)


def freeze(model: nn.Module, parts: int) -> None:
    """So many parts from below keep their weights: the embeddings, the first layer, the second, ..."""
    depths = _depths(model)
    if parts and not any(depths.values()):
        raise UserError("train.freeze is for models that read with a body of layers; this one has none")
    if parts > max(depths.values()):
        raise UserError(
            f"train.freeze = {parts} would leave nothing to learn; the model has {max(depths.values())} parts"
        )
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(depths[name] >= parts)


def _depths(model: nn.Module) -> dict[str, int]:
    """How far up each parameter stands: 0 for the embeddings, then the layers that read from 1, then all else."""
    body: Any = getattr(model, "body", model)
    stages = body.stages() if hasattr(body, "stages") else []
    found = {p: depth for depth, parts in enumerate(stages) for part in parts for p in part.parameters()}
    return {name: found.get(p, len(stages)) for name, p in model.named_parameters()}


def _matrices(model: nn.Module) -> list[Tensor]:
    """Weights of linear layers: what Muon is for. Embeddings are look-ups, not maps."""
    return [m.weight for m in model.modules() if isinstance(m, nn.Linear)]
