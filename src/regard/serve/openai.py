"""Language models through OpenAI's API: models, completions, chat completions, whole or as a stream."""

import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, BeforeValidator, Field

from regard.api import Model
from regard.decode.options import DecodeOptions
from regard.decode.writer import Generation, Piece, Prompt, Writer
from regard.serve import completion, shapes
from regard.serve.libretranslate import admit
from regard.serve.parameters import read
from regard.serve.refusal import Refusal, checked, shown
from regard.serve.service import Service

MOST = 16  # prompts of one request, and texts of one prompt
MOST_TEXTS = 64  # of one request, those that best_of leaves out too
MOST_STOP = 200  # characters of a stop text
MOST_TOP = 20  # likeliest tokens that are told of each
FEW = 16  # tokens of a completion where nobody says how many, as OpenAI has it
TURNS = ("\nuser:", "\nassistant:")  # where the other's turn begins, or the next one of one's own
MOST_BIASED = 300  # tokens whose logits are shifted
HEEDED = {
    "temperature", "top_p", "top_k", "repetition_penalty", "frequency_penalty", "presence_penalty", "logit_bias",
    "stop",
}  # fmt: skip
BEARER = "in the header Authorization: Bearer KEY"
Handler = Callable[[Request], Awaitable[Response]]


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _prompts(value: Any) -> Any:
    """A list of numbers is one prompt, in tokens."""
    tokens = isinstance(value, list) and value and all(isinstance(one, int) for one in value)
    return [value] if tokens else _listed(value or [])


Prompts = Annotated[list[str | list[int]], BeforeValidator(_prompts)]
Stop = Annotated[str, Field(max_length=MOST_STOP)]
Stops = Annotated[list[Stop], BeforeValidator(_listed), Field(max_length=4)]


class StreamOptions(BaseModel):
    include_usage: bool | None = Field(None, description="What it cost comes after the text.")


class Asked(BaseModel):
    """What both kinds of completion may say. What is not known here is passed over, as clients send more and more."""

    model: str = Field(description="A model's id, as /v1/models lists them.", examples=["shakespeare"])
    max_tokens: int | None = Field(None, ge=1, description="Most tokens to write; by default the model's own number.")
    temperature: float | None = Field(None, ge=0, le=10, description="0 takes the likeliest token every time.")
    top_p: float | None = Field(None, ge=0, le=1, description="Only the likeliest tokens with so much mass.")
    top_k: int | None = Field(None, ge=0, description="Only so many of the likeliest tokens.")
    repetition_penalty: float | None = Field(None, ge=0.01, le=100, description="Above 1: fewer repetitions.")
    frequency_penalty: float | None = Field(
        None, ge=-2, le=2, description="Taken off a token's logit for each time that it was written."
    )
    presence_penalty: float | None = Field(
        None, ge=-2, le=2, description="Taken off the logit of each token that was written."
    )
    logit_bias: dict[int, Annotated[float, Field(ge=-100, le=100)]] | None = Field(
        None, max_length=MOST_BIASED, description="What is added to the logits of tokens, by their numbers."
    )
    n: int | None = Field(None, ge=1, le=MOST, description="How many texts.")
    stop: Stops | None = Field(None, description="Texts that end what is written; by default the model's own.")
    seed: int | None = Field(None, ge=-(2**63), lt=2**63, description="The same seed gives the same text.")
    stream: bool | None = Field(None, description="As events, while it is written.")
    stream_options: StreamOptions | None = Field(None, description="Of a stream.")

    most: ClassVar[int | None] = None  # tokens where neither the request nor the model says how many

    def options(self, own: DecodeOptions, limit: int) -> dict[str, Any]:
        """own: the model's, which hold where nothing is asked for."""
        chosen = self.model_dump(include=HEEDED)
        seed = self.seed % 2**63 if self.seed is not None else secrets.randbelow(2**31)
        if self.top_p == 0:
            chosen |= {"top_p": None, "top_k": 1}
        few = None if self.most is None else max(self.most, own.min_length)
        most = next(number for number in (self.max_tokens, own.max_length, few, limit) if number is not None)
        return chosen | {"n": self.n or 1, "seed": seed, "max_tokens": min(most, limit)}


