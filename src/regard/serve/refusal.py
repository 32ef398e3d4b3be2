"""A request that is refused: its status and one sentence, in the API's own shape."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Scope

from regard.errors import UserError

Result = TypeVar("Result")
STOPPING = "The server is shutting down"
# What OpenAI calls some refusals: their type and code by the status.
KINDS = {403: ("authentication_error", "invalid_api_key"), 429: ("rate_limit_error", "rate_limit_exceeded")}


class Refusal(Exception):
    """Raised anywhere below a route; the client gets the status and the sentence."""

    def __init__(
        self,
        status: int,
        message: str,
        retry_after: int | None = None,
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        """code: by which OpenAI's clients know it. param: which parameter is wrong."""
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after
        self.code, self.param = code, param

    def response(self, scope: Scope, headers: Mapping[str, str] | None = None) -> Response:
        more = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        openai = scope["path"].startswith("/v1/")
        status = 401 if openai and self.status == 403 else self.status  # their word for a key that is wrong
        told = self.as_openai() if openai else self.message
        body = json.dumps({"error": told}, ensure_ascii=False).encode(errors="replace")
        return Response(body, status, {**(headers or {}), **more}, "application/json")

    def as_openai(self) -> dict[str, Any]:
        other = "server_error" if self.status >= 500 else "invalid_request_error"
        kind, code = KINDS.get(self.status, (other, self.code))
        return {"message": self.message, "type": kind, "param": self.param, "code": code}


def busy(message: str = "The server is busy; try again soon") -> Refusal:
    """More than the server takes in at once."""
    return Refusal(503, message, retry_after=1)


def checked(work: Callable[[], Result]) -> Result:
    """What the model cannot do is a 400."""
    try:
        return work()
    except UserError as error:
        raise Refusal(400, f"Invalid request: {error}") from None


def shown(given: object) -> str:
    """What a client gave, short enough for a message."""
    text = str(given)
    return text if len(text) <= 40 else text[:39] + "…"
