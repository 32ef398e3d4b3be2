"""Prompts in, texts out, as they come: a language model with its tokenizer."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.decode.beam import beam_search
from regard.decode.engine import fast
from regard.decode.options import DecodeOptions
from regard.decode.protocol import averaged
from regard.decode.sample import Sampler
from regard.decode.spelling import Spelling
from regard.errors import UserError
from regard.text import Tokenizer

Result = TypeVar("Result")
Prompt = str | Sequence[int]  # as a text, or in tokens
ROWS = 64  # written side by side
BLOCK = 512  # places whose logits are made together


@dataclass(frozen=True)
class Guess:
    """What might stand at one place: the likeliest tokens with their log p; and what does, if it is known."""

    top: tuple[tuple[int, float], ...]
    token: int | None = None
    log_prob: float = 0.0
    rank: int = 0  # 1 when nothing was likelier; 0 when the model did not guess
    start: int = 0  # the characters before it


@dataclass(frozen=True)
class Generation:
    """What was written after a prompt, its log-probability, how many tokens it has and why it ends."""

    text: str
    log_prob: float
    tokens: int
    reason: str  # end: by the model; stop: by a stop text; length: it was long enough
    guesses: tuple[Guess, ...] = ()  # of each token, if they were asked for


@dataclass(frozen=True)
class Piece:
    """Some more of a text; and of the tokens that came with it, if they were asked for."""

    text: str
    guesses: tuple[Guess, ...] = ()


class Writer:
    """Writes on from prompts with one model or an ensemble.

    A prompt is read as the beginning of a text, or in tokens as it is; without one the text begins where a document
    does, after an end symbol.
    """

    def __init__(self, models: Sequence[Any], tokenizer: Tokenizer, options: DecodeOptions) -> None:
        self.models = [fast(model.eval()) for model in models]
        self.tokenizer, self.options = tokenizer, options
        self.device = next(models[0].parameters()).device

    def write(
        self,
        prompts: Sequence[Prompt],
        options: DecodeOptions | None = None,
        first: int = 0,
        top: int | None = None,
    ) -> list[list[Generation]]:
        """n_best texts for each prompt, likeliest first. `first` numbers the prompts, for their random draws.

        top: what was drawn comes with a guess for each token, which tells so many of the likeliest ones.
        """
        return ended(self.writing(prompts, options, first, top))

    def writing(
        self,
        prompts: Sequence[Prompt],
        options: DecodeOptions | None = None,
        first: int = 0,
        top: int | None = None,
    ) -> Generator[None, None, list[list[Generation]]]:
        """As `write`, a step at a time: between two of them others can have a turn, and it can be left."""
        options = options or self.options
        if not options.sample and top is not None:
            raise UserError("guesses are told of what is drawn; a beam has none")
        if not options.sample:
            return self._searched(prompts, options)
        found: dict[int, list[Generation]] = {}
        for batch in self._batches([len(self.start(prompt)) for prompt in prompts], options):
            made = yield from self._sampled([prompts[i] for i in batch], options, [first + i for i in batch], top)
            found |= zip(batch, made, strict=True)
        return [found[i] for i in range(len(prompts))]

    def _batches(self, lengths: Sequence[int], options: DecodeOptions) -> list[list[int]]:
        """Prompts that are written on side by side, by number, shorter ones first.

        What is longer than the shortest is read a token a step; it has a batch of its own where that would take longer
        than to write.
        """
        batches: list[list[int]] = []
        for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
            room = bool(batches) and (len(batches[-1]) + 1) * options.n_best <= ROWS
            if not room or lengths[i] - lengths[batches[-1][0]] > options.most(0):
                batches.append([])
            batches[-1].append(i)
        return batches

    def stream(self, prompt: str, options: DecodeOptions | None = None, number: int = 0) -> Generator[str, None, str]:
        """One text, piece by piece; together they are what `write` gives for the same prompt, options and number.

        At its end the generator gives back why the text ends, as `Generation.reason` does.
        """
        pieces = self.pieces(prompt, options, number)
        while True:
            try:
                yield next(pieces).text
            except StopIteration as stop:
                reason: str = stop.value.reason
                return reason

    def pieces(
        self, prompt: Prompt, options: DecodeOptions | None = None, number: int = 0, top: int | None = None
    ) -> Generator[Piece, None, Generation]:
        """As `stream`, with a guess for each token; gives back the whole at its end."""
        options = (options or self.options).model_copy(update={"n_best": 1})
        if not options.sample:  # a search knows at its end what it says
            found = self._searched([prompt], options)[0][0]
            yield Piece(found.text)
            return found
        draft = _Draft(self, [prompt], options, [number], top)
        told = 0
        while not draft.sampler.done:
            if text := draft.advance()[0]:
                shown = [guess for guess in draft.guesses[0][told:] if guess.start < draft.spellings[0].shown]
                yield Piece(text, tuple(shown))
                told += len(shown)
        text, made = draft.finished(0)
        if text:
            yield Piece(text, made.guesses[told:])
        return made

    def read(self, text: Prompt, top: int, most: int | None = None) -> tuple[list[Guess], Guess]:
        """Of a text's tokens what the model thinks of each where it stands; and of what may come after them.

        Of the first, of those before what it can see, and of all but the last `most` it does not guess.
        """
        if isinstance(text, str):
            tokens, places = self.tokenizer.spans(text) if text else ([], [])
            starts = [start for start, _ in places]
        else:
            tokens, starts = list(text), self._spelled(text)[1]
        first, guesses = self._guesses(tokens, top, most or len(tokens))
        every = [Guess((), token) for token in tokens[: first + 1]] + guesses[:-1]
        placed = [replace(guess, start=start) for guess, start in zip(every, starts, strict=True)]
        return placed, guesses[-1]

    def text(self, prompt: Prompt) -> str:
        """A prompt as it is shown."""
        return prompt if isinstance(prompt, str) else self._spelled(prompt)[0]

    def _spelled(self, tokens: Sequence[int]) -> tuple[str, list[int]]:
        """The text of tokens, and how many characters stand before each."""
        spelling, starts = Spelling(self.tokenizer, opening=self.tokenizer.opening), []
        for token in tokens:
            starts.append(len(spelling.text))
            spelling.add(token)
        spelling.finish()
        return spelling.text, starts

    @torch.inference_mode()
    def _guesses(self, tokens: Sequence[int], top: int, most: int) -> tuple[int, list[Guess]]:
        """What the model thinks of the last of these tokens, at most so many, and of the one after them.

        The number of the first token that is told of, and a guess for each one after it, the next one last.
        """
        first = max(model.first_seen(len(tokens)) for model in self.models)
        seen = list(tokens[first:]) or [self.tokenizer.specials.end]
        told = min(len(seen), most)
        rows, found = torch.tensor([seen], device=self.device), []
        states = [model(rows)[0, -told:] for model in self.models]
        wanted = [*seen[len(seen) - told + 1 :], None]
        for start in range(0, told, BLOCK):
            block = slice(start, start + BLOCK)
            each = [F.linear(s[block], m.output).float() for s, m in zip(states, self.models, strict=True)]
            log_probs = averaged([logits.log_softmax(-1) for logits in each])  # T V
            found += [self.guess(row, top, token) for row, token in zip(log_probs, wanted[block], strict=True)]
        return len(tokens) - told, found

    def steps(self, tokens: Sequence[int], options: DecodeOptions, top: int) -> Iterator[Guess]:
        """One text after these tokens, drawn token by token, with what else might have stood there.

        The last one has no token where the text does not end by itself.
        The probabilities are the model's own; the draw is from what temperature, top-k and top-p make of them.
        """
        nothing, lengths = self.no_source(1)
        start = list(tokens) or [self.tokenizer.specials.end]
        options = options.model_copy(update={"n_best": 1, "sample": True})
        sampler = Sampler(self.models, nothing, lengths, options, None, [start], self.tokenizer.specials)
        seen: list[Tensor] = []
        sampler.watch = lambda log_probs: seen.append(log_probs[0].clone())
        while not sampler.done:
            full = sampler.tokens.size(1) - len(start) >= int(sampler.longest[0])  # what comes after it is not drawn
            (token,) = sampler.step()
            yield self.guess(seen.pop(), top, None if full else token)

    def guess(self, log_probs: Tensor, top: int, token: int | None, start: int = 0) -> Guess:
        """log_probs: of every token (V). Special ones are no text and not shown, but for the end."""
        never = list(self.tokenizer.specials.ids - {self.tokenizer.specials.end})
        hidden = torch.tensor(never, dtype=torch.long, device=log_probs.device)
        values, ids = log_probs.index_fill(0, hidden, -torch.inf).topk(min(top, len(log_probs) - len(never)))
        best = tuple(zip(ids.tolist(), values.tolist(), strict=True))
        if token is None:
            return Guess(best)
        own = log_probs[token]
        return Guess(best, token, float(own), int((log_probs > own).sum()) + 1, start)

    def _sampled(
        self, prompts: Sequence[Prompt], options: DecodeOptions, numbers: Sequence[int], top: int | None
    ) -> Generator[None, None, list[list[Generation]]]:
        draft = _Draft(self, prompts, options, numbers, top)
        while not draft.sampler.done:
            draft.advance()
            yield
        rows = [(draft.sampler.written(row).score, draft.finished(row)[1]) for row in range(len(draft.spellings))]
        copies = options.n_best
        groups = [rows[i : i + copies] for i in range(0, len(rows), copies)]
        return [[made for _, made in sorted(group, key=lambda pair: -pair[0])] for group in groups]

    def _searched(self, prompts: Sequence[Prompt], options: DecodeOptions) -> list[list[Generation]]:
        """By beam search, a prompt at a time; a stop text cuts what was found."""
        found, specials = [], self.tokenizer.specials
        for prompt in prompts:
            nothing, lengths = self.no_source(1)
            start = torch.tensor([self.start(prompt)], device=self.device)
            (group,) = beam_search(self.models, nothing, lengths, options, start, specials)
            made = []
            for hypothesis in group:
                spelling, count = self.spelling(prompt, options), 0
                for token in hypothesis.tokens:
                    if not spelling.stopped:
                        spelling.add(token)
                        count += 1
                spelling.finish()
                reason = _reason(spelling, len(hypothesis.tokens) >= options.most(int(lengths)))
                made.append(Generation(spelling.text, hypothesis.log_prob, count, reason))
            found.append(made)
        return found

    def tokens(self, prompt: Prompt) -> list[int]:
        return self.tokenizer.encode(prompt) if isinstance(prompt, str) else list(prompt)

    def start(self, prompt: Prompt) -> list[int]:
        return (self.tokens(prompt) if prompt else []) or [self.tokenizer.specials.end]

    def spelling(self, prompt: Prompt, options: DecodeOptions) -> Spelling:
        return Spelling(self.tokenizer, options.stop, opening=0 if prompt else self.tokenizer.opening)

    def no_source(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        none = torch.zeros(count, 0, dtype=torch.long, device=self.device)
        return none, torch.zeros(count, dtype=torch.long, device=self.device)


class _Draft:
    """Texts that are being drawn side by side, as tokens and as characters. top: with guesses of so many."""

    def __init__(
        self, writer: Writer, prompts: Sequence[Prompt], options: DecodeOptions, numbers: Sequence[int], top: int | None
    ) -> None:
        self.writer, self.top = writer, top or 0
        nothing, lengths = writer.no_source(len(prompts))
        starts = [writer.start(prompt) for prompt in prompts]
        specials = writer.tokenizer.specials
        self.sampler = Sampler(writer.models, nothing, lengths, options, numbers, starts, specials)
        self.spellings = [writer.spelling(prompt, options) for prompt in prompts for _ in range(options.n_best)]
        self.guesses: list[list[Guess]] = [[] for _ in self.spellings]
        self.seen: Tensor | None = None  # log p of the last step, of the sampler's rows (R V)
        if top is not None:
            self.sampler.watch = self._watch

    def _watch(self, log_probs: Tensor) -> None:
        self.seen = log_probs.clone()

    def advance(self) -> list[str]:
        """One step; what each row can show now. A row that came upon a stop text, or is long enough, ends."""
        pieces = []
        for row, (token, spelling) in enumerate(zip(self.sampler.step(), self.spellings, strict=True)):
            if token is None:
                pieces.append("")
                continue
            if self.seen is not None and token != self.sampler.specials.end:
                seen = self.seen[self.sampler.rows.index(row)]
                self.guesses[row].append(self.writer.guess(seen, self.top, token, len(spelling.text)))
            pieces.append(spelling.add(token))
            if spelling.stopped or self.sampler.full(row):
                self.sampler.stop(row)
        return pieces

    def finished(self, row: int) -> tuple[str, Generation]:
        """What was held back of a row's text, and the whole. Tokens of a stop text are no part of it."""
        spelling, written = self.spellings[row], self.sampler.written(row)
        rest = spelling.finish()
        kept = tuple(guess for guess in self.guesses[row] if guess.start < len(spelling.text))
        reason = _reason(spelling, self.sampler.full(row))
        return rest, Generation(spelling.text, written.log_prob, len(written.tokens), reason, kept)


def ended(steps: Generator[Any, None, Result]) -> Result:
    """What a generator gives back at its end."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: Result = stop.value
            return result


def _reason(spelling: Spelling, full: bool) -> str:
    return "stop" if spelling.stopped else "length" if full else "end"
