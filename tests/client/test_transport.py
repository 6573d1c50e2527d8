"""What the asynchronous client's own connections promise."""

from __future__ import annotations

import asyncio

import pytest

from postdate import AsyncPostdate, ConnectionFailed, NewSchedule
from tests.client.both import KEY
from tests.client.line import Fault, Line, answer
from tests.servers import until_async

CREDITS = answer(200, {"creditsRemaining": 7})


async def test_many_calls_at_once_share_the_connections_and_wait_without_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("postdate.transport._CONNECTIONS", 10)
    with Line(CREDITS, delay_s=0.4) as line:
        async with AsyncPostdate(line.url, KEY, timeout=2, retry_for=0) as client:
            found = await asyncio.gather(*(client.credits() for _ in range(60)))
    assert found == [7] * 60
    assert line.connections == 10


async def test_a_cancelled_call_leaves_its_turn_to_the_next() -> None:
    with Line(Fault.SILENT) as line:
        async with AsyncPostdate(line.url, KEY, timeout=30) as client:
            calls = [asyncio.create_task(client.credits()) for _ in range(250)]
            await until_async(lambda: len(line.requests) == 100, "as many as there are turns")
            for call in calls[:100]:
                call.cancel()
            await until_async(lambda: len(line.requests) == 200, "those who had their turns")
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


async def test_a_server_that_stops_reading_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postdate.transport._SLOWEST_BYTES_PER_S", 10**9)

    async def stop(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await ended.wait()
        writer.transport.abort()

    ended = asyncio.Event()
    server = await asyncio.start_server(stop, "127.0.0.1", 0, limit=1)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    large = [NewSchedule("https://example.com", in_=5, json={"x": "x" * 1_000_000})] * 16
    async with AsyncPostdate(url, KEY, timeout=0.2, retry_for=0) as client:
        with pytest.raises(ConnectionFailed, match="did not answer: timeout") as caught:
            await client.schedule_batch(large)
    assert caught.value.maybe_done
    ended.set()
    server.close()
    await server.wait_closed()


def test_a_client_outlives_an_event_loop() -> None:
    async def credits() -> int:
        return await client.credits()

    ending = answer(200, {"creditsRemaining": 7}, "Connection: close\r\n")
    with Line(ending) as line:
        client = AsyncPostdate(line.url, KEY)
        assert asyncio.run(credits()) == 7
        assert asyncio.run(credits()) == 7
        asyncio.run(client.aclose())


def test_event_loops_share_a_client_and_no_connections() -> None:
    with Line(CREDITS) as line, asyncio.Runner() as first, asyncio.Runner() as second:
        client = AsyncPostdate(line.url, KEY)
        assert [each.run(client.credits()) for each in (first, second, first)] == [7] * 3
        assert line.carried_by[1] not in (line.carried_by[0], line.carried_by[2])
        for each in (first, second):
            each.run(client.aclose())
    assert len(line.requests) == 3
