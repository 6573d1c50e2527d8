"""A call that waits for a connection: `retry_for` begins with its turn."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from postdate import AsyncPostdate, Postdate, PostdateError
from tests.client.both import KEY, Clock
from tests.client.line import Line, answer
from tests.servers import until

CREDITS = answer(200, {"creditsRemaining": 7})
UNAVAILABLE = answer(503, {"error": "The service is temporarily unavailable"})
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
    monkeypatch.setattr("postdate.calls.monotonic", clock)
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


def test_who_never_has_a_turn_gives_up(waited: Waited) -> None:
    """As an httpx client of the caller's may say, by its timeout for a connection."""

    def no_connection(_: httpx.Request) -> httpx.Response:
        waited.now_s += 1
        raise httpx.PoolTimeout("")

    http = httpx.Client(transport=httpx.MockTransport(no_connection))
    client = Postdate("http://postdate.example", KEY, http=http, retry_for=RETRY_FOR_S)
    client._sleep = waited.sleep  # type: ignore[method-assign]
    with http, pytest.raises(PostdateError, match="cannot be reached"):
        client.credits()
