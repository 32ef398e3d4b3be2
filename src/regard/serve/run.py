"""Runs the server until it is told to stop, and lets those who wait be answered first."""

import asyncio
import signal
import socket
from types import FrameType

import uvicorn
from fastapi import FastAPI

from regard.serve import logs
from regard.serve.app import make_app
from regard.serve.listen import url
from regard.serve.models import Models
from regard.serve.service import Service
from regard.serve.settings import Settings


def run(models: Models, settings: Settings, bound: socket.socket) -> None:
    """Serves until SIGTERM or Ctrl-C."""
    logs.write_to_stderr()
    server = Server(make_app(models, settings), settings, f"Regard is ready at {url(bound)} (Ctrl-C stops it)")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, server.handle_exit)  # uvicorn raises it again when all is done: that is no failure
    server.run([bound])


class Server(uvicorn.Server):
    """Says when it is ready, and ends the grace on time."""

    def __init__(self, app: FastAPI, settings: Settings, ready: str = "") -> None:
        config = uvicorn.Config(
            app, log_config=None, access_log=False, server_header=False, ws="none", lifespan="on", backlog=2048,
            proxy_headers=bool(settings.proxy), forwarded_allow_ips=list(settings.proxy),
            # Our own refusals come at the end of the grace; this is for what does not heed them.
            timeout_graceful_shutdown=int(settings.grace) + 3,
        )  # fmt: skip
        super().__init__(config)
        self.service: Service = app.state.service
        self.grace, self.ready = settings.grace, ready
        self.loop: asyncio.AbstractEventLoop | None = None  # once it is up

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        if self.started and self.ready:
            print(self.ready, flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit and self.loop is not None:
            logs.event("stopping", grace=self.grace)
            self.loop.call_soon_threadsafe(self.loop.call_later, self.grace, self.service.close)
        super().handle_exit(sig, frame)
