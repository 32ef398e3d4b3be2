"""A request that is refused: its status and one sentence, in the API's own shape `{"error": "..."}`."""

import json
from collections.abc import Callable, Mapping
from typing import TypeVar

from starlette.responses import Response

from regard.errors import UserError

Result = TypeVar("Result")
STOPPING = "The server is shutting down"


class Refusal(Exception):
    """Raised anywhere below a route; the client gets the status and the sentence."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after

    def response(self, headers: Mapping[str, str] | None = None) -> Response:
        more = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        body = json.dumps({"error": self.message}, ensure_ascii=False).encode(errors="replace")
        return Response(body, self.status, {**(headers or {}), **more}, "application/json")


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
