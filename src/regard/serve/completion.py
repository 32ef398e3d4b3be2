"""Answers in OpenAI's words: texts whole or as events, with log-probabilities and what they cost."""

import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from typing import Any, NamedTuple

from regard.decode.writer import Generation, Guess, Piece
from regard.serve.events import failed
from regard.serve.refusal import Refusal, checked
from regard.serve.service import Service
from regard.text import Tokenizer

REASONS = {"end": "stop", "stop": "stop", "length": "length"}
UNLIKELY = -9999.0  # what they say where a probability is nothing
Pieces = Generator[Piece, None, Generation]
Logprobs = Callable[[Sequence[Guess], int], dict[str, Any]]  # from the tokens, and where in the whole the text begins


class Answer:
    """Completions, or the turns of a chat. logprobs: how log-probabilities are told, if they are asked for."""

    def __init__(self, model: str, logprobs: Logprobs | None, *, chat: bool, stream: bool) -> None:
        what = ("chat.completion.chunk" if stream else "chat.completion") if chat else "text_completion"
        number = f"{'chatcmpl' if chat else 'cmpl'}-{secrets.token_hex(12)}"
        self.facts = {"id": number, "object": what, "created": int(time.time()), "model": model}
        self.logprobs, self.chat = logprobs, chat

    def whole(
        self, found: Sequence[Sequence[Generation]], wanted: int, before: Sequence[Piece], cost: int
    ) -> dict[str, Any]:
        """wanted: so many texts of each prompt. before: what is told of each prompt. cost: the prompts' tokens."""
        choices: list[dict[str, Any]] = []
        for opening, group in zip(before, found, strict=True):
            for made in group[:wanted]:
                text, reason = opening.text + made.text, REASONS[made.reason]
                shape = {"message": {"role": "assistant", "content": text.strip()}} if self.chat else {"text": text}
                logprobs = self._logprobs(opening.guesses, made.guesses, len(opening.text))
                choices.append({"index": len(choices), **shape, "logprobs": logprobs, "finish_reason": reason})
        written = sum(made.tokens for group in found for made in group)
        return self.facts | {"choices": choices, "usage": _usage(cost, written)}

    async def events(
        self, service: Service, before: Piece, first: "Step", pieces: Pieces, cost: int | None
    ) -> AsyncIterator[str]:
        """before: what is told of the prompt. cost: the prompt's tokens, if the cost is to be told at the end."""
        more = {} if cost is None else {"usage": None}

        def event(shape: dict[str, Any], logprobs: Any = None, reason: str | None = None) -> str:
            choice = {"index": 0, **shape, "logprobs": logprobs, "finish_reason": reason}
            return _line(self.facts | {"choices": [choice]} | more)

        def shape(text: str) -> dict[str, Any]:
            return {"delta": {"content": text}} if self.chat else {"text": text}

        try:
            if self.chat:
                yield event({"delta": {"role": "assistant", "content": ""}})
            elif before.text:
                yield event(shape(before.text), self._logprobs(before.guesses, (), 0))
            step = first
            while step.whole is None:
                yield event(shape(step.piece.text), self._logprobs((), step.piece.guesses, len(before.text)))
                step = await service.writing.run(lambda: advanced(pieces))
            yield event({"delta": {}} if self.chat else shape(""), reason=REASONS[step.whole.reason])
            if cost is not None:
                yield _line(self.facts | {"choices": [], "usage": _usage(cost, step.whole.tokens)})
            yield "data: [DONE]\n\n"
        except Refusal as refusal:
            yield _line({"error": refusal.as_openai()})
        except Exception as error:
            yield _line({"error": Refusal(500, failed("/v1", error)).as_openai()})

    def _logprobs(self, before: Sequence[Guess], after: Sequence[Guess], begin: int) -> dict[str, Any] | None:
        if self.logprobs is None:
            return None
        first, then = self.logprobs(before, 0), self.logprobs(after, begin)
        return {key: first[key] + then[key] for key in then}


def listed(tokenizer: Tokenizer) -> Logprobs:
    """As completions tell them: a list for each kind of fact."""

    def told(guesses: Sequence[Guess], begin: int) -> dict[str, Any]:
        return {
            "tokens": [_name(tokenizer, guess.token) for guess in guesses],
            "token_logprobs": [_log(guess.log_prob) if guess.rank else None for guess in guesses],
            "top_logprobs": [_likeliest(tokenizer, guess) if guess.rank else None for guess in guesses],
            "text_offset": [begin + guess.start for guess in guesses],
        }

    return told


def itemised(tokenizer: Tokenizer) -> Logprobs:
    """As chats tell them: an item for each token."""

    def item(token: int, log_prob: float) -> dict[str, Any]:
        spelled = list(tokenizer.piece(token))
        return {"token": _name(tokenizer, token), "logprob": _log(log_prob), "bytes": spelled}

    def told(guesses: Sequence[Guess], begin: int) -> dict[str, Any]:
        return {
            "content": [
                item(guess.token, guess.log_prob) | {"top_logprobs": [item(*pair) for pair in guess.top]}
                for guess in guesses
                if guess.token is not None
            ]
        }

    return told


def _likeliest(tokenizer: Tokenizer, guess: Guess) -> dict[str, float]:
    """The one that stands there is among them."""
    return {_name(tokenizer, token): _log(p) for token, p in (*guess.top, (guess.token, guess.log_prob))}


def _name(tokenizer: Tokenizer, token: int | None) -> str:
    """A token's text; where that is no whole character, its bytes."""
    assert token is not None
    spelled = tokenizer.piece(token) or tokenizer.token(token).encode()
    try:
        return spelled.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelled)


def _log(log_prob: float) -> float:
    return max(log_prob, UNLIKELY)


def _usage(read: int, written: int) -> dict[str, int]:
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _line(event: dict[str, Any]) -> str:
    return f"data: {json.dumps(event, ensure_ascii=False)}\n\n"


class Step(NamedTuple):
    """Some more of a text, or all of it once it has ended."""

    piece: Piece
    whole: Generation | None = None


def advanced(pieces: Pieces) -> Step:
    def step() -> Step:
        try:
            return Step(next(pieces))
        except StopIteration as stop:
            return Step(Piece(""), stop.value)

    return checked(step)


def stripped(pieces: Pieces) -> Pieces:
    """Without the space around the text: what is space waits for what comes after."""
    waiting, begun = "", False
    held: tuple[Guess, ...] = ()
    try:
        while True:
            piece = next(pieces)
            text, held = waiting + piece.text, held + piece.guesses
            text = text if begun else text.lstrip()
            shown = text.rstrip()
            waiting = text[len(shown) :]
            begun = begun or bool(shown)
            if shown:
                yield Piece(shown, held)
                held = ()
    except StopIteration as stop:
        if held:
            yield Piece("", held)
        whole: Generation = stop.value
        return whole
