"""How to decode: the options of beam search and sampling, and the rules that forbid tokens."""

# Shapes: R rows (hypotheses), V vocabulary.

from typing import Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from regard.text import BOS, EOS, PAD, UNK

NEVER = slice(PAD, BOS + 1)  # padding, the unknown token and the begin symbol are no output
assert {PAD, UNK, BOS} == set(range(NEVER.start, NEVER.stop))


class DecodeOptions(BaseModel):
    """Beam search as published (section 6.1), or sampling when `sample` is set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    beam: int = Field(4, ge=1, le=256, description="hypotheses kept; 1 is greedy")
    length_penalty: float = Field(
        0.6, ge=0, description="alpha of ((5 + length) / 6)^alpha; 0 ranks by log-probability"
    )
    n_best: int = Field(1, ge=1, description="how many outputs of each input to give back")
    min_length: int = Field(0, ge=0, description="least tokens in an output")
    max_length: int | None = Field(None, ge=1, description="most tokens in an output; default input + extra_length")
    extra_length: int = Field(50, ge=1, description="how many tokens longer than the input an output may be")
    no_repeat_ngram: int = Field(0, ge=0, description="no n-gram of this size twice in an output; 0 allows all")
    sample: bool = Field(False, description="draw tokens at random in place of beam search")
    temperature: float = Field(1.0, gt=0, description="above 1 flattens, below 1 sharpens what is sampled from")
    top_k: int = Field(0, ge=0, description="sample from the k likeliest tokens; 0 is all")
    top_p: float = Field(1.0, gt=0, le=1, description="sample from the smallest set of tokens with this much mass")
    seed: int = Field(0, ge=0, description="seed of sampling")
    batch: int = Field(1024, ge=1, description="source tokens decoded together (results do not depend on it)")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.sample and self.n_best > self.beam:
            raise ValueError(f"n_best {self.n_best} needs a beam of at least {self.n_best}; it is {self.beam}")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is above max_length {self.max_length}")
        return self

    def normalise(self, log_prob: float, length: int) -> float:
        """log P / lp(Y), lp(Y) = ((5 + |Y|) / 6)^alpha; the end symbol counts as part of Y."""
        return log_prob / float(((5 + length) / 6) ** self.length_penalty)

    def longest(self, source_lengths: Tensor, limit: int | None = None) -> Tensor:
        """The most tokens each sentence's output may have, not counting the end symbol. limit: the model's own."""
        if self.max_length is not None:
            wanted = torch.full_like(source_lengths, self.max_length)
        else:
            wanted = torch.clamp(source_lengths + self.extra_length, min=self.min_length)
        return wanted if limit is None else wanted.clamp(max=limit)

    def forbid(self, log_probs: Tensor, tokens: Tensor, longest: Tensor) -> None:
        """Sets what may not come next to -inf, in place. tokens: what each row holds so far, begin symbol included.

        A row that is full, or that the rules leave nothing to go on with, ends: every search comes to an end.
        """
        written = tokens.size(1) - 1
        must_end = longest <= written
        simple = not (self.no_repeat_ngram or written < self.min_length or bool(must_end.any()))
        if simple:  # at nearly every step
            log_probs[:, NEVER] = -torch.inf
            return
        ends = log_probs[:, EOS].clone()
        log_probs[:, NEVER] = -torch.inf
        if self.no_repeat_ngram:
            _forbid_repeats(log_probs, tokens[:, 1:], self.no_repeat_ngram)
        log_probs[:, EOS] = -torch.inf if written < self.min_length else ends
        if self.no_repeat_ngram and written < self.min_length:
            must_end = must_end | (log_probs == -torch.inf).all(1)
        if must_end.any():
            log_probs[must_end] = -torch.inf
            log_probs[must_end, EOS] = ends[must_end]


def _forbid_repeats(log_probs: Tensor, tokens: Tensor, n: int) -> None:
    for row, written in enumerate(tokens.tolist()):
        prefix = written[len(written) - n + 1 :] if n > 1 else []
        for i in range(len(written) - n + 1):
            if written[i : i + n - 1] == prefix:
                log_probs[row, written[i + n - 1]] = -torch.inf
