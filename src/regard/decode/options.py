"""How to decode: the options of beam search and sampling, and the rules that forbid tokens."""

# Shapes: R rows (hypotheses), V vocabulary.

from functools import cache
from typing import Annotated, Any, Self

import torch
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from torch import Tensor

from regard.text import BOS, PAD, UNK, Specials

OURS = Specials()
NEVER = slice(PAD, BOS + 1)  # padding, the unknown token and the begin symbol are no output
MOST = 1_000_000  # tokens of an output
assert {PAD, UNK, BOS} == set(range(NEVER.start, NEVER.stop))


def _listed(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


class DecodeOptions(BaseModel):
    """Beam search as published (section 6.1), or sampling when `sample` is set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    beam: int = Field(4, ge=1, le=256, description="hypotheses kept; 1 is greedy")
    length_penalty: float = Field(
        0.6, ge=0, description="alpha of ((5 + length) / 6)^alpha; 0 ranks by log-probability"
    )
    n_best: int = Field(1, ge=1, description="how many outputs of each input to give back")
    min_length: int = Field(0, ge=0, le=MOST, description="least tokens in an output")
    max_length: int | None = Field(
        None, ge=1, le=MOST, description="most tokens in an output; default input + extra_length"
    )
    extra_length: int = Field(50, ge=1, le=MOST, description="how many tokens longer than the input an output may be")
    no_repeat_ngram: int = Field(0, ge=0, description="no n-gram of this size twice in an output; 0 allows all")
    sample: bool = Field(False, description="draw tokens at random in place of beam search")
    temperature: float = Field(1.0, gt=0, description="above 1 flattens, below 1 sharpens what is sampled from")
    top_k: int = Field(0, ge=0, description="sample from the k likeliest tokens; 0 is all")
    top_p: float = Field(1.0, gt=0, le=1, description="sample from the smallest set of tokens with this much mass")
    repetition_penalty: float = Field(
        1.0, ge=0.01, description="sampling: above 1, tokens that were there before are less likely; 1 is none"
    )
    frequency_penalty: float = Field(
        0.0, ge=-2, le=2, description="sampling: taken off a token's logit for each time that it was written"
    )
    presence_penalty: float = Field(
        0.0, ge=-2, le=2, description="sampling: taken off the logit of each token that was written"
    )
    logit_bias: Annotated[
        tuple[tuple[Annotated[int, Field(ge=0)], Annotated[float, Field(ge=-100, le=100)]], ...],
        BeforeValidator(_listed),  # may be a table; kept so that options can be looked up
    ] = Field((), description="sampling: tokens, each with what is added to its logit")
    stop: tuple[str, ...] = Field((), description="texts that end an output and are no part of it (language models)")
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
        most = [self.most(length, limit) for length in source_lengths.tolist()]
        return torch.tensor(most, device=source_lengths.device)

    def most(self, source_length: int, limit: int | None = None) -> int:
        """`longest` of one sentence."""
        wanted = self.max_length
        if wanted is None:
            wanted = max(source_length + self.extra_length, self.min_length)
        return wanted if limit is None else min(wanted, limit)

    def forbid(
        self,
        log_probs: Tensor,
        tokens: Tensor,
        longest: Tensor,
        given: int | Tensor = 1,
        specials: Specials = OURS,
    ) -> None:
        """Sets what may not come next to -inf, in place. tokens: what each row holds so far.

        given: how many of them stood there before anything was written, for all rows or each: the begin symbol, a
        prompt. A row that is full, or that the rules leave nothing to go on with, ends: every search comes to an end.
        """
        written, end, never = tokens.size(1) - given, specials.end, _never(specials)
        must_end, may_end = longest <= written, written >= self.min_length
        free = may_end if isinstance(may_end, bool) else bool(may_end.all())
        if free and not self.no_repeat_ngram and not bool(must_end.any()):  # at nearly every step
            log_probs[:, never] = -torch.inf
            return
        may_end = torch.as_tensor(may_end, device=longest.device)
        ends = log_probs[:, end].clone()
        log_probs[:, never] = -torch.inf
        if self.no_repeat_ngram:
            _forbid_repeats(log_probs, tokens, self.no_repeat_ngram)
        log_probs[:, end] = torch.where(may_end, ends, -torch.inf)
        if self.no_repeat_ngram:
            must_end = must_end | ((log_probs == -torch.inf).all(1) & ~may_end)
        if must_end.any():
            log_probs[must_end] = -torch.inf
            log_probs[must_end, end] = ends[must_end]


@cache
def _never(specials: Specials) -> slice | list[int]:
    """Special ids that are no output."""
    ids = sorted(specials.ids - {specials.end})
    if ids == list(range(len(ids))):
        return slice(0, len(ids))  # faster than a list
    return ids


def _forbid_repeats(log_probs: Tensor, tokens: Tensor, n: int) -> None:
    for row, written in enumerate(tokens.tolist()):
        prefix = written[len(written) - n + 1 :] if n > 1 else []
        for i in range(len(written) - n + 1):
            if written[i : i + n - 1] == prefix:
                log_probs[row, written[i + n - 1]] = -torch.inf