class Completion(Asked):
    most = FEW
    max_tokens: int | None = Field(None, ge=0, description="Most tokens to write; with echo, 0 scores a text.")
    prompt: Prompts = Field(
        default_factory=list, max_length=MOST, description="How the text begins, as a text or in tokens, or several."
    )
    echo: bool | None = Field(None, description="With the prompt before the text.")
    logprobs: int | None = Field(
        None, ge=0, le=MOST_TOP, description="With the log-probability of each token, and of so many others."
    )
    best_of: int | None = Field(None, ge=1, le=MOST, description="So many texts are written, the likeliest n told.")


def _plain(content: Any) -> Any:
    """The text of a message that comes in parts; one that called a tool has none."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return content
    if not all(isinstance(part, dict) and part.get("type") == "text" and "text" in part for part in content):
        raise ValueError("parts of a message can be texts alone here")
    return "".join(str(part["text"]) for part in content)


class Message(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(_plain)]


def _refused(value: Any) -> None:
    if value:
        raise ValueError("no model here calls tools")


def _text_alone(value: Any) -> None:
    if value is not None and value != {"type": "text"}:
        raise ValueError("what is written can be plain text alone here")


class Chat(Asked):
    messages: list[Message] = Field(min_length=1, max_length=1000, description="What was said so far.")
    max_completion_tokens: int | None = Field(None, ge=1, description="As max_tokens.")
    logprobs: bool | None = Field(None, description="With the log-probability of each token.")
    tools: Annotated[None, BeforeValidator(_refused)] = None
    functions: Annotated[None, BeforeValidator(_refused)] = None
    response_format: Annotated[None, BeforeValidator(_text_alone)] = None
    top_logprobs: int | None = Field(None, ge=0, le=MOST_TOP, description="And of so many others.")


def routes(service: Service) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["OpenAI"], default_response_class=JSONResponse)
    begun = int(time.time())  # a model is as old as the server

    def described(name: str) -> dict[str, Any]:
        return {"id": name, "object": "model", "created": begun, "owned_by": "regard"}

    def found(name: str) -> Model:
        if name not in service.models.writers:
            raise Refusal(404, f"The model {shown(name)!r} does not exist", code="model_not_found")
        return service.models.writers[name]

    @router.get("/models", responses={200: {"description": "The language models."}})
    async def models() -> Response:
        """The models that write."""
        return JSONResponse({"object": "list", "data": [described(name) for name in service.models.writers]})

    @router.get("/models/{name}", responses={404: {"description": "There is no such model."}})
    async def model(name: str) -> Response:
        """One of them."""
        found(name)
        return JSONResponse(described(name))

    def post(path: str, asked: type[BaseModel]) -> Callable[[Handler], Handler]:
        extra = {
            "requestBody": {"required": True, "content": {"application/json": {"schema": asked.model_json_schema()}}}
        }
        said = {404: "There is no such model."}
        return router.post(
            path, responses=shapes.responses(dict[str, Any], also=said, openai=True), openapi_extra=extra
        )

    @post("/completions", Completion)
    async def completions(request: Request) -> Response:
        """Write on from a prompt, or from several."""
        asked = await read(Completion, request)
        prompts = asked.prompt or [""]
        wanted = asked.n or 1
        if asked.best_of is not None and asked.best_of < wanted:
            raise Refusal(400, f"Invalid request: best_of {asked.best_of} is less than n {wanted}")
        asked = asked.model_copy(update={"n": max(wanted, asked.best_of or 1)})
        writer = admitted(request, asked, prompts)
        return await written(writer, asked, prompts, wanted, asked.logprobs, echo=bool(asked.echo))

    @post("/chat/completions", Chat)
    async def chat(request: Request) -> Response:
        """The next turn of a conversation. A model that never saw one writes on from its text, turn by turn."""
        asked = await read(Chat, request)
        prompt = "".join(f"{m.role}: {m.content}\n" for m in asked.messages) + "assistant:"
        most = asked.max_completion_tokens or asked.max_tokens
        writer = admitted(request, asked, [prompt])
        stop = writer.bundle.decode.stop if asked.stop is None else asked.stop
        asked = asked.model_copy(update={"max_tokens": most, "stop": [*stop, *TURNS]})
        top = (asked.top_logprobs or 0) if asked.logprobs else None
        return await written(writer, asked, [prompt], asked.n or 1, top, chat=True)

    def admitted(request: Request, asked: Asked, prompts: Sequence[Prompt]) -> Model:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        facts = admit(service, request, (key.strip() or None) if scheme.lower() == "bearer" else None, BEARER)
        writer = found(asked.model)
        service.count(facts, [_text(writer.writer, prompt, service.settings.char_limit) for prompt in prompts])
        texts = (asked.n or 1) * len(prompts)
        if texts > MOST_TEXTS:
            raise Refusal(400, f"Invalid request: {texts} texts; no more than {MOST_TEXTS} are written for one request")
        if asked.stream and texts > 1:
            raise Refusal(400, "Invalid request: one text at a time can be streamed")
        if asked.stream_options is not None and not asked.stream:
            raise Refusal(400, "Invalid request: stream_options are for a stream")
        return writer

    async def written(
        writer: Model,
        asked: Asked,
        prompts: Sequence[Prompt],
        wanted: int,
        top: int | None,
        *,
        echo: bool = False,
        chat: bool = False,
    ) -> Response:
        """wanted: how many of the texts are told. top: log-probabilities too, and of so many others."""
        options, tokenizer = asked.options(writer.bundle.decode, service.settings.token_limit), writer.bundle.source
        most = options["max_tokens"]
        told = completion.itemised if chat else completion.listed
        logprobs = None if top is None else told(tokenizer)
        answer = completion.Answer(asked.model, logprobs, chat=chat, stream=bool(asked.stream))
        cost = checked(lambda: sum(len(writer.writer.tokens(prompt)) for prompt in prompts))

        def before() -> list[Piece]:
            if not echo:
                return [Piece("")] * len(prompts)
            own = writer.writer
            return [Piece(own.text(p), () if top is None else tuple(own.read(p, top)[0])) for p in prompts]

        if asked.stream:
            text = checked(lambda: writer.stream_pieces(prompts[0], top=top, **options | {"max_tokens": most or 1}))
            pieces = completion.stripped(text) if chat else text if most else _nothing()
            # What is wrong shows while there is a status.
            opening, first = await service.writing.run(
                lambda: checked(lambda: (before()[0], completion.advanced(pieces)))
            )
            usage = asked.stream_options is not None and asked.stream_options.include_usage
            return StreamingResponse(
                answer.events(service, opening, first, pieces, cost if usage else None),
                media_type="text/event-stream",
                headers={"Cache-Control": "no-store"},
            )

        openings = await service.writing.run(lambda: checked(before))
        if most:
            steps = checked(lambda: writer.generating(prompts, top=top, **options))
            texts = await service.writing.through(steps)
        else:
            texts = [[NOTHING] * wanted] * len(prompts)
        return JSONResponse(answer.whole(texts, wanted, openings, cost))

    return router


def _text(writer: Writer, prompt: Prompt, most: int) -> str:
    """What a prompt says. One in tokens may hold no more than `most`: special ones are no characters."""
    if not isinstance(prompt, str):
        count = len(writer.tokenizer)
        if len(prompt) > most:
            raise Refusal(400, f"Invalid request: prompt: more than {most} tokens", param="prompt")
        if not all(0 <= token < count for token in prompt):
            raise Refusal(400, f"Invalid request: prompt: the model's tokens are 0 to {count - 1}", param="prompt")
    return writer.text(prompt)


NOTHING = Generation("", 0.0, 0, "length")


def _nothing() -> completion.Pieces:
    """No token was asked for."""
    yield from ()
    return NOTHING
