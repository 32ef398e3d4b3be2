"""Language models through OpenAI's API: models, completions, chat completions, whole or as a stream."""

import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from functools import wraps
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, BeforeValidator, Field

from regard.api import Model
from regard.decode.writer import Generation
from regard.serve import shapes
from regard.serve.libretranslate import admit
from regard.serve.parameters import read
from regard.serve.refusal import Refusal, checked, shown
from regard.serve.service import Service

TYPES = {400: "invalid_request_error", 403: "authentication_error", 404: "invalid_request_error"}
REASONS = {"end": "stop", "stop": "stop", "length": "length"}
MOST = 16  # texts of one request
Handler = Callable[[Request], Awaitable[Response]]
Pieces = Generator[str, None, str]  # gives back why the text ends


def _listed(value: Any) -> Any:
    return [] if value is None else [value] if isinstance(value, str) else value


Texts = Annotated[list[str], BeforeValidator(_listed)]


class Asked(BaseModel):
    """What both kinds of completion may say. What is not known here is passed over, as clients send more and more."""

    model: str = Field(description="A model's id, as /v1/models lists them.", examples=["shakespeare"])
    max_tokens: int | None = Field(None, ge=1, description="Most tokens to write.")
    temperature: float | None = Field(None, ge=0, le=10, description="0 takes the likeliest token every time.")
    top_p: float | None = Field(None, gt=0, le=1, description="Only the likeliest tokens with so much mass.")
    top_k: int | None = Field(None, ge=0, description="Only so many of the likeliest tokens.")
    repetition_penalty: float | None = Field(None, gt=0, le=100, description="Above 1: fewer repetitions.")
    n: int | None = Field(None, ge=1, le=MOST, description="How many texts.")
    stop: Texts = Field(default_factory=list, max_length=4, description="Texts that end what is written.")
    seed: int | None = Field(None, ge=0, lt=2**63, description="The same seed gives the same text.")
    stream: bool | None = Field(None, description="As events, while it is written.")

    def options(self, limit: int) -> dict[str, Any]:
        chosen = self.model_dump(include={"temperature", "top_p", "top_k", "repetition_penalty", "stop"})
        seed = self.seed if self.seed is not None else secrets.randbelow(2**31)
        return chosen | {"n": self.n or 1, "seed": seed, "max_tokens": min(self.max_tokens or limit, limit)}


class Completion(Asked):
    prompt: Texts = Field(default_factory=list, max_length=MOST, description="How the text begins, or several.")
    echo: bool | None = Field(None, description="With the prompt before the text.")


def _plain(content: Any) -> Any:
    """The text of a message that comes in parts."""
    if not isinstance(content, list):
        return content
    if not all(isinstance(part, dict) and part.get("type") == "text" and "text" in part for part in content):
        raise ValueError("parts of a message can be texts alone here")
    return "".join(str(part["text"]) for part in content)


class Message(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(_plain)]


