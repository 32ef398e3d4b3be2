"""Keys and values kept between decoding steps: growing (self-attention) or fixed (over the source)."""

# Shapes: R rows (hypotheses), N sentences, H heads, T length, K head width.

import torch
from torch import Tensor


class Growing:
    """The keys and values of all positions so far. Room is doubled, so that a step seldom copies."""

    def __init__(self) -> None:
        self.length = 0
        self._room: tuple[Tensor, Tensor] | None = None

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Adds k and v (R H T K) and gives back everything up to and including them."""
        start, self.length = self.length, self.length + k.size(2)
        self._make_room(k, v)
        assert self._room is not None
        for room, new in zip(self._room, (k, v), strict=True):
            room[:, :, start : self.length] = new
        return self._room[0][:, :, : self.length], self._room[1][:, :, : self.length]

    def reorder(self, rows: Tensor) -> None:
        """Row i becomes what row rows[i] was; there may be fewer rows than before."""
        if self._room is not None:
            k, v = self._room
            self._room = (self._gather(k, rows), self._gather(v, rows))

    def _gather(self, room: Tensor, rows: Tensor) -> Tensor:
        moved = room.new_empty(rows.numel(), *room.shape[1:])
        torch.index_select(room[:, :, : self.length], 0, rows, out=moved[:, :, : self.length])
        return moved

    def _make_room(self, k: Tensor, v: Tensor) -> None:
        have = 0 if self._room is None else self._room[0].size(2)
        if have >= self.length:
            return
        size = max(16, 2 * have, self.length)
        grown = tuple(t.new_empty(t.size(0), t.size(1), size, t.size(3)) for t in (k, v))
        if self._room is not None:
            for new, old in zip(grown, self._room, strict=True):
                new[:, :, :have] = old
        self._room = (grown[0], grown[1])


class Fixed:
    """The projected memory of N sentences, shared by all hypotheses of a sentence without copies."""

    def __init__(self, k: Tensor, v: Tensor) -> None:
        self.k, self.v = k, v  # N H S K

    def keep(self, sentences: Tensor) -> None:
        """Only these sentences are still being decoded."""
        self.k, self.v = self.k[sentences], self.v[sentences]
