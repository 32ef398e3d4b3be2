"""Work in parts, side by side: each part runs on one core from its beginning to its end.

Two cores that share every operation wait for each other thousands of times; two that share the work meet once. So a
batch's gradient is computed in parts, and batches are decoded side by side. Results come in the order of the parts.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import torch

LEAST = 1024  # tokens of a part; smaller ones cost more than they gain

Item = TypeVar("Item")
Result = TypeVar("Result")


def parts_for(batch_tokens: int, threads: int) -> int:
    """How many parts are worth it."""
    return max(1, min(threads, batch_tokens // LEAST))


@contextmanager
def no_denormals() -> Iterator[None]:
    """In this thread, and those it starts, numbers below 1e-38 are zero.

    A CPU takes many times as long for one of them, and what decays without end, as momentum does, ends there.
    """
    before = not (torch.full((), 1e-30) * 1e-10).any()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


class Workers:
    """Threads that share PyTorch's threads among them; with one part everything stays in the calling thread."""

    def __init__(self, parts: int) -> None:
        threads = torch.get_num_threads()
        self.count = min(parts, threads)
        self._pool: ThreadPoolExecutor | None = None
        if self.count > 1:
            ready = threading.Barrier(self.count, timeout=60)  # every thread is there before the first part comes

            def begin() -> None:
                torch.get_num_threads()  # a thread's first question sets it to the process's number
                torch.set_flush_denormal(True)
                torch.set_num_threads(threads // self.count)
                ready.wait()

            self._pool = ThreadPoolExecutor(self.count, "regard-part")
            for started in [self._pool.submit(begin) for _ in range(self.count)]:
                started.result()
            torch.set_num_threads(threads)  # new threads take what was set last, in whichever thread

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """The results in the order of the items, each as soon as it is there; an error, once all have ended."""
        if self._pool is None:
            yield from map(work, items)
            return
        running = deque(self._pool.submit(work, item) for item in items)
        try:
            while running:
                yield running.popleft().result()
        finally:
            wait(running)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
