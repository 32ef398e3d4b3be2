"""The six steps of attention for one token, with every number: q, k, v, scores, softmax, weighted values, their sum."""

# Shapes: H heads, T queries, S keys, K head width.

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.view.pack import pack_floats
from regard.view.record import Record

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Steps:
    """What one head does for one token: softmax(q k^T / sqrt(d_k)) v, step by step."""

    q: Array  # K
    k: Array  # S K
    v: Array  # S K
    future: NDArray[np.bool_]  # S: hidden by the causal mask
    padding: NDArray[np.bool_]  # S: hidden because no token is there

    @property
    def scores(self) -> Array:
        scores: Array = self.k @ self.q
        return scores

    @property
    def scaled(self) -> Array:
        scaled: Array = self.scores / math.sqrt(self.q.size)
        return scaled

    @property
    def weights(self) -> Array:
        allowed = np.where(self.future | self.padding, -np.inf, self.scaled)
        powers = np.exp(allowed - allowed.max())
        weights: Array = powers / powers.sum()
        return weights

    @property
    def weighted(self) -> Array:
        weighted: Array = self.weights[:, None] * self.v
        return weighted

    @property
    def sum(self) -> Array:
        total: Array = self.weighted.sum(0)
        return total

    def to_dict(self) -> dict[str, Any]:
        """Every number, in the order of the steps."""
        steps = {"q": self.q, "k": self.k, "v": self.v, "scores": self.scores, "scaled": self.scaled}
        steps |= {"weights": self.weights, "weighted": self.weighted, "sum": self.sum}
        masks = {"future": self.future.tolist(), "padding": self.padding.tolist()}
        return {name: np.round(values, 6).tolist() for name, values in steps.items()} | masks

    def terminal(self, token: str, keys: Sequence[str]) -> str:
        """As a table, one line a key."""
        width = max(map(len, (*keys, "key")))
        root = math.sqrt(self.q.size)
        lines = [
            f"1  the query of {token}: {_numbers(self.q)}",
            f"   d_k is {self.q.size}, its square root {root:.4g}",
            "",
            f"   {'key':>{width}}  {'2  q·k':>9}  {'3  /√d_k':>9}  {'mask':>7}  {'4  softmax':>10}  5  softmax · v",
        ]
        for j, name in enumerate(keys):
            mask = "future" if self.future[j] else "padding" if self.padding[j] else ""
            lines.append(
                f"   {name:>{width}}  {self.scores[j]:>9.2f}  {self.scaled[j]:>9.2f}  {mask:>7}  "
                f"{self.weights[j]:>10.3f}  {_numbers(self.weighted[j])}"
            )
        return "\n".join([*lines, "", f"6  their sum, the head's output: {_numbers(self.sum)}"])


def _numbers(values: Array, first: int = 4) -> str:
    shown = " ".join(f"{round(x, 2) + 0.0:.2f}" for x in values[:first].tolist())  # + 0.0: no minus before a zero
    return f"({shown}{' …' if values.size > first else ''})"


@dataclass(frozen=True, eq=False)
class Vectors:
    """The q, k and v of all heads of one attention, for one sentence."""

    kind: str
    layer: int
    q: Array  # H T K
    k: Array  # H S K
    v: Array  # H S K
    causal: bool = False
    real: int | None = None  # so many keys are tokens, the rest padding; None when all are

    @classmethod
    def of(cls, found: Record, row: int = 0) -> "Vectors":
        """From what `record(model, full=True)` kept."""
        if found.q is None or found.k is None or found.v is None:
            raise UserError("there are no queries, keys and values: record with full=True")
        q, k, v = (t[row].float().cpu().numpy() for t in (found.q, found.k, found.v))
        lengths = found.mask.lengths
        return cls(found.kind, found.layer, q, k, v, found.mask.causal, None if lengths is None else int(lengths[row]))

    @property
    def size(self) -> int:
        return self.q.size + self.k.size + self.v.size

    def steps(self, head: int, token: int) -> Steps:
        heads, queries, _ = self.q.shape
        keys = np.arange(self.k.shape[1])
        if not 0 <= head < heads:
            raise UserError(f"there is no such head: the model has {heads}")
        if not 0 <= token < queries:
            raise UserError(f"there is no such token: there are {queries}")
        future = keys > token + len(keys) - queries if self.causal else np.zeros(len(keys), bool)
        padding = keys >= (len(keys) if self.real is None else self.real)
        q, k, v = (a.astype(float) for a in (self.q[head, token], self.k[head], self.v[head]))
        return Steps(q, k, v, future, padding)

    def to_dict(self, head: int | None = None) -> dict[str, Any]:
        """For the page, which works out the steps itself; all heads, or one."""
        heads = range(len(self.q)) if head is None else [head]
        if head is not None and not 0 <= head < len(self.q):
            raise UserError(f"there is no such head: the model has {len(self.q)}")
        arrays = {"q": self.q, "k": self.k, "v": self.v}
        return {
            "kind": self.kind,
            "layer": self.layer,
            "heads": list(heads),
            "causal": self.causal,
            "real": self.k.shape[1] if self.real is None else self.real,
            **{name: pack_floats(array[list(heads)]) for name, array in arrays.items()},
        }


# The example that everyone teaches with. Each vector is four numbers, sixteen times over, so that all can be checked
# by heart: q of "Thinking" times k of "Thinking" is 16 (2·1 + 1·2 - 1·1 + 2·2) = 112, times k of "Machines" 96.
EXAMPLE_TOKENS = ("Thinking", "Machines", "<pad>")
_Q = ((2, 1, -1, 2), (2, 0, 1, 1), (0, 0, 0, 0))
_K = ((1, 2, 1, 2), (2, 1, 1, 1), (1, 1, 1, 1))
_V = ((1, 0, 2, -1), (0, 2, -1, 1), (1, 1, 1, 1))


def example(*, causal: bool = False, padding: bool = False) -> Vectors:
    """ "Thinking Machines" with d_k = 64, plain or under a mask; with padding there is a third place."""
    places = 3 if padding else 2
    q, k, v = (np.tile(np.array(rows[:places], float), (1, 16))[None] for rows in (_Q, _K, _V))
    return Vectors("example", 0, q, k, v, causal, 2 if padding else None)


def examples() -> dict[str, Any]:
    """The example for the page: plain, and under each mask."""
    cases = {"plain": example(), "causal": example(causal=True), "padding": example(padding=True)}
    return {"tokens": list(EXAMPLE_TOKENS), "cases": {name: case.to_dict() for name, case in cases.items()}}
