"""Steps of an update, compiled: attention over few keys, dropout, sums and norms; and matrix products for some.

What stands between the matrix products took a seventh of the time of a large model and two fifths of a small one's. The
products themselves are PyTorch's, which come from Intel's library, unless ours are faster: in whole numbers where the
processor has VNNI, in float32 on AMD's without AVX-512. All is compiled when training begins; where that cannot be, and
wherever `usable` and its like say no, the plain twin in the module that calls does the same.
"""

# Shapes: B batch, H heads, T queries, S keys, K head width, D width.

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from regard.nn.native.build import CannotBuild, described, library

WIDTH = 16  # every width is a multiple of it
MOST_KEYS = 128  # beyond that PyTorch's attention, which walks in blocks, is about as fast
LEAST = 32  # rows and columns of a product: laying out smaller ones costs too much
MOST_THREADS = 2  # a step has one, PyTorch's own have all; with more than two it was not measured which is faster

_pointer, _count = ctypes.c_void_p, ctypes.c_int64


class _Sizes(ctypes.Structure):
    _fields_ = [(name, _count) for name in ("batch", "heads", "queries", "keys", "width", "causal")]


_ARGUMENTS: dict[str, list[Any]] = {
    "attend": [_pointer] * 7 + [_Sizes],
    "attend_backward": [_pointer] * 10 + [_Sizes],
    "add_dropped": [_pointer] * 4 + [_count] * 2,
    "add_norm": [_pointer] * 6 + [_count, _pointer, _pointer, ctypes.c_float, _count, _count],
    "add_norm_backward": [_pointer] * 9 + [_count, _pointer, _count, _count],
    **dict.fromkeys(("multiply", "multiply_whole"), [_pointer] + [_pointer, _count, _count] * 2 + [_count] * 4),
    "relu": [_pointer] * 2 + [_count] * 2,
    "relu_backward": [_pointer] * 3 + [_count] * 2,
}
_steps: ctypes.CDLL  # once they are built
_lanes = 0  # floats in a vector
_users = 0  # while there are any, the steps stand for their twins
_product = ""  # which products do, too
_lock = threading.Lock()


@contextmanager
def compiled(folder: Path, precision: str = "float32") -> Iterator[str]:
    """Inside, the steps are used; training asks for it, an import never. Yields why they are not there, or nothing.

    folder: where they are kept when they were built. precision: a recipe's; int16 and auto have products of 16-bit
    whole numbers where there are such. They are the same for all who are inside.
    """
    global _steps, _lanes, _users, _product
    try:
        steps = library(folder)
    except CannotBuild as reason:
        yield str(reason)
        return
    for name, arguments in _ARGUMENTS.items():
        function = getattr(steps, name)
        function.argtypes, function.restype = arguments, _count if name.startswith("multiply") else None
    if precision in ("auto", "int16") and steps.multiplies_whole():
        product = "multiply_whole"
    else:
        product = "multiply" if steps.multiplies() and _slow_library() else ""
    with _lock:
        if used() and product != _product:
            raise RuntimeError("another training in this process has another precision; begin this in its own process")
        _steps, _lanes, _users, _product = steps, int(steps.lanes()), _users + 1, product
    try:
        yield ""
    finally:
        with _lock:
            _users -= 1


def _slow_library() -> bool:
    """Where our products were measured to be faster than PyTorch's: on AMD's processors without AVX-512."""
    return "AuthenticAMD" in described("vendor_id") and "avx512f" not in described("flags")


def used() -> bool:
    return _users > 0


def name() -> str:
    """Which steps are used: those of another machine or compiler may differ in the last bits."""
    return Path(_steps._name).stem if used() else "none"


def products(threads: int = 1) -> str:
    """What the products of training are made in, if each has so many threads."""
    return "int16" if used() and threads == 1 and _product == "multiply_whole" else "float32"


def usable(*tensors: Tensor) -> bool:
    """Whether the steps are there, and for such tensors."""
    return (
        used()
        and torch.get_num_threads() <= MOST_THREADS
        and all(x.device.type == "cpu" and x.dtype == torch.float32 for x in tensors)
        and all(x.dim() > 0 and x.size(-1) % WIDTH == 0 for x in tensors)
    )


