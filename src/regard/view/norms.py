"""What layer normalisation does: the vectors before and after each norm of a model, and what batch norm would do."""

# Shapes: T tokens, D width.

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from regard.view.pack import pack_floats

Array = NDArray[np.floating[Any]]
_SUBLAYERS = {
    "after_attention": "attention",
    "after_cross": "attention over the input",
    "after_feed_forward": "feed-forward",
}


@dataclass(frozen=True, eq=False)
class Norm:
    """One layer norm of a model and one sentence's vectors before it."""

    name: str  # in the model: encoder.2.after_attention.norm
    x: Array  # T D
    gain: Array  # D
    bias: Array  # D
    eps: float

    @property
    def kind(self) -> str:
        return "encoder" if self.name.startswith("encoder") else "decoder"

    @property
    def layer(self) -> int:
        """From 0; -1 is the norm after the last layer."""
        numbers = [part for part in self.name.split(".") if part.isdigit()]
        return int(numbers[0]) if numbers else -1

    @property
    def side(self) -> str:
        """Whose tokens they are."""
        return "source" if self.kind == "encoder" else "read"

    @property
    def label(self) -> str:
        """For people: "encoder, layer 1, attention"; which norm of a layer it is says its sub-layer."""
        sublayer = next((said for part, said in _SUBLAYERS.items() if part in self.name.split(".")), "")
        where = "after the last layer" if self.layer < 0 else f"layer {self.layer + 1}"
        return ", ".join(filter(None, (self.kind, where, sublayer)))

    @property
    def size(self) -> int:
        return self.x.size

    def normalised(self) -> Array:
        """(x - mean) / sqrt(variance + eps), over each token's own numbers."""
        return _normalised(self.x, 1, self.eps)

    def output(self) -> Array:
        """What the model goes on with: normalised, times its gain, plus its bias."""
        output: Array = self.normalised() * self.gain + self.bias
        return output

    def batch(self) -> Array:
        """As batch norm would in training: over all tokens, one number of the vector at a time."""
        return _normalised(self.x, 0, self.eps)

    def numbers(self, token: int) -> dict[str, Any]:
        """One token's vector at each stage."""
        stages = {"x": self.x, "normalised": self.normalised(), "output": self.output(), "batch": self.batch()}
        return {"norm": self.name} | {name: np.round(v[token].astype(float), 6).tolist() for name, v in stages.items()}

    def terminal(self, token: int, label: str) -> str:
        """One token's vector, before and after."""
        x, first = self.x[token], 8
        rows = {
            "x": x,
            "x - mean": x - x.mean(),
            "/ sqrt(var + eps)": self.normalised()[token],
            "· gain + bias": self.output()[token],
            "batch norm": self.batch()[token],
        }
        lines = [f"{label} before and in the norm of {self.label}; the first {first} of {x.size} numbers", ""]
        for name, values in rows.items():
            numbers = "".join(f"{round(v, 2) + 0.0:>8.2f}" for v in values[:first].tolist())  # no minus before a zero
            lines.append(f"{name:>18} {numbers}   mean {round(values.mean(), 2) + 0.0:>6.2f}  std {values.std():>6.2f}")
        lines += ["", "Layer norm takes mean and spread over a row of numbers, those of one token; batch norm over a"]
        return "\n".join(
            [*lines, f"column, one number of all {len(self.x)} tokens, so that each depends on the others."]
        )

    def to_dict(self) -> dict[str, Any]:
        arrays = {"x": self.x, "gain": self.gain, "bias": self.bias}
        place = {"label": self.label, "kind": self.kind, "layer": self.layer, "side": self.side, "eps": self.eps}
        return place | {n: pack_floats(a) for n, a in arrays.items()}


def _normalised(x: Array, axis: int, eps: float) -> Array:
    x = x.astype(float)
    centred: Array = x - x.mean(axis, keepdims=True)
    spread: Array = np.sqrt(x.var(axis, keepdims=True) + eps)
    return centred / spread


@contextmanager
def record_norms(model: nn.Module) -> Iterator[list[Norm]]:
    """Keeps the first sentence's input of every layer norm that is called inside, in the order of the calls."""
    found: list[Norm] = []

    def hook(name: str) -> Any:
        def keep(norm: nn.LayerNorm, args: tuple[Tensor, ...], _: Tensor) -> None:
            x, gain, bias = (t.detach().float().cpu().numpy() for t in (args[0][0], norm.weight, norm.bias))
            found.append(Norm(name, x, gain, bias, norm.eps))

        return keep

    norms = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.LayerNorm)]
    handles = [norm.register_forward_hook(hook(name)) for name, norm in norms]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
