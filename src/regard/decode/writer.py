"""Prompts in, texts out, as they come: a language model with its tokenizer."""

import codecs
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.decode.beam import beam_search
from regard.decode.options import DecodeOptions
from regard.decode.protocol import averaged
from regard.decode.sample import Sampler
from regard.text import Tokenizer

ROWS = 64  # written side by side


@dataclass(frozen=True)
class Generation:
    """What was written after a prompt, its log-probability, how many tokens it has and why it ends."""

    text: str
    log_prob: float
    tokens: int
    reason: str  # end: by the model; stop: by a stop text; length: it was long enough


@dataclass(frozen=True)
class Guess:
    """What might stand at one place: the likeliest tokens with their probabilities; and what does, if it is known."""

    top: tuple[tuple[int, float], ...]
    token: int | None = None
    probability: float = 0.0
    rank: int = 0  # 1 when nothing was likelier


class Spelling:
    """A text that grows token by token. It shows no half of a character, and nothing that may begin a stop text."""

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = (), opening: int = 0) -> None:
        """opening: how many spaces stand at the beginning that are no part of the text."""
        self.tokenizer, self.stop, self.opening = tokenizer, [s for s in stop if s], opening
        self.bytes = codecs.getincrementaldecoder("utf-8")("replace")
        self.text, self.shown, self.stopped = "", 0, False

    def add(self, token: int) -> str:
        """What can be shown now."""
        return self._grown(self.bytes.decode(self.tokenizer.piece(token)), last=False)

    def finish(self) -> str:
        """What was held back."""
        return "" if self.stopped else self._grown(self.bytes.decode(b"", final=True), last=True)

    def _grown(self, more: str, last: bool) -> str:
        if more and self.opening:
            more, self.opening = more.removeprefix(" "), 0
        self.text += more
        found = [at for at in (self.text.find(s, self.shown) for s in self.stop) if at >= 0]
        if found:
            self.text, self.stopped = self.text[: min(found)], True
        held = 0 if last or self.stopped else self._held()
        piece = self.text[self.shown : len(self.text) - held]
        self.shown += len(piece)
        return piece

    def _held(self) -> int:
        """The most characters at the end with which a stop text begins."""
        waiting = self.text[self.shown :]
        sizes = (size for s in self.stop for size in range(1, len(s)) if waiting.endswith(s[:size]))
        return max(sizes, default=0)


