"""What the API answers, as schemas: they are what its OpenAPI description is made from."""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field


class Problem(BaseModel):
    error: str


class OpenAIError(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIProblem(BaseModel):
    error: OpenAIError


class DetectedLanguage(BaseModel):
    confidence: float = Field(ge=0, le=100)
    language: str


class Translated(BaseModel):
    translatedText: str | list[str]
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None
    alternatives: list[str] | list[list[str]] | None = None


class Language(BaseModel):
    code: str
    name: str
    targets: list[str]


class Health(BaseModel):
    status: str


class TranslatedFile(BaseModel):
    translatedFileUrl: str


PROBLEMS = {
    400: "A parameter is missing or wrong, or a limit is exceeded.",
    403: "The API key is missing or wrong.",
    408: "The body took too long to arrive.",
    413: "The body is too large.",
    415: "The body is neither JSON nor a form.",
    429: "Too many requests; Retry-After says when to come again.",
    500: "A fault of the server's own; the log has it under the reference given.",
    503: "The server is busy or shutting down; Retry-After says when to come again.",
}


def responses(
    content: Any, *, kind: str = "application/json", also: dict[int, str] | None = None, openai: bool = False
) -> dict[int | str, Any]:
    """What a route that takes work may answer. openai: in OpenAI's words."""
    right = {"description": "Done."} | ({"model": content} if kind == "application/json" else {"content": {kind: {}}})
    problem = OpenAIProblem if openai else Problem
    wrong: dict[int | str, Any] = {
        401 if openai and status == 403 else status: {"model": problem, "description": words}
        for status, words in (PROBLEMS | (also or {})).items()
    }
    return {200: right, **wrong}


def body(
    schema: type[BaseModel], languages: Sequence[str] = (), *, auto: bool = False, file: bool = False
) -> dict[str, Any]:
    """The request body of a route, as OpenAPI has it: JSON or a form; with a file, a multipart form alone.

    languages: those that source and target can be; auto: whether the source can be found out.
    """
    described = schema.model_json_schema()
    if languages:
        described["properties"]["source"]["enum"] = ["auto", *languages] if auto else list(languages)
        described["properties"]["target"]["enum"] = list(languages)
    if not file:
        kinds = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")
        return {"requestBody": {"required": True, "content": {kind: {"schema": described} for kind in kinds}}}
    described["properties"]["file"] = {"type": "string", "format": "binary", "description": "A .txt or .html file."}
    described["required"] = [*described.get("required", []), "file"]
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": described}}}}
