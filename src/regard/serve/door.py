"""Where every request comes in and every answer goes out: how many at once, one log line each, no error untold."""

import asyncio
import logging
import secrets
import time
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve import logs
from regard.serve.body import ClientLeft
from regard.serve.meters import Meters
from regard.serve.refusal import Refusal, busy

OPEN = ("/health", "/metrics")  # answered however busy the server is
PACE = 250  # refusals a second at most: clients who ask again at once must not keep the server busy with refusing
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"))
NOSNIFF = (b"x-content-type-options", b"nosniff")  # what is said to be JSON is not to be taken for a page
LEFT = 499  # as nginx has it: nobody was there to be answered


class Door:
    """Counts requests, refuses those that are too many, and writes down what became of each."""

    def __init__(self, app: ASGIApp, most: int, meters: Meters, paths: Collection[str]) -> None:
        """paths: those without a variable part, by which a request is named before it is routed."""
        self.app, self.most, self.meters, self.paths = app, most, meters, frozenset(paths)
        self.inside = self.refusing = 0
        meters.watch_open(lambda: self.inside)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, facts, status, method = time.perf_counter(), logs.Facts(), 0, scope["method"]
        if method == "HEAD":  # as GET; whoever sends the answer leaves its body out
            scope = {**scope, "method": "GET"}
        scope["facts"] = facts

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), NOSNIFF]
            await send(message)

        refused = self.inside >= self.most and scope["path"] not in OPEN
        self.inside += not refused
        try:
            if refused:
                await self._refuse(scope, receive, watched)
            else:
                await self.app(scope, receive, watched)
        except ClientLeft:
            status = status or LEFT
        except Exception as error:
            number = secrets.token_hex(4)
            logs.event("failed", logging.ERROR, reference=number, route=self._route(scope), **logs.describe(error))
            if not status:
                refusal = Refusal(500, f"Something went wrong here; the log has it under {number}")
                await refusal.response(scope)(scope, receive, watched)
        finally:
            self.inside -= not refused
            seconds = time.perf_counter() - begun
            self.meters.request(self._route(scope), status, seconds, facts.texts, facts.characters)
            logs.event(
                "request",
                method=method if method in METHODS else "other",
                path=self._route(scope),
                status=status,
                ms=round(1000 * seconds, 1),
                texts=facts.texts,
                characters=facts.characters,
                wait_ms=round(1000 * facts.wait, 1),
                key=facts.key,
            )

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        """At once where few are refused; the more there are, the longer each is kept, which costs next to nothing."""
        self.refusing += 1
        try:
            await asyncio.sleep((self.refusing - 1) / PACE)
            await busy().response(scope)(scope, receive, send)
        finally:
            self.refusing -= 1

    def _route(self, scope: Scope) -> str:
        """The route's pattern, not the path as sent: that could be anything."""
        if scope["path"] in self.paths:
            return str(scope["path"])
        return str(getattr(scope.get("route"), "path", "")) or "other"
