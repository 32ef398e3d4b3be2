"""One token further in a decoder, to the logits of the next, as one compiled call. Its plain twin is in packed.py."""

# Shapes: R rows (hypotheses), N sentences, L layers, H heads, T target length, S source length, D width, K head width,
# V vocabulary.

import ctypes
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.nn.native.build import CannotBuild, library

WIDTH = 16  # every width is a multiple of it
LEAST_LANES = 8  # numbers in a vector: with fewer it was not measured whether it is faster
MOST_THREADS = 2  # it uses one core; where there are more than these, PyTorch keeps models that are
LARGE = 1 << 22  # numbers of the decoder together

_folder: Path | None = None  # where the library is kept, once decoders may use it


class _Sizes(ctypes.Structure):
    _counts = (
        "rows", "sentences", "layers", "heads", "width", "inner", "vocabulary", "room", "length", "keys", "first",
    )  # fmt: skip
    _fields_ = [*((name, ctypes.c_int64) for name in _counts), ("eps", ctypes.c_float)]


def allow(folder: Path) -> None:
    """Decoders that are packed from here on use it, if it can be built. folder: where it is kept then."""
    global _folder
    _folder = folder


@functools.cache  # what cannot be built is not tried for every model
def _built(folder: Path) -> Any:
    """The call, or None."""
    try:
        steps = library(folder)
    except CannotBuild:
        return None
    steps.decode.argtypes, steps.decode.restype = [ctypes.c_void_p] * 8 + [_Sizes], None
    return steps.decode if steps.lanes() >= LEAST_LANES else None


Pair = tuple[Tensor | None, Tensor | None]  # a norm's gain and bias; a linear layer's weight (in, out) and bias


class Layers:
    """A decoder's weights. Of each layer, nine pairs: norm, q with k and v, out; norm, q and out over the source; norm,
    inner and outer layer. last: the norm after them, if there is one, and the output layer.
    """

    def __init__(
        self, layers: Sequence[Sequence[Pair]], last: Sequence[Pair], heads: int, first: bool, eps: float
    ) -> None:
        self.layers, self.last = (_Pointers(pairs) for pairs in ([p for layer in layers for p in layer], last))
        self.count, self.heads, self.first, self.eps = len(layers), heads, first, eps
        outer, output = layers[0][-1][0], last[-1][0]
        assert outer is not None
        assert output is not None
        (self.inner, self.width), self.vocabulary = outer.shape, output.size(1)
        tensors = [t for t in self.layers.tensors + self.last.tensors if t is not None]
        self.size = sum(t.numel() for t in tensors)
        fits = (
            self.vocabulary >= WIDTH
            and all(width % WIDTH == 0 for width in (self.width // heads, self.inner))
            and all(t.dtype == torch.float32 and t.device.type == "cpu" for t in tensors)
        )
        # None if it does not take such layers, for which it is not built, or could not be built.
        self.call: Any = _built(_folder) if fits and _folder is not None else None

    def takes(self, x: Tensor, grown: Tensor, source: Tensor) -> bool:
        """Whether they fit together, as they do unless somebody errs, and it is faster with the threads there are."""
        rows, sentences = grown.size(2), source.size(2)
        return (
            (torch.get_num_threads() <= MOST_THREADS or self.size < LARGE)
            and x.shape == (rows, self.width)
            and 0 < sentences <= rows
            and rows % sentences == 0
            and all(t.dtype == torch.float32 and t.is_contiguous() for t in (x, grown, source))
        )

    def step(self, x: Tensor, grown: Tensor, length: int, source: Tensor, lengths: Tensor | None) -> Tensor:
        """The logits (R V). x (R D) is written over with the states that they are of.

        grown (L 2 R H room K): what was seen, with a place for this token, the last of T. source (L 2 N H S K): of each
        sentence `lengths` (N).
        """
        _, _, sentences, heads, keys, width = source.shape
        rows, room = grown.size(2), grown.size(4)
        logits = x.new_empty(rows, self.vocabulary)
        space = x.new_empty(rows * (5 * self.width + self.inner) + max(length, keys) + WIDTH)
        sizes = rows, sentences, self.count, heads, width, self.inner, self.vocabulary, room, length, keys, self.first
        places = (None if t is None else t.data_ptr() for t in (x, logits, grown, source, lengths))
        self.call(*places, self.layers.pointers, self.last.pointers, space.data_ptr(), _Sizes(*sizes, self.eps))
        return logits


class _Pointers:
    """To tensors, which stay as long as they do."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.tensors = [tensor for pair in pairs for tensor in pair]
        places = (None if t is None else t.data_ptr() for t in self.tensors)
        self.pointers = (ctypes.c_void_p * len(self.tensors))(*places)
