"""What tasks that read a text as a whole have in common: rows of tokens, and batches of them."""

# Shapes: B batch, T length, C outputs of a head.

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard.data.batches import Batches, bucketed
from regard.tasks.task import shares
from regard.text import Specials

Tokens = NDArray[np.int64]
EVALUATED = 8192  # tokens of a batch when nothing is learned


@dataclass(frozen=True)
class Row:
    """One text, or two, with begin and end; second: where the second begins; target: what is to be said of it."""

    tokens: Tokens
    second: int
    target: Any = None
    cut: bool = False  # something of the texts is left out


@dataclass(frozen=True)
class Batch:
    """Rows of like length as tensors; owns the padding."""

    tokens: Tensor  # B T
    lengths: Tensor | None  # B, None when nothing is padded
    segments: Tensor | None  # B T, None when there are no second texts
    targets: Tensor  # B ..., the task's own
    count: int  # items whose losses are summed

    @staticmethod
    def of(rows: Sequence[Row], targets: Tensor, count: int, pad: int) -> "Batch":
        lengths = np.array([len(row.tokens) for row in rows])
        tokens = np.full((len(rows), lengths.max()), pad, dtype=np.int64)
        for place, row in zip(tokens, rows, strict=True):
            place[: len(row.tokens)] = row.tokens
        seconds = np.array([row.second for row in rows])
        places = np.arange(lengths.max())
        segments = (places >= seconds[:, None]) & (places < lengths[:, None])
        return Batch(
            torch.from_numpy(tokens),
            None if bool((lengths == lengths.max()).all()) else torch.from_numpy(lengths),
            torch.from_numpy(segments.astype(np.int64)) if segments.any() else None,
            targets,
            count,
        )

    def to(self, device: torch.device) -> "Batch":
        lengths, segments = (None if t is None else t.to(device) for t in (self.lengths, self.segments))
        return Batch(self.tokens.to(device), lengths, segments, self.targets.to(device), self.count)

    def cut(self, parts: int) -> "list[Batch]":
        """The rows in at most so many batches of like size, in order. They keep the padding of the whole.

        The counts are shared out by rows.
        """
        size = len(self.tokens)
        return [
            Batch(
                self.tokens[rows],
                None if self.lengths is None else self.lengths[rows],
                None if self.segments is None else self.segments[rows],
                self.targets[rows],
                self.count * (rows.stop - rows.start) // size,
            )
            for rows in shares([1] * size, parts)
        ]


Collate = Callable[[Sequence[Row], np.random.Generator | None], Batch]


class Rows(Sequence[Row]):
    """Rows in memory, as `Batches` takes them."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self._lengths = np.array([len(row.tokens) - 1 for row in rows], dtype=np.int64)

    @property
    def longest(self) -> tuple[int]:
        return (int(self._lengths.max()),)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def lengths(self, indices: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._lengths[indices], self._lengths[indices]


class RowBatches:
    """The training batches in their endless, resumable order."""

    def __init__(self, rows: Sequence[Row], tokens: int, most: int, seed: int, collate: Collate) -> None:
        self.rows, self.seed, self.collate = rows, seed, collate
        self.order = Batches(rows if isinstance(rows, Rows) else Rows(rows), tokens=tokens, seed=seed, rows=most)

    def __next__(self) -> Batch:
        # What a batch draws depends on the seed and its place alone: a resumed run draws the same.
        draws = np.random.Generator(
            np.random.PCG64(np.random.SeedSequence((4, self.seed, *self.order.state().values())))
        )
        return self.collate([self.rows[int(i)] for i in next(self.order)], draws)

    @property
    def epoch(self) -> int:
        return self.order.epoch

    def state(self) -> dict[str, int]:
        return self.order.state()

    def restore(self, state: dict[str, int], *, restart_epoch: bool = False) -> None:
        self.order.restore(state | {"pool": 0, "batch": 0} if restart_epoch else state)


def in_batches(rows: Sequence[Row], tokens: int, collate: Collate) -> Iterator[tuple[list[int], Batch]]:
    """All rows once, those of like length together, with their numbers."""
    for group in bucketed(np.array([len(row.tokens) for row in rows], dtype=np.int64), tokens):
        yield group.tolist(), collate([rows[int(i)] for i in group], None)


@torch.inference_mode()
def outputs(model: Any, rows: Sequence[Row], collate: Collate) -> list[NDArray[np.float64]]:
    """What the model says of each row (C), or of each of its tokens (T C), before any softmax."""
    model.eval()
    device = next(model.parameters()).device
    found: dict[int, NDArray[np.float64]] = {}
    for numbers, batch in in_batches(rows, EVALUATED, collate):
        batch = batch.to(device)
        logits = model(batch.tokens, batch.lengths, batch.segments).double().cpu().numpy()
        found |= dict(zip(numbers, logits, strict=True))
    return [found[i][: len(row.tokens)] if found[i].ndim > 1 else found[i] for i, row in enumerate(rows)]


def windows(sizes: Sequence[int], room: int, shared: int) -> list[tuple[int, int]]:
    """First item and the one after the last of each window: so many items as have room together.

    Each window repeats about `shared` of the one before, half of the room at most. No size may be above the room.
    """
    found, first = [], 0
    ends = np.concatenate([[0], np.cumsum(sizes)])  # before each item, and after all
    while True:
        last = int(np.searchsorted(ends, ends[first] + room, side="right")) - 1
        found.append((first, last))
        if last >= len(sizes):
            return found
        back = int(np.searchsorted(ends, ends[last] - min(shared, room // 2)))
        fits = int(np.searchsorted(ends, ends[last + 1] - room))  # with room for the next item
        first = max(first + 1, back, fits)


def framed(specials: Specials, first: Sequence[int], second: Sequence[int] | None, longest: int) -> tuple[Tokens, int]:
    """One text or two with begin and ends, cut to so many tokens: of two, the longer loses first."""
    a, b = list(first), None if second is None else list(second)
    extra = len(a) + len(b or ()) + len(specials.framed([], None if b is None else [])[0]) - longest
    while extra > 0:
        side = a if b is None or len(a) >= len(b) else b
        other = 0 if b is None else min(len(a), len(b))
        cut = min(extra, max(1, len(side) - other))
        del side[len(side) - cut :]
        extra -= cut
    ids, begin = specials.framed(a, b)
    return np.array(ids, dtype=np.int64), begin
