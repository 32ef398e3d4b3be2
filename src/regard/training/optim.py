"""Optimizers and schedules behind one object whose state is plain named tensors."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import TrainConfig
from regard.errors import UserError
from regard.training.muon import Muon


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
    """Adam, AdamW, or Muon for the matrices inside the layers with Adam for everything else."""

    def __init__(self, model: nn.Module, config: TrainConfig, d_model: int) -> None:
        self.config, self.d_model = config, d_model
        self.names: dict[Tensor, str] = {p: name for name, p in model.named_parameters() if p.requires_grad}
        matrices = [m for m in _matrices(model) if m.requires_grad and m.is_leaf]  # a normed one is made of others
        decay = config.weight_decay if config.optimizer != "adam" else 0.0
        self.parts: list[tuple[float, torch.optim.Optimizer]] = []
        rest = list(self.names)
        depths = _depths(model)
        top = max(depths.values())

        def below(p: Tensor) -> int:
            """How many layers further down than the last it stands, if that matters."""
            return top - depths[self.names[p]] if config.layer_decay < 1 else 0

        if config.optimizer == "muon" and matrices:
            layers = {depth: [m for m in matrices if below(m) == depth] for depth in sorted(set(map(below, matrices)))}
            chosen = [{"params": found, "share": config.layer_decay**depth} for depth, found in layers.items()]
            self.parts.append((config.matrix_lr, Muon(chosen, lr=config.matrix_lr, weight_decay=decay)))
            held = set(matrices)
            rest = [p for p in rest if p not in held]
        groups: dict[tuple[int, bool], dict[str, Any]] = {}
        for p in rest:
            vector = p.ndim < 2
            share = config.layer_decay ** below(p) * (config.vector_share if vector else 1.0)
            group = {"params": [], "weight_decay": 0.0 if vector else decay, "share": share}
            groups.setdefault((below(p), vector), group)["params"].append(p)
        adam = torch.optim.AdamW(
            [groups[key] for key in sorted(groups)], lr=config.peak, betas=config.betas, eps=config.eps, fused=True
        )
        self.parts.append((config.peak, adam))
        self.last: Any = getattr(model, "out", None)
        if config.max_norm and self.last is None:
            raise UserError("train.max_norm is for models with a layer of classes; this one has none")

    def step(self, step: int) -> float:
        """One update at the schedule's rate; gives the learning rate back."""
        factor = rate(self.config, step, self.d_model)
        for peak, part in self.parts:
            for group in part.param_groups:
                group["lr"] = peak * factor * group.get("share", 1.0)
            part.step()
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
