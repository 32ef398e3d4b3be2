"""A thread for work beside translating (looks, alignments), and a bounded number of those who wait for it."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

import torch

from regard.serve.priority import stand_back
from regard.serve.refusal import STOPPING, busy, checked

Result = TypeVar("Result")
TURN = 0.1  # seconds of work in many steps, before others have their turn


def _some(steps: Generator[Any, None, Result]) -> list[Result]:
    """Steps for a while; the result, once there is one."""
    until = time.monotonic() + TURN
    try:
        while time.monotonic() < until:
            checked(lambda: next(steps))
    except StopIteration as stop:
        return [stop.value]
    return []


class Pool:
    """Runs work off the event loop, in a thread that no exit waits for; refuses when too many wait."""

    def __init__(self, name: str, deadline: float, most: int) -> None:
        self._deadline, self._most = deadline, most
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._loop, name=f"regard-{name}", daemon=True)
        self._thread.start()
        self._waiting: set[asyncio.Future[Any]] = set()
        self._closed = False

    async def run(self, work: Callable[[], Result]) -> Result:
        """The work's result. Work that nobody waits for any more is not begun."""
        if self._closed:
            raise busy(STOPPING)
        if len(self._waiting) >= self._most:
            raise busy()
        begun: Future[Result] = Future()
        self._work.put((begun, work))
        waiting = asyncio.wrap_future(begun)
        self._waiting.add(waiting)
        try:
            async with asyncio.timeout(self._deadline):
                return await waiting
        except TimeoutError:
            raise busy("The server is too busy to answer in time; try again soon") from None
        except asyncio.CancelledError:
            if self._closed:
                raise busy(STOPPING) from None
            raise
        finally:
            begun.cancel()
            self._waiting.discard(waiting)

    async def through(self, steps: Generator[Any, None, Result]) -> Result:
        """What comes of work in many steps. Others have their turns in between; if nobody waits, no more is done."""
        result: list[Result] = []
        while not result:
            result = await self.run(lambda: _some(steps))
        return result[0]

    def close(self) -> None:
        """Whoever still waits is told so; in the event loop's own thread."""
        self._closed = True
        for waiting in self._waiting:
            waiting.cancel()
        self._work.put(None)

    def join(self) -> None:
        self._thread.join(timeout=10)

    def _loop(self) -> None:
        stand_back()
        torch.set_num_threads(1)
        while (one := self._work.get()) is not None:
            begun, work = one
            if begun.set_running_or_notify_cancel():
                try:
                    begun.set_result(work())
                except BaseException as error:  # of any kind: the thread must outlive it
                    begun.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))