class Writer:
    """Writes on from prompts with one model or an ensemble.

    A prompt is read as it is; without one the text begins where a document does, after an end symbol.
    """

    def __init__(self, models: Sequence[Any], tokenizer: Tokenizer, options: DecodeOptions) -> None:
        self.models = [model.eval() for model in models]
        self.tokenizer, self.options = tokenizer, options
        self.device = next(models[0].parameters()).device

    def write(
        self, prompts: Sequence[str], options: DecodeOptions | None = None, first: int = 0
    ) -> list[list[Generation]]:
        """n_best texts for each prompt, likeliest first. `first` numbers the prompts, for their random draws."""
        options = options or self.options
        size = max(1, ROWS // options.n_best)
        found: list[list[Generation]] = []
        for start in range(0, len(prompts), size):
            some = prompts[start : start + size]
            found += self._sampled(some, options, first + start) if options.sample else self._searched(some, options)
        return found

    def stream(self, prompt: str, options: DecodeOptions | None = None, number: int = 0) -> Generator[str, None, str]:
        """One text, piece by piece; together they are what `write` gives for the same prompt, options and number.

        At its end the generator gives back why the text ends, as `Generation.reason` does.
        """
        options = (options or self.options).model_copy(update={"n_best": 1})
        if not options.sample:  # a search knows at its end what it says
            found = self._searched([prompt], options)[0][0]
            yield found.text
            return found.reason
        sampler, (spelling,) = self._begun([prompt], options, [number])
        while not sampler.done:
            if piece := _advance(sampler, [spelling])[0]:
                yield piece
        if piece := spelling.finish():
            yield piece
        return _reason(spelling, sampler.full(0))

    @torch.inference_mode()
    def guesses(self, tokens: Sequence[int], top: int, most: int) -> tuple[int, list[Guess]]:
        """What the model thinks of the last of these tokens, at most so many, and of the one after them.

        The number of the first token that is told of, and a guess for each one after it, the next one last.
        """
        first = self.models[0].first_seen(len(tokens))
        seen = list(tokens[first:]) or [self.tokenizer.specials.end]
        told = min(len(seen), most)
        rows, each = torch.tensor([seen], device=self.device), []
        for model in self.models:
            states = model(rows)[0, -told:]
            each.append(F.linear(states, model.output).float().log_softmax(-1))  # T V
        log_probs = averaged(each)
        wanted = [*seen[len(seen) - told + 1 :], None]
        return len(tokens) - told, [self._guess(row, top, token) for row, token in zip(log_probs, wanted, strict=True)]

    def steps(self, tokens: Sequence[int], options: DecodeOptions, top: int) -> Iterator[Guess]:
        """One text after these tokens, drawn token by token, with what else might have stood there.

        The last one has no token where the text does not end by itself.
        The probabilities are the model's own; the draw is from what temperature, top-k and top-p make of them.
        """
        nothing, lengths = self._no_source(1)
        start = list(tokens) or [self.tokenizer.specials.end]
        options = options.model_copy(update={"n_best": 1, "sample": True})
        sampler = Sampler(self.models, nothing, lengths, options, None, [start], self.tokenizer.specials)
        seen: list[Tensor] = []
        sampler.watch = lambda log_probs: seen.append(log_probs[0].clone())
        while not sampler.done:
            full = sampler.tokens.size(1) - len(start) >= int(sampler.longest[0])  # what comes after it is not drawn
            (token,) = sampler.step()
            yield self._guess(seen.pop(), top, None if full else token)

    def _guess(self, log_probs: Tensor, top: int, token: int | None) -> Guess:
        """log_probs: of every token (V). Special ones are no text and not shown, but for the end."""
        never = list(self.tokenizer.specials.ids - {self.tokenizer.specials.end})
        hidden = torch.tensor(never, dtype=torch.long, device=log_probs.device)
        values, ids = log_probs.index_fill(0, hidden, -torch.inf).topk(min(top, len(log_probs) - len(never)))
        best = tuple(zip(ids.tolist(), values.exp().tolist(), strict=True))
        if token is None:
            return Guess(best)
        own = log_probs[token]
        return Guess(best, token, float(own.exp()), int((log_probs > own).sum()) + 1)

    def _sampled(self, prompts: Sequence[str], options: DecodeOptions, first: int) -> list[list[Generation]]:
        sampler, spellings = self._begun(prompts, options, range(first, first + len(prompts)))
        while not sampler.done:
            _advance(sampler, spellings)
        rows = []
        for row, spelling in enumerate(spellings):
            spelling.finish()
            written = sampler.written(row)
            reason = _reason(spelling, sampler.full(row))
            rows.append((written.score, Generation(spelling.text, written.log_prob, len(written.tokens), reason)))
        copies = options.n_best
        groups = [rows[i : i + copies] for i in range(0, len(rows), copies)]
        return [[made for _, made in sorted(group, key=lambda pair: -pair[0])] for group in groups]

    def _begun(
        self, prompts: Sequence[str], options: DecodeOptions, numbers: Sequence[int]
    ) -> tuple[Sampler, list[Spelling]]:
        nothing, lengths = self._no_source(len(prompts))
        starts = [self._start(prompt) for prompt in prompts]
        sampler = Sampler(self.models, nothing, lengths, options, numbers, starts, self.tokenizer.specials)
        every = [prompt for prompt in prompts for _ in range(options.n_best)]
        return sampler, [self._spelling(prompt, options) for prompt in every]

    def _searched(self, prompts: Sequence[str], options: DecodeOptions) -> list[list[Generation]]:
        """By beam search, a prompt at a time; a stop text cuts what was found."""
        found, specials = [], self.tokenizer.specials
        for prompt in prompts:
            nothing, lengths = self._no_source(1)
            start = torch.tensor([self._start(prompt)], device=self.device)
            (group,) = beam_search(self.models, nothing, lengths, options, start, specials)
            made = []
            for hypothesis in group:
                spelling, count = self._spelling(prompt, options), 0
                for token in hypothesis.tokens:
                    if not spelling.stopped:
                        spelling.add(token)
                        count += 1
                spelling.finish()
                reason = _reason(spelling, len(hypothesis.tokens) >= options.most(int(lengths)))
                made.append(Generation(spelling.text, hypothesis.log_prob, count, reason))
            found.append(made)
        return found

    def _start(self, prompt: str) -> list[int]:
        return (self.tokenizer.encode(prompt) if prompt else []) or [self.tokenizer.specials.end]

    def _spelling(self, prompt: str, options: DecodeOptions) -> Spelling:
        return Spelling(self.tokenizer, options.stop, opening=0 if prompt else self.tokenizer.opening)

    def _no_source(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        none = torch.zeros(count, 0, dtype=torch.long, device=self.device)
        return none, torch.zeros(count, dtype=torch.long, device=self.device)


def _reason(spelling: Spelling, full: bool) -> str:
    return "stop" if spelling.stopped else "length" if full else "end"


def _advance(sampler: Sampler, spellings: Sequence[Spelling]) -> list[str]:
    """One step; what each row can show now. A row that came upon a stop text, or is long enough, ends."""
    pieces = []
    for row, (token, spelling) in enumerate(zip(sampler.step(), spellings, strict=True)):
        pieces.append("" if token is None else spelling.add(token))
        if token is not None and (spelling.stopped or sampler.full(row)):
            sampler.stop(row)
    return pieces
