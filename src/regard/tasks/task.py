"""What the training loop asks of a task; it knows nothing else of it."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.bundle import Bundle
from regard.config import Recipe
from regard.text import Tokenizer

Pairs = Sequence[tuple[str, str]]
HELD_OUT = "dev.jsonl"  # in a run's folder: training data set apart when no dev set is given


@dataclass(frozen=True)
class Asked:
    """What a task is prepared from. folder: the run's, for what is learned once and kept."""

    recipe: Recipe
    folder: Path
    tell: Callable[[dict[str, Any]], None]
    parent: Bundle | None = None  # the model to go on from
    pairs: Pairs | None = None  # training pairs in memory, in place of files
    dev: Pairs | None = None


@dataclass(frozen=True)
class Loss:
    """A sum over `count` items (tokens, say). The loop divides by the count over all accumulated batches."""

    total: Tensor
    count: int
    metrics: dict[str, Tensor] = field(default_factory=dict)  # sums over the same items


@dataclass(frozen=True)
class Evaluation:
    """Scores by name, a few outputs for people to read, and what was chosen on dev and belongs to the model."""

    scores: dict[str, float]
    samples: list[dict[str, str]] = field(default_factory=list)
    chosen: dict[str, float] = field(default_factory=dict)


def kept(scores: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """Scores as they are kept with a model."""
    return {name: {"value": round(value, 4)} for name, value in scores.items()}


class Batch(Protocol):
    """What a step trains on."""

    @property
    def count(self) -> int:
        """Items whose losses are summed."""

    def to(self, device: torch.device) -> Any: ...

    def cut(self, parts: int) -> "Sequence[Batch]":
        """Its rows in at most so many batches of like size, in order."""


def shares(work: Sequence[float], parts: int) -> list[slice]:
    """The rows that make so much work each in at most so many parts of like work, in order; every part has a row."""
    parts = min(parts, len(work))
    done = [0.0, *accumulate(work)]
    cuts = [0]
    for part in range(1, parts):
        first, last = cuts[-1] + 1, len(work) - (parts - part)  # a row for this part, and for every one to come
        goal = done[-1] * part / parts
        cut = bisect_left(done, goal, first, last)
        nearer = cut > first and goal - done[cut - 1] < done[cut] - goal
        cuts.append(cut - 1 if nearer else cut)
    return [slice(a, b) for a, b in pairwise([*cuts, len(work)])]


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
    def source(self) -> Tokenizer: ...

    @property
    def target(self) -> Tokenizer: ...

    @property
    def labels(self) -> Sequence[str]:
        """Of what is predicted; none for tasks that write."""

    @property
    def unit(self) -> str:
        """What the losses are summed over: tokens, or examples."""

    @property
    def batches(self) -> Stream: ...

    def model(self) -> Any:
        """A new network with first weights."""

    def loss(self, model: Any, batch: Any) -> Loss: ...

    def evaluate(self, model: Any) -> Evaluation:
        """How good the model is by now, on the dev set."""

    def scores(self, model: Any) -> dict[str, dict[str, Any]]:
        """Of the finished model: set (dev, test) -> metric -> value and how it was made."""
