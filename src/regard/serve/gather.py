"""Requests gathered into batches: a bounded queue before each model, and threads that decode what waits there.

There is no waiting for a batch to fill: while one batch is decoded, the next gathers. Sentences of a long request go
in turns with those of others, so that nobody waits for all of it.
"""

import asyncio
import re
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import torch

from regard.decode import DecodeOptions
from regard.decode.translator import OverlongWarning, Translation
from regard.serve.priority import stand_back
from regard.serve.refusal import STOPPING, busy

BATCH = 4096  # characters decoded together: some 60 sentences
SHARE = 512  # characters that one request gives to a batch at a time

# A sentence too long for the model is translated in parts; there is nobody here to be warned.
warnings.filterwarnings("ignore", category=OverlongWarning, module=re.escape(__name__))

Decode = Callable[[Sequence[str], DecodeOptions], list[list[Translation]]]
Meter = Callable[[int, float], None]  # is told of each batch: sentences, seconds


@dataclass(eq=False)
class Job:
    """One request's sentences, on their way."""

    texts: Sequence[str]
    options: DecodeOptions
    answer: "asyncio.Future[list[list[Translation]]]"
    entered: float = field(default_factory=time.monotonic)
    wait: float = 0.0  # seconds until its first sentence was taken
    taken: int = 0  # how many sentences have gone to be decoded
    missing: int = 0  # how many are not translated yet
    found: list[list[Translation]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.missing = len(self.texts)
        self.found = [[] for _ in self.texts]


Part = tuple[Job, int, int]  # sentences start to stop of a job


class Gatherer:
    """The queue before one model."""

    def __init__(
        self, decode: Decode, meter: Meter, *, queue: int, queue_chars: int, deadline: float, threads: int = 1
    ) -> None:
        self._decode, self._meter = decode, meter
        self._most, self._most_chars, self._deadline = queue, queue_chars, deadline
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self.waiting = self.waiting_chars = 0
        self._cores = torch.get_num_threads()
        self._threads = [threading.Thread(target=self._work, name="regard-decode", daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    async def translate(self, texts: Sequence[str], options: DecodeOptions) -> tuple[list[list[Translation]], float]:
        """The translations of each sentence, and how many seconds they waited. Leaving early frees the place."""
        if not texts:
            return [], 0.0
        job = Job(texts, options, asyncio.get_running_loop().create_future())
        self._enter(job)
        try:
            async with asyncio.timeout(self._deadline):
                return await job.answer, job.wait
        except TimeoutError:
            raise busy("The server is too busy to answer in time; try again soon") from None
        finally:
            if job.missing:
                self._leave(job)

    def close(self) -> None:
        """Whoever still waits is told so; the threads end after the batch they are at (`join` waits for that)."""
        with self._changed:
            self._closed = True
            left = list(self._jobs)
            self._jobs.clear()
            self.waiting = self.waiting_chars = 0
            self._changed.notify_all()
        for job in left:
            _settle([(job, busy(STOPPING))])

    def join(self) -> None:
        for thread in self._threads:
            thread.join(timeout=10)

    def _enter(self, job: Job) -> None:
        characters = sum(map(len, job.texts))
        with self._changed:
            if self._closed:
                raise busy(STOPPING)
            # Alone in the queue, any request that the other limits let through is taken.
            full = self.waiting + len(job.texts) > self._most or self.waiting_chars + characters > self._most_chars
            if full and self._jobs:
                raise busy()
            self._jobs.append(job)
            self.waiting += len(job.texts)
            self.waiting_chars += characters
            self._changed.notify()

    def _leave(self, job: Job) -> None:
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)
                self.waiting -= len(job.texts) - job.taken
                self.waiting_chars -= sum(map(len, job.texts[job.taken :]))

    def _work(self) -> None:
        stand_back()
        torch.set_num_threads(self._cores)  # its own: what other threads set is what new ones begin with
        while parts := self._take():
            self._translate(parts)

    def _take(self) -> list[Part]:
        """Sentences of requests with the same options, first come first served, no more than a share in one go."""
        with self._changed:
            while not self._jobs and not self._closed:
                self._changed.wait()
            parts: list[Part] = []
            others: list[Job] = []
            room = BATCH
            while self._jobs and room > 0:
                job = self._jobs.popleft()
                if parts and job.options != parts[0][0].options:
                    others.append(job)
                    continue
                start, share = job.taken, min(SHARE, room)
                while job.taken < len(job.texts) and share > 0:
                    share -= len(job.texts[job.taken])
                    job.taken += 1
                characters = sum(map(len, job.texts[start : job.taken]))
                room -= characters
                self.waiting -= job.taken - start
                self.waiting_chars -= characters
                parts.append((job, start, job.taken))
                if start == 0:
                    job.wait = time.monotonic() - job.entered
                if job.taken < len(job.texts):
                    self._jobs.append(job)
            self._jobs.extendleft(reversed(others))
            if self._jobs:
                self._changed.notify()
            return parts

    def _translate(self, parts: list[Part]) -> None:
        texts = [text for job, start, stop in parts for text in job.texts[start:stop]]
        begun = time.monotonic()
        try:
            found = iter(self._decode(texts, parts[0][0].options))
        except BaseException as raised:  # of any kind (a library may panic): the thread must outlive it
            error = raised if isinstance(raised, Exception) else RuntimeError(repr(raised))
            if len(parts) > 1:  # one request's misfortune is not its neighbours'
                for part in parts:
                    self._translate([part])
            else:
                _settle([(parts[0][0], error)])
            return
        self._meter(len(texts), time.monotonic() - begun)
        with self._changed:
            for job, start, stop in parts:
                job.found[start:stop] = [next(found) for _ in range(start, stop)]
                job.missing -= stop - start
        _settle([(job, None) for job in dict.fromkeys(job for job, _, _ in parts) if not job.missing])


def _settle(jobs: list[tuple[Job, Exception | None]]) -> None:
    """Answers in the clients' own event loop; one call for a whole batch."""

    def answer() -> None:
        for job, error in jobs:
            if job.answer.done():
                continue
            if error is None:
                job.answer.set_result(job.found)
            else:
                job.answer.set_exception(error)

    if jobs:
        with suppress(RuntimeError):  # the loop has ended, and with it whoever asked
            jobs[0][0].answer.get_loop().call_soon_threadsafe(answer)
