"""Work beside translating: in one thread, a turn at a time."""

import asyncio
import time
from collections.abc import Generator
from contextlib import suppress

import pytest

from regard.errors import UserError
from regard.serve.pool import TURN, Pool
from regard.serve.refusal import Refusal


def test_work_in_steps_lets_others_in_and_ends_when_nobody_waits() -> None:
    made: list[None] = []

    def steps() -> Generator[None, None, str]:
        for _ in range(10_000):
            made.append(time.sleep(TURN / 10))
            yield
        return "end"

    async def go() -> None:
        pool = Pool("test", deadline=20, most=4)
        long = asyncio.ensure_future(pool.through(steps()))
        await asyncio.sleep(TURN / 2)
        assert await pool.run(lambda: "in between") == "in between"
        assert not long.done()
        long.cancel()
        with suppress(asyncio.CancelledError):
            await long
        await asyncio.sleep(2 * TURN)  # what was begun of its turn is ended
        before = len(made)
        await asyncio.sleep(3 * TURN)
        assert len(made) == before > 0
        pool.close()
        pool.join()

    asyncio.run(go())


def test_work_in_steps_has_a_result_or_says_what_is_wrong() -> None:
    def right() -> Generator[None, None, int]:
        yield
        yield
        return 7

    def wrong() -> Generator[None, None, int]:
        yield
        raise UserError("not so")

    async def go() -> None:
        pool = Pool("test", deadline=20, most=4)
        assert await pool.through(right()) == 7
        with pytest.raises(Refusal, match="not so"):
            await pool.through(wrong())
        pool.close()
        pool.join()

    asyncio.run(go())
