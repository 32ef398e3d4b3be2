"""Reading a request's body: counted as it comes, never more than the limit, and dropped when the client leaves."""

import asyncio
import time
from collections.abc import Awaitable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.refusal import Refusal

LINGER_BYTES, LINGER_SECONDS = 4_000_000, 1.0  # read and thrown away after a refusal, so that the client sees it


class ClientLeft(Exception):
    """There is nobody to answer."""


class Body:
    """Gives the app a whole body of at most `limit` bytes, and cancels its work when the client goes away."""

    def __init__(self, app: ASGIApp, limit: int, seconds: float) -> None:
        self.app, self.limit, self.seconds = app, limit, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self.app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self.seconds):
                body = await self._read(scope, receive)
        except TimeoutError:
            await _refuse(Refusal(408, "The request's body took too long to arrive"), scope, receive, send)
            return
        except Refusal as refusal:
            await _refuse(refusal, scope, receive, send)
            return
        await while_there(self.app(scope, _replayed(body), send), receive)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        too_large = Refusal(413, f"The request's body is larger than {self.limit} bytes")
        for name, value in scope["headers"]:
            if name == b"content-length" and int(value) > self.limit:
                raise too_large
        parts: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > self.limit:
                raise too_large
        return b"".join(parts)


async def while_there(work: Awaitable[None], receive: Receive) -> None:
    """Does the work; if the client leaves first, it is cancelled."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientLeft
        working.result()
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _replayed(body: bytes) -> Receive:
    given = False

    async def receive() -> Message:
        nonlocal given
        if given:
            await asyncio.Event().wait()  # whether the client has left is watched elsewhere
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _refuse(refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers before the body is there; what still comes is read for a moment and thrown away, then the line closes."""
    response = refusal.response(scope, {"Connection": "close"})
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    read, until = 0, time.monotonic() + LINGER_SECONDS
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            while read < LINGER_BYTES and time.monotonic() < until:
                message = await receive()
                read += len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    break
    except TimeoutError:
        pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})
