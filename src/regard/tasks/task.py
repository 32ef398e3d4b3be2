"""What the training loop asks of a task; it knows nothing else of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Loss:
    """A sum over `count` items (tokens, say). The loop divides by the count over all accumulated batches."""

    total: Tensor
    count: int
    metrics: dict[str, Tensor] = field(default_factory=dict)  # sums over the same items


@dataclass(frozen=True)
class Evaluation:
    """Scores by name, and a few outputs for people to read."""

    scores: dict[str, float]
    samples: list[dict[str, str]] = field(default_factory=list)


class Batch(Protocol):
    """What a step trains on."""

    @property
    def count(self) -> int:
        """Items whose losses are summed."""

    def to(self, device: torch.device) -> Any: ...

    def cut(self, parts: int) -> "Sequence[Batch]":
        """Its rows in at most so many batches of like size, in order."""


class Stream(Protocol):
    """An endless, resumable order of batches; the state counts batches consumed."""

    @property
    def epoch(self) -> int: ...

    def __next__(self) -> Batch: ...

    def state(self) -> dict[str, int]: ...

    def restore(self, state: dict[str, int], *, restart_epoch: bool = False) -> None: ...


class Task(Protocol):
    """Model and batch are of the task's own kind; the loop only hands them over."""

    @property
    def batches(self) -> Stream: ...

    def loss(self, model: Any, batch: Any) -> Loss: ...

    def evaluate(self, model: Any) -> Evaluation: ...
