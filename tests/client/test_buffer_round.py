"""A buffer against a real Postdate."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest

from postdate import AsyncPostdate, Buffer, Created, InsufficientCredits, InvalidRequest
from tests.servers import PostdateProcess, Receiver, postdate_json

DUE = datetime(2027, 5, 1, tzinfo=UTC)


async def test_thousands_at_once_cost_one_credit_each(postdate_up: PostdateProcess) -> None:
    async with AsyncPostdate(postdate_up.base_url, postdate_up.api_key) as client:
        credits = await client.credits()
        async with Buffer(client) as buffer:
            urls = [f"https://example.com/{n}" for n in range(2_500)]
            urls[7] = urls[1234] = "ftp://example.com"
            creating = (buffer.schedule(url, at=DUE, json={"url": url}) for url in urls)
            results = await asyncio.gather(*creating, return_exceptions=True)
        refused = [n for n, each in enumerate(results) if isinstance(each, InvalidRequest)]
        assert refused == [7, 1234]
        assert await client.credits() == credits - 2_498
        for n in (0, 1000, 2499):
            created = results[n]
            assert isinstance(created, Created)
            assert (await client.get(created.schedule_id)).target_body == {"url": urls[n]}


async def test_what_was_buffered_is_fired(postdate_up: PostdateProcess, receiver: Receiver) -> None:
    async with (
        AsyncPostdate(postdate_up.base_url, postdate_up.api_key) as client,
        Buffer(client) as buffer,
    ):
        url = receiver.url + "/buffered"
        await asyncio.gather(*(buffer.schedule(url, in_=0.2, json={"n": n}) for n in range(20)))
    received = await asyncio.to_thread(receiver.wait_for, 20, "/buffered")
    assert {each.body for each in received} == {b'{"n": %d}' % n for n in range(20)}


async def test_credits_that_do_not_reach_are_told_to_those_whom_they_miss(
    postdate_up: PostdateProcess,
) -> None:
    where = {"data_dir": postdate_up.data_dir}
    postdate_json("account", "create", "poor", "--credits", "3", "--plan", "unlimited", **where)
    key = postdate_json("key", "create", "poor", "--name", "k", **where)["key"]
    async with AsyncPostdate(postdate_up.base_url, key) as client, Buffer(client) as buffer:
        creating = (buffer.schedule("https://example.com", at=DUE) for _ in range(5))
        results = await asyncio.gather(*creating, return_exceptions=True)
    assert [type(each) for each in results] == [Created] * 3 + [InsufficientCredits] * 2


class LosingAnswers(httpx.AsyncBaseTransport):
    """Passes each request on, and loses every second answer."""

    def __init__(self) -> None:
        self._real = httpx.AsyncHTTPTransport()
        self._count = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._real.handle_async_request(request)
        self._count += 1
        if self._count % 2:
            await answer.aread()
            raise httpx.ReadError("the connection was cut")
        return answer

    async def aclose(self) -> None:
        await self._real.aclose()


async def test_lost_answers_cost_no_second_credit(postdate_up: PostdateProcess) -> None:
    async with httpx.AsyncClient(transport=LosingAnswers()) as http:
        client = AsyncPostdate(postdate_up.base_url, postdate_up.api_key, http=http)
        credits = await client.credits()
        async with Buffer(client, batch_size=50, in_flight=1) as buffer:
            creating = (buffer.schedule("https://example.com", at=DUE) for _ in range(200))
            created = await asyncio.gather(*creating)
        assert len({each.schedule_id for each in created}) == 200
        assert await client.credits() == credits - 200


@pytest.fixture
def small(postdate_up: PostdateProcess) -> Iterator[PostdateProcess]:
    """Another API process over the same store, which takes no batch above 64 KiB."""
    url = postdate_up.redis_url
    with PostdateProcess("api", redis_url=url, max_batch_bytes=64 * 1024) as api:
        yield api


async def test_a_service_that_takes_less_gets_less(
    small: PostdateProcess, postdate_up: PostdateProcess
) -> None:
    async with AsyncPostdate(small.base_url, postdate_up.api_key) as client:
        async with Buffer(client) as buffer:
            body = {"x": "x" * 2_000}
            creating = (
                buffer.schedule("https://example.com", at=DUE, json=body) for _ in range(1_000)
            )
            created = await asyncio.gather(*creating)
        assert len({each.schedule_id for each in created}) == 1_000
