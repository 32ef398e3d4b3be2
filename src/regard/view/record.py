"""Records attention beside the normal path: `with record(model) as trace: model(...)`."""

# Shapes: B batch, H heads, T queries, S keys, K head width.

import inspect
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.nn.attention import Kernel, Mask

if TYPE_CHECKING:
    from regard.view.look import Look


@dataclass(frozen=True, eq=False)
class Record:
    """One call of one kernel. What may be None is there when recorded with full=True, of a scaled dot product."""

    name: str  # of the attention in its model: decoder.2.cross
    kind: str  # encoder, decoder or cross; "attention" where the name says none of these
    layer: int  # from 0
    weights: Tensor  # B H T S
    mask: Mask
    q: Tensor | None = None  # B H T K
    k: Tensor | None = None  # B H S K
    v: Tensor | None = None  # B H S K
    scores: Tensor | None = None  # B H T S: q k^T, neither divided nor masked
    heads: Tensor | None = None  # B H T K, before the output projection


@dataclass(eq=False)
class Trace:
    """What was recorded, in the order of the calls."""

    records: list[Record] = field(default_factory=list)
    _before: int = 0  # records from before the pass of the whole model that is under way

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(r.kind for r in self.records))

    def layers(self, kind: str) -> int:
        """How many layers of this kind were called."""
        return len({r.layer for r in self.records if r.kind == kind})

    def weights(self, kind: str, layer: int) -> Tensor:
        """The weights of a layer (B H T S)."""
        return self.only(kind, layer).weights

    def show(self, source: Sequence[str], target: Sequence[str] | None = None, row: int = 0) -> "Look":
        """A look with these tokens, to be drawn, saved, or left as the last line of a notebook's cell.

        source: what the encoder (or a model with one side) read. target: what the decoder wrote, one for each place
        that it read. row: which sentence of the batch; what is past its tokens is padding and is left out.
        """
        from regard.view.look import show

        return show(self, source, target, row)

    def only(self, kind: str, layer: int) -> Record:
        """The one record of a layer."""
        found = [r for r in self.records if (r.kind, r.layer) == (kind, layer)]
        if not found:
            had = ", ".join(f"{k} with {self.layers(k)} layers" for k in self.kinds) or "nothing"
            raise UserError(f"no {kind} attention of layer {layer} was recorded; recorded: {had}")
        if len(found) > 1:
            raise UserError(
                f"{kind} attention of layer {layer} was called {len(found)} times; "
                "record one pass over the whole target, or read trace.records"
            )
        return found[0]

    def _begin(self, *_: Any) -> None:
        self._before = len(self.records)

    def _end(self, *_: Any) -> None:
        """A decoder that looks once a word, all in one pass, has looked once: its words' records are joined."""
        calls: dict[str, list[Record]] = {}
        for made in self.records[self._before :]:
            calls.setdefault(made.name, []).append(made)
        self.records[self._before :] = [_joined(one) for one in calls.values()]


def _joined(calls: list[Record]) -> Record:
    if len(calls) == 1:
        return calls[0]
    return replace(calls[0], weights=torch.cat([call.weights for call in calls], 2))


@contextmanager
def record(model: nn.Module, *, full: bool = False) -> Iterator[Trace]:
    """Keeps the weights of every attention that is called inside; the model's output stays the same to the bit.

    The weights come from the plain equation, computed next to the fused kernel, without gradients. The model must be
    in evaluation mode: with dropout there would be no one set of weights to speak of.
    """
    trace = Trace()
    kernels = kernels_of(model)
    if not kernels:
        raise UserError(f"{type(model).__name__} has no attention that can be recorded")
    _refuse_training(model)
    handles = [
        kernel.register_forward_hook(_Hook(trace, name, full), with_kwargs=True) for name, kernel in kernels.items()
    ]
    handles += [model.register_forward_pre_hook(trace._begin), model.register_forward_hook(trace._end)]
    try:
        yield trace
    finally:
        for handle in handles:
            handle.remove()


class _Hook:
    """Sees each call of one kernel and adds a record."""

    def __init__(self, trace: Trace, name: str, full: bool) -> None:
        self.trace, self.name, self.full = trace, name, full
        self.kind, self.layer = place(name)

    @torch.no_grad()
    def __call__(self, kernel: Kernel, args: tuple[Any, ...], kwargs: dict[str, Any], output: Tensor) -> None:
        _refuse_training(kernel)
        given = inspect.signature(kernel.forward).bind(*args, **kwargs).arguments
        q, k, v, mask = (given[name] for name in ("q", "k", "v", "mask"))
        kept = (
            {"q": q, "k": k, "v": v, "scores": q @ k.transpose(-2, -1), "heads": output}
            if self.full and kernel.scaled
            else {}
        )
        more = {name: tensor.detach() for name, tensor in kept.items()}
        self.trace.records.append(Record(self.name, self.kind, self.layer, kernel.weights(q, k, mask), mask, **more))


def kernels_of(model: nn.Module) -> dict[str, Kernel]:
    """Whatever in a model offers its weights, by the name of the attention around it."""
    found = {name: module for name, module in model.named_modules() if isinstance(module, Kernel)}
    return {name.removesuffix("kernel").rstrip("."): kernel for name, kernel in found.items()}


def place(name: str) -> tuple[str, int]:
    """The kind and layer of an attention from its qualified name: "decoder.2.cross" is ("cross", 2)."""
    parts = name.split(".")
    side = next((part for part in reversed(parts) if part in ("encoder", "decoder")), "attention")
    numbers = re.findall(r"(?<![^.])\d+(?![^.])", name)
    return "cross" if parts[-1] == "cross" else side, int(numbers[-1]) if numbers else 0


def _refuse_training(module: nn.Module) -> None:
    if module.training:
        raise UserError("attention is recorded in evaluation mode only; call model.eval() first")
