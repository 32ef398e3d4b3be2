"""The decoding protocol: what a model must offer so that greedy search, beam search and sampling can drive it."""

# Shapes: R rows (hypotheses), N sentences, T length, V vocabulary.

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.errors import UserError

NOT_NUMBERS = "the model's probabilities are not numbers (NaN); train it with a lower rate or clip = 1"


class DecodeState(Protocol):
    """Where a model stands in its rows. The rows of one sentence stand together, equally many each."""

    def reorder(self, rows: Tensor) -> None:
        """Row i goes on from where row rows[i] stood; there may be more or fewer rows than before."""

    def keep(self, sentences: Tensor) -> None:
        """Forgets all sentences but these (their rows are chosen by `reorder`)."""


class Decodable(Protocol):
    """A model that can be decoded from."""

    @property
    def limit(self) -> int | None:
        """The most tokens an input or an output can have, the end symbol not counted; None when any number will do."""

    def encode(self, source: Tensor, lengths: Tensor | None) -> Any: ...

    def start(self, memory: Any) -> Any: ...

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Logits of what comes next (R V), which are the caller's to write over, and the state after these tokens."""


@dataclass(frozen=True)
class Hypothesis:
    """A finished output: its tokens without begin and end, its total log-probability, and the score it is ranked by."""

    tokens: tuple[int, ...]
    log_prob: float
    score: float


def least_limit(members: Iterable[Decodable]) -> int | None:
    """What all members of an ensemble can do."""
    return min((m.limit for m in members if m.limit is not None), default=None)


def most_written(members: Iterable[Decodable]) -> int | None:
    """The most tokens that all members can write. A model whose two sides differ says so by `most_written`."""
    found = [getattr(m, "most_written", m.limit) for m in members]
    return min((most for most in found if most is not None), default=None)


def averaged(each: Sequence[Tensor]) -> Tensor:
    """log of the members' mean probability, from each one's log p (R V). What one alone says stays as it is."""
    if any(bool(one[:, 0].isnan().any()) for one in each):  # one NaN makes a whole row of log p NaN
        raise UserError(NOT_NUMBERS)
    return each[0] if len(each) == 1 else torch.stack(list(each)).logsumexp(0) - math.log(len(each))


class Model:
    """One model or an ensemble (probabilities averaged) behind one `step`."""

    def __init__(self, members: Sequence[Decodable], source: Tensor, lengths: Tensor | None) -> None:
        if lengths is not None and bool((lengths == source.size(1)).all()):
            lengths = None  # nothing is padded: no mask is needed
        self.members = members
        self.states = [m.start(m.encode(source, lengths)) for m in members]
        self.most_written = most_written(members)

    def step(self, tokens: Tensor, *, scored: bool = True) -> Tensor:
        """log p(next) of each row (R V) after its tokens (R T). scored: else any numbers in the same order."""
        outputs = []
        for i, member in enumerate(self.members):
            logits, self.states[i] = member.step(tokens, self.states[i])
            logits = logits.float()
            if scored or len(self.members) > 1:
                torch.log_softmax(logits, -1, out=logits)  # in place: no tensor of a step is larger
            outputs.append(logits)
        return averaged(outputs)

    def reorder(self, rows: Tensor) -> None:
        for state in self.states:
            state.reorder(rows)

    def keep(self, sentences: Tensor) -> None:
        for state in self.states:
            state.keep(sentences)