class Chat(Asked):
    messages: list[Message] = Field(min_length=1, max_length=1000, description="What was said so far.")
    max_completion_tokens: int | None = Field(None, ge=1, description="As max_tokens.")


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["OpenAI"], default_response_class=JSONResponse)
    begun = int(time.time())  # a model is as old as the server

    def listed(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": begun, "owned_by": "regard"}

    @router.get("/models", responses={200: {"description": "The language models."}})
    async def models() -> Response:
        """The models that write."""
        return JSONResponse({"object": "list", "data": [listed(name) for name in service.models.writers]})

    @router.get("/models/{name}", responses={404: {"description": "There is no such model."}})
    async def model(name: str) -> Response:
        """One of them."""
        if name not in service.models.writers:
            return _problem(Refusal(404, f"The model {shown(name)!r} does not exist"))
        return JSONResponse(listed(name))

    def post(path: str, asked: type[BaseModel]) -> Callable[[Handler], Handler]:
        extra = {
            "requestBody": {"required": True, "content": {"application/json": {"schema": asked.model_json_schema()}}}
        }
        said = {404: "There is no such model."}
        return router.post(path, responses=shapes.responses(dict[str, Any], also=said), openapi_extra=extra)

    @post("/completions", Completion)
    @_in_their_shape
    async def completions(request: Request) -> Response:
        """Write on from a prompt, or from several."""
        asked = await read(Completion, request)
        prompts = asked.prompt or [""]
        writer = admitted(request, asked, prompts)
        told = _Told("cmpl", "text_completion", asked.model, lambda text: {"text": text}, {"logprobs": None})
        return await written(writer, asked, prompts, told, echo=bool(asked.echo))

    @post("/chat/completions", Chat)
    @_in_their_shape
    async def chat(request: Request) -> Response:
        """The next turn of a conversation. A model that never saw one writes on from its text, turn by turn."""
        asked = await read(Chat, request)
        asked = asked.model_copy(update={"max_tokens": asked.max_completion_tokens or asked.max_tokens})
        prompt = "".join(f"{m.role}: {m.content}\n" for m in asked.messages) + "assistant:"
        asked = asked.model_copy(update={"stop": [*asked.stop, "\nuser:", "\nassistant:"]})
        writer = admitted(request, asked, [prompt])
        what = "chat.completion.chunk" if asked.stream else "chat.completion"
        told = _Told("chatcmpl", what, asked.model, _delta if asked.stream else _turn)
        return await written(writer, asked, [prompt], told, turn=True)

    def admitted(request: Request, asked: Asked, prompts: list[str]) -> Model:
        bearer = request.headers.get("authorization", "")
        facts = admit(service, request, bearer.removeprefix("Bearer ").strip() or None)
        service.count(facts, prompts)
        if asked.model not in service.models.writers:
            raise Refusal(404, f"The model {shown(asked.model)!r} does not exist")
        if asked.stream and (asked.n or 1) * len(prompts) > 1:
            raise Refusal(400, "Invalid request: one text at a time can be streamed")
        return service.models.writers[asked.model]

    async def written(
        writer: Model, asked: Asked, prompts: list[str], told: "_Told", *, echo: bool = False, turn: bool = False
    ) -> Response:
        options = asked.options(service.settings.token_limit)
        if asked.stream:
            text = writer.stream_text(prompts[0], **options | {"n": 1})
            pieces = _stripped(text) if turn else text
            first = await service.writing.run(lambda: _next(pieces))  # what is wrong shows while there is a status
            opening = (
                {"delta": {"role": "assistant", "content": ""}} if turn else {"text": prompts[0]} if echo else None
            )
            return StreamingResponse(
                told.events(service, opening, first, pieces),
                media_type="text/event-stream",
                headers={"Cache-Control": "no-store"},
            )
        found = await service.writing.run(lambda: checked(lambda: writer.generations(prompts, **options)))
        tokenizer = writer.bundle.source
        read_tokens = sum(len(tokenizer.encode(prompt)) for prompt in prompts)
        return JSONResponse(told.whole(found, prompts if echo else [""] * len(prompts), read_tokens))

    return router


class _Told:
    """An answer in their words."""

    def __init__(
        self, kind: str, what: str, model: str, shape: Callable[[str], dict[str, Any]], more: Any = None
    ) -> None:
        number, now = secrets.token_hex(12), int(time.time())
        self.facts = {"id": f"{kind}-{number}", "object": what, "created": now, "model": model}
        self.shape, self.more = shape, more or {}

    def whole(self, found: list[list[Generation]], before: list[str], read_tokens: int) -> dict[str, Any]:
        every = [(prompt, text) for prompt, group in zip(before, found, strict=True) for text in group]
        choices = [
            {"index": i, **self.shape(prompt + text.text), **self.more, "finish_reason": REASONS[text.reason]}
            for i, (prompt, text) in enumerate(every)
        ]
        made = sum(text.tokens for _, text in every)
        usage = {"prompt_tokens": read_tokens, "completion_tokens": made, "total_tokens": read_tokens + made}
        return self.facts | {"choices": choices, "usage": usage}

    async def events(
        self, service: Service, opening: dict[str, Any] | None, first: "_Step", pieces: Pieces
    ) -> AsyncIterator[str]:
        """opening: what comes before all that is written."""
        try:
            if opening is not None:
                yield self._event(opening, None)
            step = first
            while step.ended is None:
                yield self._event(self.shape(step.text), None)
                step = await service.writing.run(lambda: _next(pieces))
            yield self._event(self.shape(""), REASONS[step.ended])
            yield "data: [DONE]\n\n"
        except Refusal as refusal:
            yield f"data: {json.dumps({'error': {'message': refusal.message, 'type': 'server_error'}})}\n\n"

    def _event(self, shape: dict[str, Any], reason: str | None) -> str:
        choice = {"index": 0, **shape, **self.more, "finish_reason": reason}
        return f"data: {json.dumps(self.facts | {'choices': [choice]}, ensure_ascii=False)}\n\n"


def _in_their_shape(handler: Handler) -> Handler:
    @wraps(handler)
    async def handled(request: Request) -> Response:
        try:
            return await handler(request)
        except Refusal as refusal:
            return _problem(refusal)

    return handled


def _problem(refusal: Refusal) -> Response:
    kind = TYPES.get(refusal.status, "server_error")
    more = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    error = {"message": refusal.message, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": error}, refusal.status, more)


def _delta(text: str) -> dict[str, Any]:
    return {"delta": {"content": text}}


def _turn(text: str) -> dict[str, Any]:
    return {"message": {"role": "assistant", "content": text.strip()}}


def _stripped(pieces: Pieces) -> Pieces:
    """Without the space around the text, as `_turn` gives it: what is space waits for what comes after."""
    waiting, begun = "", False
    try:
        while True:
            text = waiting + next(pieces)
            text = text if begun else text.lstrip()
            piece = text.rstrip()
            waiting = text[len(piece) :]
            begun = begun or bool(piece)
            if piece:
                yield piece
    except StopIteration as stop:
        reason: str = stop.value
        return reason


class _Step(NamedTuple):
    """A piece of a text, or why it has ended."""

    text: str
    ended: str | None = None


def _next(pieces: Pieces) -> _Step:
    def step() -> _Step:
        try:
            return _Step(next(pieces))
        except StopIteration as stop:
            return _Step("", stop.value)

    return checked(step)
