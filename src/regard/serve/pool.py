"""A few threads for work beside translating (looks, alignments), and a bounded number of those who wait for them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

from regard.serve.refusal import busy

Result = TypeVar("Result")


class Pool:
    """Runs work off the event loop; refuses when too many wait."""

    def __init__(self, name: str, deadline: float, threads: int = 1, most: int = 16) -> None:
        self._deadline, self._most = deadline, most
        self._threads = ThreadPoolExecutor(threads, f"regard-{name}", initializer=_one_core)
        self.waiting = 0

    async def run(self, work: Callable[[], Result]) -> Result:
        """The work's result. Work that nobody waits for any more is not begun."""
        if self.waiting >= self._most:
            raise busy()
        future = self._threads.submit(work)
        self.waiting += 1
        try:
            async with asyncio.timeout(self._deadline):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise busy("The server is too busy to answer in time; try again soon") from None
        finally:
            future.cancel()
            self.waiting -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _one_core() -> None:
    torch.set_num_threads(1)
