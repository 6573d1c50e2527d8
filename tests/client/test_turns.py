"""Connections: calls wait for one in order, and `retry_for` begins with a call's turn."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from postdate import AsyncPostdate, Postdate
from tests.client.both import KEY, Clock
from tests.client.line import CREDITS, Fault, Line, answer
from tests.support.servers import until, until_async

UNAVAILABLE = answer(503, {"error": "No", "reason": "store_unavailable"})
RETRY_FOR_S = 10.0


class Waited(Clock):
    """`answered` is the answer to the first of two calls, a minute after the second was made."""

    asked = 0

    def __call__(self) -> float:
        self.asked += 1
        return super().__call__()

    def answered(self) -> bytes:
        # A call asks the time twice before it waits for its turn, and once when it has it.
        until(lambda: self.asked >= 5, "both calls")
        self.now_s += 60
        return CREDITS


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> Waited:
    clock = Waited()
    monkeypatch.setattr("postdate.patience.monotonic", clock)
    return clock


@pytest.mark.parametrize("own", [True, False])
def test_who_waited_longer_than_that_is_repeated_all_the_same(
    waited: Waited, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    monkeypatch.setattr("postdate.modes._CONNECTIONS", 1)
    with (
        Line(waited.answered, UNAVAILABLE, CREDITS) as line,
        httpx.Client(limits=httpx.Limits(max_connections=1), timeout=None) as http,
        ThreadPoolExecutor(2) as threads,
        Postdate(line.url, KEY, http=None if own else http, retry_for=RETRY_FOR_S) as client,
    ):
        client._sleep = waited.sleep  # type: ignore[method-assign]
        assert list(threads.map(lambda _: client.credits(), range(2))) == [7, 7]
    assert line.connections == 1


async def test_so_it_is_with_asyncio(waited: Waited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postdate.transport._CONNECTIONS", 1)
    with Line(waited.answered, UNAVAILABLE, CREDITS) as line:
        async with AsyncPostdate(line.url, KEY, retry_for=RETRY_FOR_S) as client:
            client._sleep = waited.sleep  # type: ignore[method-assign]
            assert await asyncio.gather(client.credits(), client.credits()) == [7, 7]


async def test_many_calls_at_once_share_the_connections_and_wait_without_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("postdate.transport._CONNECTIONS", 2)
    with Line(CREDITS, delay_s=0.35) as line:
        async with AsyncPostdate(line.url, KEY, timeout=4, retry_for=0) as client:
            found = await asyncio.gather(*(client.credits() for _ in range(24)))
    assert found == [7] * 24
    assert line.connections == 2


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