def ready(*tensors: Tensor) -> bool:
    """Where the steps stand for their twins: tensors of one shape, while training, in float32."""
    return (
        usable(*tensors)
        and torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and all(x.shape == tensors[0].shape for x in tensors)
    )


def heard(layer: nn.Module) -> bool:
    """Whether somebody listens to what the layer does, or changes it first: then it must run as a layer."""
    return any((layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks))


def norms(norm: nn.Module, *tensors: Tensor) -> bool:
    """`ready` for a norm: a plain one, with gain and bias, of this width, that nobody listens to."""
    return (
        type(norm) is nn.LayerNorm
        and norm.elementwise_affine
        and norm.bias is not None
        and norm.normalized_shape == tensors[0].shape[-1:]
        and norm.weight.dtype == norm.bias.dtype == torch.float32
        and not heard(norm)
        and ready(*tensors)
    )


def attends(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """`ready` for attention (B H T K): few keys, and as many values for each head."""
    return (
        usable(q, k, v)
        and ready(k, v)
        and q.dim() == k.dim() == 4
        and q.shape[:2] == k.shape[:2]
        and q.size(3) == k.size(3)
        and k.size(2) <= MOST_KEYS
    )


def attend(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, causal: bool) -> Tensor:
    """softmax(Q K^T / sqrt(d_k)) V over the first `lengths` keys, and the past alone if causal (B H T K).

    Laid out so that joining the heads copies nothing.
    """
    if lengths is not None:
        lengths = lengths.to(torch.int64).clamp(0, k.size(2)).expand(q.size(0)).contiguous()
    rows = (x.transpose(1, 2).contiguous() for x in (q, k, v))  # B T H K
    out: Tensor = _Attend.apply(*rows, lengths, causal)  # type: ignore[no-untyped-call]
    return out.transpose(1, 2)


def add_dropped(x: Tensor | None, y: Tensor, draws: Tensor, keep: int) -> Tensor:
    """x + y * mask, or y * mask; the mask is 256 / keep where a byte of `draws` is below keep, else 0."""
    out: Tensor = _AddDropped.apply(x, y, draws, keep)  # type: ignore[no-untyped-call]
    return out


def add_norm(x: Tensor, y: Tensor, dropped: tuple[Tensor, int] | None, norm: nn.LayerNorm) -> Tensor:
    """norm(x + y), or norm(x + y * mask)."""
    weights = norm.weight.contiguous(), norm.bias.contiguous()
    out: Tensor = _AddNorm.apply(x, y, *(dropped or (None, 256)), *weights, norm.eps)  # type: ignore[no-untyped-call]
    return out


def beside_norm(x: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor]:
    """x and norm(x); the gradients that reach x past the norm and through it are summed on the way."""
    weights = norm.weight.contiguous(), norm.bias.contiguous()
    same, normed = _BesideNorm.apply(x, *weights, norm.eps)  # type: ignore[no-untyped-call]
    return same, normed


def multiplies(*matrices: Tensor) -> bool:
    """Whether products of such matrices are to be ours: large, and in one thread, since a part has a core."""
    return (
        bool(_product)
        and used()
        and torch.get_num_threads() == 1
        and not torch.is_grad_enabled()  # nobody could ask for the product's own gradient
        and all(x.device.type == "cpu" and x.dtype == torch.float32 and min(x.shape) >= LEAST for x in matrices)
    )


def multiply(a: Tensor, b: Tensor, out: Tensor, *, add: bool) -> bool:
    """out = a b, or out + a b, if they lie by rows or by columns; gives back whether it was done."""
    dense = all(1 in x.stride() and 0 not in x.stride() for x in (a, b)) and out.is_contiguous()
    fits = a.size(1) == b.size(0) and out.shape == (a.size(0), b.size(1))
    sizes = *a.shape, b.size(1)
    return dense and fits and bool(_call(_product, out, a, *a.stride(), b, *b.stride(), *sizes, add))


def relu_(h: Tensor, bias: Tensor) -> Tensor:
    """max(0, h + bias), in place."""
    _call("relu", h, bias, *h.shape)
    return h


def relu_backward_(d: Tensor, h: Tensor) -> Tensor:
    """d is zeroed where h is; gives back its sum over tokens."""
    d_bias = d.new_empty(d.size(1))
    _call("relu_backward", d, h, d_bias, *d.shape)
    return d_bias


def _call(name: str, *arguments: Any) -> Any:
    return getattr(_steps, name)(*(a.data_ptr() if isinstance(a, Tensor) else a for a in arguments))


class _Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor | None, causal: bool) -> Tensor:
        batch, queries, heads, width = q.shape
        keys = k.size(1)
        ctx.sizes, end = _Sizes(batch, heads, queries, keys, width, causal), -(-keys // _lanes) * _lanes
        out, weights = torch.empty_like(q), q.new_empty(batch, heads, queries, end)
        _call("attend", q, k, v, lengths, out, weights, q.new_empty(width, end), ctx.sizes)
        ctx.save_for_backward(q, k, v, weights, lengths)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weights, lengths = ctx.saved_tensors
        found = tuple(torch.empty_like(x) for x in (q, k, v))
        room = q.new_empty(q.size(3) + q.size(1), weights.size(3))
        _call("attend_backward", grads[0].contiguous(), q, k, v, weights, lengths, *found, room, ctx.sizes)
        return *found, None, None


class _AddDropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor | None, y: Tensor, draws: Tensor, keep: int) -> Tensor:
        ctx.save_for_backward(draws)
        ctx.keep = keep
        y = y.contiguous()
        out = torch.empty_like(y)
        _call("add_dropped", out, None if x is None else x.contiguous(), y, draws, keep, y.numel())
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        g, (draws,) = grads[0].contiguous(), ctx.saved_tensors
        d_y = torch.empty_like(g)
        _call("add_dropped", d_y, None, g, draws, ctx.keep, g.numel())
        return grads[0] if ctx.needs_input_grad[0] else None, d_y, None, None


