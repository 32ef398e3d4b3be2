"""Streams of events: a place for each, given back however it ends, and errors told in the stream."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.requests import ClientDisconnect

from regard.errors import UserError
from regard.serve.events import Event, Streams
from regard.serve.refusal import Refusal

SCOPE = {"type": "http", "asgi": {"spec_version": "2.4"}}


async def events(error: Exception | None = None, at: int = 2) -> AsyncIterator[Event]:
    for i in range(3):
        if error is not None and i == at:
            raise error
        yield "step", {"i": i}


async def receive() -> dict[str, Any]:
    await asyncio.sleep(60)
    return {"type": "http.disconnect"}


async def sent(streams: Streams, source: AsyncIterator[Event]) -> str:
    parts: list[bytes] = []

    async def send(message: Any) -> None:
        parts.append(message.get("body", b""))

    answer = await streams.answer("/here", source)
    await answer(SCOPE, receive, send)
    return b"".join(parts).decode()


def test_events_come_in_order_and_the_place_is_free_again() -> None:
    streams = Streams(1)
    text = asyncio.run(sent(streams, events()))
    assert text == "".join(f'event: step\ndata: {{"i": {i}}}\n\n' for i in range(3))
    assert streams.free == 1


def test_one_more_than_there_are_places_is_refused() -> None:
    async def both() -> None:
        streams = Streams(1)
        await streams.answer("/here", events())
        with pytest.raises(Refusal, match="busy"):
            await streams.answer("/here", events())

    asyncio.run(both())


def test_a_client_that_left_before_the_first_line_gives_its_place_back() -> None:
    streams = Streams(1)

    async def gone(message: Any) -> None:
        raise OSError("the client went away")

    async def work() -> None:
        answer = await streams.answer("/here", events())
        with pytest.raises(ClientDisconnect):
            await answer(SCOPE, receive, gone)

    asyncio.run(work())
    assert streams.free == 1


def test_what_is_wrong_at_once_has_a_status() -> None:
    streams = Streams(1)
    with pytest.raises(Refusal, match="not like this"):
        asyncio.run(sent(streams, events(Refusal(400, "not like this"), at=0)))
    assert streams.free == 1


@pytest.mark.parametrize(
    ("error", "told"),
    [(Refusal(400, "no more"), "no more"), (UserError("no room"), "no room"), (ValueError("secret"), "the log has it")],
)
def test_what_goes_wrong_half_way_is_told(error: Exception, told: str) -> None:
    text = asyncio.run(sent(Streams(1), events(error)))
    assert text.count("event: step") == 2
    assert "event: error" in text
    assert told in text
    assert "secret" not in text
