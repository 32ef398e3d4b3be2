"""What the page of a language model asks for: what might come next in a text, and texts as they are written."""

import math
from collections.abc import AsyncIterator
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from regard.api import Model
from regard.decode.writer import Guess
from regard.serve import parameters, shapes
from regard.serve.events import Event, Streams
from regard.serve.libretranslate import admit
from regard.serve.parameters import read
from regard.serve.refusal import Refusal, checked, shown
from regard.serve.service import Service
from regard.text import Tokenizer
from regard.view.words import END

STREAMS = 4  # texts written at once
SEEN = 512  # tokens at the end of a text that are told of: each has a number for every token of the vocabulary


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["page"], default_response_class=JSONResponse)
    streams = Streams(STREAMS)

    def writer(name: str) -> Model:
        if name not in service.models.writers:
            raise Refusal(404, f"The model {shown(name)!r} does not exist")
        return service.models.writers[name]

    @router.post(
        "/next",
        responses=shapes.responses(dict[str, Any], also={404: "There is no such model."}),
        openapi_extra=shapes.body(parameters.Next),
    )
    async def next_(request: Request) -> Response:
        """A text in tokens: how likely each was where it stands, what else might have stood there, what may come."""
        asked = await read(parameters.Next, request)
        facts = admit(service, request, asked.api_key)
        service.count(facts, [asked.text])
        model = writer(asked.model)

        def work() -> dict[str, Any]:
            tokenizer = model.bundle.source
            guesses, after = model.writer.read(asked.text, asked.top, SEEN)
            placed = [_told(tokenizer, guess) | {"start": guess.start} for guess in guesses]
            seen = sum(guess.rank > 0 for guess in guesses) + bool(guesses)  # the first is seen, not guessed
            return {"tokens": placed, "next": _told(tokenizer, after)["top"], "seen": seen}

        return JSONResponse(await service.writing.run(lambda: checked(work)))

    @router.post(
        "/write",
        responses=shapes.responses(dict[str, Any], kind="text/event-stream", also={404: "There is no such model."}),
        openapi_extra=shapes.body(parameters.Write),
    )
    async def write(request: Request) -> Response:
        """A text as it is written: events `step`, a token with what else might have stood there, then `end`."""
        asked = await read(parameters.Write, request)
        facts = admit(service, request, asked.api_key)
        model = writer(asked.model)
        tokenizer = model.bundle.source
        specials = tokenizer.specials
        silent = (specials.ids - {specials.unk}) | {specials.end}  # GPT-2 has one for both
        if len(asked.tokens) > service.settings.char_limit:  # special ones are no characters
            raise Refusal(400, f"Invalid request: more than {service.settings.char_limit} tokens")
        if any(not 0 <= token < len(tokenizer) or token in silent for token in asked.tokens):
            raise Refusal(400, "Invalid request: tokens: each must be one of the model's own, and no begin or end")
        service.count(facts, [tokenizer.decode(asked.tokens)])
        options = asked.model_dump(include={"temperature", "top_k", "top_p", "seed"})
        most = min(asked.max_tokens, service.settings.token_limit)
        steps = checked(lambda: model.write_steps(asked.tokens, asked.top, max_tokens=most, **options))

        async def events() -> AsyncIterator[Event]:
            whole, then = list(asked.tokens), []
            while (guess := await service.writing.run(lambda: checked(lambda: next(steps, None)))) is not None:
                if guess.token is None:
                    then = _told(tokenizer, guess)["top"]
                    break
                whole.append(guess.token)
                yield "step", _told(tokenizer, guess)
            yield "end", {"text": tokenizer.decode(whole), "next": then, "reason": "length" if then else "end"}

        return await streams.answer("/api/write", events())

    return router


def _text(tokenizer: Tokenizer, token: int) -> str:
    return END if token == tokenizer.specials.end else tokenizer.surface([token])[0]


def _told(tokenizer: Tokenizer, guess: Guess) -> dict[str, Any]:
    top = [[token, _text(tokenizer, token), round(math.exp(p), 6)] for token, p in guess.top]
    if guess.token is None:
        return {"top": top}
    probability = round(math.exp(guess.log_prob), 6) if guess.rank else None
    shown = {"id": guess.token, "text": _text(tokenizer, guess.token)}
    return shown | {"probability": probability, "rank": guess.rank or None, "top": top}