class _AddNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, y: Tensor, draws: Tensor | None, keep: int, gain: Tensor, bias: Tensor, eps: float
    ) -> Tensor:
        x, y = x.contiguous(), y.contiguous()
        z, out, stats = torch.empty_like(x), torch.empty_like(x), x.new_empty((*x.shape[:-1], 2))
        _call("add_norm", out, z, stats, x, y, draws, keep, gain, bias, eps, stats.numel() // 2, x.size(-1))
        ctx.save_for_backward(z, stats, draws, gain)
        ctx.keep = keep
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        z, stats, draws, gain = ctx.saved_tensors
        d_z, d_gain, d_bias = (torch.empty_like(x) for x in (z, gain, gain))
        d_y = d_z if draws is None else torch.empty_like(z)
        _call(
            "add_norm_backward", d_z, None if draws is None else d_y, d_gain, d_bias, grads[0].contiguous(), None, z,
            stats, draws, ctx.keep, gain, stats.numel() // 2, z.size(-1),
        )  # fmt: skip
        return d_z, d_y, None, None, d_gain, d_bias, None


class _BesideNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        row = x.contiguous()
        out, stats = torch.empty_like(row), row.new_empty((*row.shape[:-1], 2))
        _call("add_norm", out, None, stats, row, None, None, 256, gain, bias, eps, stats.numel() // 2, row.size(-1))
        ctx.save_for_backward(row, stats, gain)
        return x.view_as(x), out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        z, stats, gain = ctx.saved_tensors
        past, through = (g.contiguous() for g in grads)
        d_z, d_gain, d_bias = torch.empty_like(z), torch.empty_like(gain), torch.empty_like(gain)
        _call(
            "add_norm_backward", d_z, None, d_gain, d_bias, through, past, z, stats, None, 256, gain,
            stats.numel() // 2, z.size(-1),
        )  # fmt: skip
        return d_z, d_gain, d_bias, None
