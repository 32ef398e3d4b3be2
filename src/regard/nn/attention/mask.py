"""What may be attended: everything, less the future, less padding."""

import torch
from torch import Tensor


class Mask:
    """Says which keys a query may see, without an n x n tensor until a kernel asks for one.

    causal: a query sees its own position and earlier ones. With a cache the queries are the last of the keys.
    lengths: how many keys of each row are real (B); None when all are.
    """

    def __init__(self, *, causal: bool = False, lengths: Tensor | None = None) -> None:
        self.causal = causal
        self.lengths = lengths
        self._built: dict[tuple[int, int], Tensor | None] = {}  # every layer asks for the same one

    def keep(self, sentences: Tensor) -> "Mask":
        """The mask of these rows alone."""
        return Mask(causal=self.causal, lengths=None if self.lengths is None else self.lengths[sentences])

    def allowed(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """Boolean, broadcastable to B H T S, True = may attend; None when everything may."""
        if (queries, keys) not in self._built:
            self._built[queries, keys] = self._build(queries, keys, device)
        return self._built[queries, keys]

    def _build(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        positions = torch.arange(keys, device=device)
        past = real = None
        if self.causal and queries > 1:
            own = torch.arange(keys - queries, keys, device=device)
            past = (positions <= own[:, None])[None, None]  # 1 1 T S
        if self.lengths is not None:
            real = (positions < self.lengths[:, None])[:, None, None]  # B 1 1 S
        if past is None or real is None:
            return past if real is None else real
        return past & real
