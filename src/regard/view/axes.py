"""The rows of tokens that attention goes between: what is read, what is written, and their words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.view import words

# For each kind of attention: whose rows its queries and its keys are.
KINDS = {
    "encoder": ("source", "source"),
    "decoder": ("target", "read"),
    "cross": ("target", "source"),
    "attention": ("source", "source"),  # of a module that is neither
}


@dataclass(frozen=True)
class Axis:
    """A row of tokens, and which of them make up each word."""

    tokens: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, tokens: Sequence[str]) -> "Axis":
        return cls(tuple(tokens), words.groups(tokens))

    @property
    def labels(self) -> list[str]:
        return words.labels(self.tokens, self.groups)

    def merged(self) -> "Axis":
        whole = tuple(words.word([self.tokens[i] for i in group]) for group in self.groups)
        return Axis(whole, tuple((i,) for i in range(len(whole))))

    def to_dict(self) -> dict[str, Any]:
        return {
            "tokens": list(self.tokens),
            "labels": self.labels,
            "words": self.merged().labels,
            "groups": [list(group) for group in self.groups],
        }
