"""A request's parameters: JSON, form or query, in one dict, then checked by a schema; what is wrong is a 400."""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel, BeforeValidator, Field, StringConstraints, ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from regard.serve.refusal import Refusal, shown

FORM, MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
FIELDS = 1000  # most fields of a form
MASKS = 5000  # most masks of an explanation
TOP = 50  # most tokens told of for one place
Code = Annotated[str, StringConstraints(min_length=1, max_length=20)]


def _count(value: Any) -> Any:
    """A number or its digits; true is no number."""
    if isinstance(value, bool) or (isinstance(value, str) and not (value.isascii() and value.isdigit())):
        raise ValueError("must be a whole number of 0 or more")
    return value


Number = Annotated[int, BeforeValidator(_count)]


class Keyed(BaseModel):
    """What every request may have."""

    api_key: str | None = Field(None, description="An API key, where the server asks for one.")


class Detect(Keyed):
    q: str | list[str] = Field(description="The text to judge, or several.", examples=["Hello world!"])


class Pair(Keyed):
    source: Code = Field(description="The language it is in.", examples=["en"])
    target: Code = Field(description="The language of its translation.", examples=["es"])


class TranslateFile(Pair):
    source: Code = Field(description="The language it is in, or auto.", examples=["en"])


class Translate(TranslateFile):
    q: str | list[str] = Field(description="The text to translate, or several.", examples=["Hello world!"])
    format: Annotated[Literal["text", "html"], BeforeValidator(lambda given: given or "text")] = Field(
        "text", description="html keeps tags as they are."
    )
    alternatives: Number = Field(0, ge=0, description="How many other translations to give besides.")


class Sentence(Pair):
    text: str = Field(min_length=1, description="One sentence.", examples=["Hello world!"])
    translation: str | None = Field(None, description="Look at this translation in place of the model's own.")
    alternatives: Number = Field(
        0, ge=0, description="How many were asked for with the translation: more of them widen the beam."
    )


class Look(Sentence):
    packed: bool = Field(False, description="All that the page's views show, packed small.")


class Steps(Sentence):
    kind: Literal["encoder", "decoder", "cross"] = Field(description="Which attention.")
    layer: Number = Field(0, description="From 0.", ge=0)
    head: Number = Field(0, description="From 0.", ge=0)


class Typed(TranslateFile):
    text: str = Field(min_length=1, description="The text to translate.", examples=["Hello world!"])
    alternatives: Number = Field(0, description="How many other translations to give besides.", ge=0)


class Explain(Sentence):
    masks: Number = Field(1000, description="How many random masks to try.", ge=2, le=MASKS)
    by: Literal["words", "tokens"] = Field("words", description="What is hidden at a time.")


class Next(Keyed):
    model: str = Field(description="A language model's name, as /api/info lists them.", examples=["shakespeare"])
    text: str = Field("", description="The text so far.", examples=["To be"])
    top: Number = Field(10, ge=1, le=TOP, description="How many of the likeliest tokens to give for each place.")


class Write(Keyed):
    model: str = Field(description="A language model's name, as /api/info lists them.", examples=["shakespeare"])
    tokens: list[Number] = Field(default_factory=list, description="The text so far, in tokens, as /api/next has them.")
    max_tokens: Number = Field(100, ge=1, description="Most tokens to write.")
    temperature: float = Field(1.0, ge=0, le=10, description="0 takes the likeliest token every time.")
    top_k: Number = Field(0, ge=0, description="Only so many of the likeliest tokens; 0 is all.")
    top_p: float = Field(1.0, gt=0, le=1, description="Only the likeliest tokens with so much mass.")
    seed: Number = Field(0, ge=0, lt=2**63, description="The same seed gives the same text.")
    top: Number = Field(10, ge=1, le=TOP, description="How many of the likeliest tokens to give for each place.")


Schema = TypeVar("Schema", bound=BaseModel)


async def parameters(request: Request) -> dict[str, Any]:
    """Query and body in one; the body wins."""
    found = _joined(request.query_params.multi_items())
    body = await request.body()
    if body:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json" or kind.endswith("+json"):
            found |= _read_json(body)
        elif kind == FORM:
            found |= _read_form(body)
        elif kind == MULTIPART:
            found |= await _read_multipart(request)
        else:
            raise Refusal(415, f"Unsupported content type {shown(kind)!r}: send JSON or a form")
    _refuse_half_characters(found.values())
    return found


def checked(schema: type[Schema], found: Mapping[str, Any]) -> Schema:
    """The parameters as the schema has them, or one sentence on what is wrong with them."""
    try:
        return schema.model_validate(found)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
        param = shown(problem["loc"][0]) if problem["loc"] else None
        name = param or "request"
        empty = problem["type"] == "string_too_short"
        if problem["type"] == "missing" or empty:
            raise Refusal(400, f"Invalid request: missing {name} parameter", param=param) from None
        words = problem["msg"].removeprefix("Value error, ")
        raise Refusal(400, f"Invalid request: {name}: {words[:1].lower()}{words[1:]}", param=param) from None


async def read(schema: type[Schema], request: Request) -> Schema:
    """Both steps."""
    return checked(schema, await parameters(request))


def _read_json(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(400, "Invalid request: the body is not JSON") from None
    if not isinstance(content, dict):
        raise Refusal(400, "Invalid request: the body is JSON, but not an object")
    return content


def _read_form(body: bytes) -> dict[str, Any]:
    try:
        text = body.decode(errors="replace")
        return _joined(parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS, errors="replace"))
    except ValueError:
        raise Refusal(400, f"Invalid request: the form has more than {FIELDS} fields") from None


async def _read_multipart(request: Request) -> dict[str, Any]:
    try:
        form = await request.form(max_files=1, max_fields=FIELDS)
    except (HTTPException, ValueError):
        raise Refusal(400, "Invalid request: the form cannot be read") from None
    return _joined(form.multi_items())


def _joined(items: Iterable[tuple[str, str | UploadFile]]) -> dict[str, Any]:
    """A name that comes several times is a list."""
    found: dict[str, list[str | UploadFile]] = {}
    for name, value in items:
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _refuse_half_characters(values: Iterable[Any]) -> None:
    """Escapes in JSON can spell half a character, which is no text."""
    for value in values:
        for text in value if isinstance(value, list) else [value]:
            try:
                text.encode() if isinstance(text, str) else None
            except UnicodeEncodeError:
                raise Refusal(400, "Invalid request: a text holds half of a surrogate pair") from None
