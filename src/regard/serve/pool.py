"""A few threads for work beside translating (looks, alignments), and a bounded number of those who wait for them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import torch

from regard.serve.refusal import STOPPING, busy

Result = TypeVar("Result")


class Pool:
    """Runs work off the event loop; refuses when too many wait."""

    def __init__(self, name: str, deadline: float, threads: int = 1, most: int = 16) -> None:
        self._deadline, self._most = deadline, most
        self._threads = ThreadPoolExecutor(threads, f"regard-{name}", initializer=_one_core)
        self._waiting: set[asyncio.Future[Any]] = set()
        self._closed = False

    async def run(self, work: Callable[[], Result]) -> Result:
        """The work's result. Work that nobody waits for any more is not begun."""
        if self._closed:
            raise busy(STOPPING)
        if len(self._waiting) >= self._most:
            raise busy()
        begun = self._threads.submit(work)
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

    def close(self) -> None:
        """Whoever still waits is told so; in the event loop's own thread."""
        self._closed = True
        for waiting in self._waiting:
            waiting.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        self._threads.shutdown()


def _one_core() -> None:
    torch.set_num_threads(1)
