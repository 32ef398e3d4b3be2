"""Answers that come event by event: so many at once, and what goes wrong half-way is told in the stream itself."""

import json
import logging
import secrets
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from regard.errors import UserError
from regard.serve import logs
from regard.serve.refusal import Refusal, busy

Event = tuple[str, dict[str, Any]]  # its name and what it tells


class Streams:
    """Places for streams. However one ends, its place is free again."""

    def __init__(self, places: int) -> None:
        self.free = places

    async def answer(self, route: str, events: AsyncIterator[Event]) -> Response:
        """The first event is made here: what is wrong with the request shows while there is a status to say it with."""
        if not self.free:
            raise busy()
        self.free -= 1
        try:
            first = await anext(events)
        except BaseException:
            self.free += 1
            raise
        return _Stream(self, _told(route, first, events))


class _Stream(StreamingResponse):
    def __init__(self, streams: Streams, lines: AsyncIterator[str]) -> None:
        super().__init__(lines, media_type="text/event-stream", headers={"Cache-Control": "no-store"})
        self.streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:  # also when the client went away before the first line
            self.streams.free += 1


async def _told(route: str, first: Event, rest: AsyncIterator[Event]) -> AsyncIterator[str]:
    try:
        yield _line(*first)
        async for event in rest:
            yield _line(*event)
    except (Refusal, UserError) as problem:
        yield _line("error", {"error": str(problem)})
    except Exception as error:
        yield _line("error", {"error": failed(route, error)})


def failed(route: str, error: Exception) -> str:
    """Writes into the log what went wrong half-way, and tells where it stands there."""
    number = secrets.token_hex(4)
    logs.event("failed", logging.ERROR, reference=number, route=route, **logs.describe(error))
    return f"Something went wrong here; the log has it under {number}"


def _line(name: str, data: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
