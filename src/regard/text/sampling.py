"""Subword sampling: a word comes in other pieces now and then, so that a small corpus is worn out more slowly.

BPE-dropout (Provilkov 2020) leaves out merges at random while it tokenises. Here merges are undone in what is tokenised
already: a token falls into the two it was merged from with a given chance, and so do these. That needs no text, works
on whole batches at once, and follows the seed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import UserError
from regard.text.tokenizer import Tokenizer

Tokens = NDArray[Any]


class Splitter:
    """Undoes merges of a byte-pair tokenizer. chance: of each merge that is there to be undone."""

    def __init__(self, tokenizer: Tokenizer, chance: float) -> None:
        if tokenizer.kind != "bpe":
            raise UserError(f"subword sampling undoes merges, which only kind 'bpe' has, not {tokenizer.kind!r}")
        self.parts = np.full((len(tokenizer), 2), -1, dtype=np.int64)
        for whole, left, right in tokenizer.merges():
            self.parts[whole] = left, right
        self.bound = np.uint64(min(int(chance * 2**64), 2**64 - 1))

    def __call__(self, sequences: Sequence[Tokens], longest: int, random: np.random.BitGenerator) -> list[Tokens]:
        """The sequences with some tokens split; one that would grow above `longest` stays as it is."""
        flat = np.concatenate(sequences).astype(np.int64)
        owner = np.repeat(np.arange(len(sequences)), [len(s) for s in sequences])
        fresh = np.ones(len(flat), dtype=bool)  # not yet decided
        while fresh.any():
            split = fresh & (self.parts[flat, 0] >= 0)
            split[split] = random.random_raw(int(split.sum())) < self.bound
            first = np.arange(len(flat)) + np.cumsum(split) - split  # where each token, or its first part, comes to lie
            counts = 1 + split
            parts = self.parts[flat[split]]
            flat, owner = np.repeat(flat, counts), np.repeat(owner, counts)
            flat[first[split]], flat[first[split] + 1] = parts[:, 0], parts[:, 1]
            fresh = np.repeat(split, counts)
        grown = np.split(flat, np.cumsum(np.bincount(owner, minlength=len(sequences)))[:-1])
        return [new if len(new) <= longest else old for new, old in zip(grown, sequences, strict=True)]
