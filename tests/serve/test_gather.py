"""The queue before a model: batches, turns, bounds, leaving, deadlines, misfortunes."""

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

import pytest
from serve.servers import until

from regard.decode import DecodeOptions
from regard.decode.translator import Translation
from regard.serve.gather import SHARE, Gatherer
from regard.serve.priority import NICE
from regard.serve.refusal import Refusal

ONE, TWO = DecodeOptions(beam=1), DecodeOptions(beam=2)


class Panic(BaseException):
    """As a library of another language raises it."""


class Engine:
    """Translates into capitals, when it is let; remembers what it got together."""

    def __init__(self) -> None:
        self.gate, self.begun = threading.Event(), threading.Event()
        self.batches: list[tuple[list[str], DecodeOptions]] = []

    def __call__(self, texts: Sequence[str], options: DecodeOptions) -> list[list[Translation]]:
        self.batches.append((list(texts), options))
        self.begun.set()
        assert self.gate.wait(20)
        if "poison" in texts:
            raise ValueError("poison")
        if "panic" in texts:
            raise Panic
        return [[Translation(text.upper(), 0.0, 1.0)] for text in texts]


Make = Callable[..., Gatherer]


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def make(engine: Engine) -> Iterator[Make]:
    made: list[Gatherer] = []

    def one(**limits: Any) -> Gatherer:
        given = {"queue": 100, "queue_chars": 10_000, "deadline": 20.0} | limits
        made.append(Gatherer(engine, lambda texts, seconds: None, **given))
        return made[-1]

    yield one
    engine.gate.set()
    for gatherer in made:
        gatherer.close()
        gatherer.join()


def run(work: Awaitable[Any]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(20):
            return await work

    return asyncio.run(bounded())


async def asked(gatherer: Gatherer, texts: Sequence[str], options: DecodeOptions = ONE) -> list[str]:
    found, _ = await gatherer.translate(texts, options)
    return [one[0].text for one in found]


async def begun(engine: Engine) -> None:
    assert await asyncio.to_thread(engine.begun.wait, 20)


def test_what_waits_is_decoded_together(engine: Engine, make: Make) -> None:
    async def work() -> list[list[str]]:
        gatherer = make()
        first = asyncio.create_task(asked(gatherer, ["a"]))
        await begun(engine)
        rest = [asyncio.create_task(asked(gatherer, [f"b{i}", f"c{i}"])) for i in range(3)]
        await asyncio.sleep(0)
        engine.gate.set()
        return [await task for task in (first, *rest)]

    assert run(work()) == [["A"], ["B0", "C0"], ["B1", "C1"], ["B2", "C2"]]
    assert [texts for texts, _ in engine.batches] == [["a"], ["b0", "c0", "b1", "c1", "b2", "c2"]]


def test_other_options_are_another_batch(engine: Engine, make: Make) -> None:
    async def work() -> list[list[str]]:
        gatherer = make()
        first = asyncio.create_task(asked(gatherer, ["a"]))
        await begun(engine)
        rest = [asyncio.create_task(asked(gatherer, [t], o)) for t, o in (("b", ONE), ("c", TWO), ("d", ONE))]
        await asyncio.sleep(0)
        engine.gate.set()
        return [await task for task in (first, *rest)]

    assert run(work()) == [["A"], ["B"], ["C"], ["D"]]
    assert engine.batches == [(["a"], ONE), (["b", "d"], ONE), (["c"], TWO)]


def test_a_long_request_lets_others_have_their_turn(engine: Engine, make: Make) -> None:
    long = ["x" * 100] * 90

    async def work() -> list[str]:
        gatherer = make()
        held = asyncio.create_task(asked(gatherer, ["a"]))
        await begun(engine)
        patient = asyncio.create_task(asked(gatherer, long))
        await asyncio.sleep(0)
        quick = asyncio.create_task(asked(gatherer, ["quick"]))
        await asyncio.sleep(0)
        engine.gate.set()
        assert await held == ["A"]
        assert await patient == ["X" * 100] * 90
        return await quick

    assert run(work()) == ["QUICK"]
    second = engine.batches[1][0]
    assert second.index("quick") <= SHARE // 100 + 1
    assert "quick" not in [t for texts, _ in engine.batches[2:] for t in texts]
    assert len(engine.batches) >= 4  # the long one took several


@pytest.mark.parametrize("limits", [{"queue": 3}, {"queue_chars": 3}])
def test_the_queue_is_bounded(engine: Engine, make: Make, limits: dict[str, int]) -> None:
    async def work() -> None:
        gatherer = make(**limits)
        tasks = [asyncio.create_task(asked(gatherer, ["a"]))]
        await begun(engine)
        tasks += [asyncio.create_task(asked(gatherer, [t])) for t in "bcd"]
        await asyncio.sleep(0)
        with pytest.raises(Refusal) as refused:
            await asked(gatherer, ["e"])
        assert (refused.value.status, refused.value.retry_after) == (503, 1)
        engine.gate.set()
        assert [await task for task in tasks] == [["A"], ["B"], ["C"], ["D"]]
        assert await asked(gatherer, ["e"]) == ["E"]
        assert (gatherer.waiting, gatherer.waiting_chars) == (0, 0)

    run(work())


def test_a_request_larger_than_the_queue_is_taken_when_nobody_waits(engine: Engine, make: Make) -> None:
    engine.gate.set()
    assert run(asked(make(queue=2), ["a"] * 50)) == ["A"] * 50


def test_whoever_leaves_frees_the_place(engine: Engine, make: Make) -> None:
    async def work() -> None:
        gatherer = make(queue=2)
        first = asyncio.create_task(asked(gatherer, ["a"]))
        await begun(engine)
        leaving = asyncio.create_task(asked(gatherer, ["gone", "gone"]))
        await asyncio.sleep(0)
        with pytest.raises(Refusal):
            await asked(gatherer, ["b"])
        leaving.cancel()
        await asyncio.wait([leaving])
        assert (gatherer.waiting, gatherer.waiting_chars) == (0, 0)
        second = asyncio.create_task(asked(gatherer, ["b"]))
        await asyncio.sleep(0)
        engine.gate.set()
        assert [await first, await second] == [["A"], ["B"]]

    run(work())
    assert "gone" not in [t for texts, _ in engine.batches for t in texts]


def test_leaving_in_the_middle_of_a_batch_harms_nobody(engine: Engine, make: Make) -> None:
    async def work() -> list[str]:
        gatherer = make()
        leaving = asyncio.create_task(asked(gatherer, ["a"]))
        await begun(engine)
        leaving.cancel()
        await asyncio.wait([leaving])
        engine.gate.set()
        return await asked(gatherer, ["b"])

    assert run(work()) == ["B"]


def test_a_deadline_is_kept(engine: Engine, make: Make) -> None:
    async def work() -> None:
        gatherer = make(deadline=0.05)
        with pytest.raises(Refusal) as refused:
            await asked(gatherer, ["a"])
        assert refused.value.status == 503
        with pytest.raises(Refusal):
            await asked(gatherer, ["b"])
        assert gatherer.waiting == 0

    run(work())
    engine.gate.set()


def test_one_requests_misfortune_is_not_its_neighbours(engine: Engine, make: Make) -> None:
    async def work() -> None:
        gatherer = make()
        tasks = [asyncio.create_task(asked(gatherer, ["a"]))]
        await begun(engine)
        tasks += [asyncio.create_task(asked(gatherer, [t])) for t in ("b", "poison", "c")]
        await asyncio.sleep(0)
        engine.gate.set()
        await asyncio.wait(tasks)
        assert [tasks[i].result() for i in (0, 1, 3)] == [["A"], ["B"], ["C"]]
        with pytest.raises(ValueError, match="poison"):
            tasks[2].result()
        assert await asked(gatherer, ["d"]) == ["D"]

    run(work())


def test_the_thread_outlives_whatever_is_raised(engine: Engine, make: Make) -> None:
    engine.gate.set()

    async def work() -> list[str]:
        gatherer = make()
        with pytest.raises(RuntimeError, match="Panic"):
            await asked(gatherer, ["panic"])
        return await asked(gatherer, ["a"])

    assert run(work()) == ["A"]


def test_closing_tells_those_who_wait(engine: Engine, make: Make) -> None:
    async def work() -> None:
        gatherer = make()
        first = asyncio.create_task(asked(gatherer, ["a"]))
        await begun(engine)
        second = asyncio.create_task(asked(gatherer, ["b"]))
        await asyncio.sleep(0)
        gatherer.close()
        with pytest.raises(Refusal, match="shutting down"):
            await second
        with pytest.raises(Refusal, match="shutting down"):
            await asked(gatherer, ["c"])
        engine.gate.set()
        assert await first == ["A"]  # it was at work already

    run(work())


def test_no_texts_are_no_work(engine: Engine, make: Make) -> None:
    assert run(asked(make(), [])) == []
    assert engine.batches == []


def test_several_threads_lose_nothing(engine: Engine, make: Make) -> None:
    engine.gate.set()

    async def work() -> list[list[str]]:
        gatherer = make(threads=3, queue=10_000, queue_chars=10**6)
        tasks = [asked(gatherer, [f"{i}-{j} {'x' * 60}" for j in range(20)]) for i in range(30)]
        return list(await asyncio.gather(*tasks))

    for i, found in enumerate(run(work())):
        assert found == [f"{i}-{j} {'X' * 60}" for j in range(20)]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a thread has no priority of its own")
def test_those_who_compute_give_way_to_the_one_who_answers(make: Make) -> None:
    (thread,) = make()._threads
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    until(lambda: os.getpriority(os.PRIO_PROCESS, thread.native_id or 0) == min(19, own + NICE))
