"""Many creates sent together: each caller gets its own, whatever happens to the others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from postdate import (
    AsyncPostdate,
    Buffer,
    Created,
    InsufficientCredits,
    InvalidRequest,
    PostdateError,
    Unauthorized,
)
from tests.client.both import BASE_URL, CREATED, KEY, MORNING, MORNING_TEXT
from tests.support.servers import until_async

Rule = Callable[[list[Any]], httpx.Response | None]


class Batches:
    """A service that names each schedule after its URL. `rules` may answer otherwise, each once;
    while the gate is shut, nothing is answered."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.rules: list[Rule | Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.at_once = 0
        self.most_at_once = 0

    async def handle(self, request: httpx.Request) -> httpx.Response:
        assert (request.method, request.url.path) == ("POST", "/schedule/batch")
        self.requests.append(request)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.gate.wait()
        finally:
            self.at_once -= 1
        items = json.loads(request.content)["schedules"]
        rule = self.rules.pop(0) if self.rules else None
        if isinstance(rule, Exception):
            raise rule
        told = rule(items) if rule else None
        return told or httpx.Response(200, json={"schedules": [_answered(each) for each in items]})

    @property
    def sent(self) -> list[list[str]]:
        """The names in each request."""
        bodies = [json.loads(each.content)["schedules"] for each in self.requests]
        return [[_name(item) for item in body] for body in bodies]

    @property
    def keys(self) -> list[str]:
        return [each.headers["idempotency-key"] for each in self.requests]


def _name(item: Any) -> str:
    return str(item["targetUrl"]).rpartition("/")[2]


def _answered(item: Any) -> dict[str, Any]:
    name = _name(item)
    if name.startswith("bad"):
        details = [{"field": "targetUrl", "message": f"{name} is bad."}]
        return {"code": 400, "error": "Invalid request", "details": details}
    if name.startswith("poor"):
        return {"code": 402, "error": "Insufficient credits", "details": []}
    return {"scheduleId": f"sch_{name}", "invocationId": f"inv_{name}", "triggerAt": MORNING_TEXT}


def refusing(status: int, sentence: str = "No") -> Rule:
    return lambda _: httpx.Response(status, json={"error": sentence})


@pytest.fixture
def service() -> Batches:
    return Batches()


@pytest.fixture
async def client(service: Batches) -> AsyncIterator[AsyncPostdate]:
    transport = httpx.MockTransport(service.handle)
    async with httpx.AsyncClient(transport=transport) as http:
        yield AsyncPostdate(BASE_URL, KEY, http=http, retry_for=1.0)


def create(buffer: Buffer, name: object, **more: Any) -> Awaitable[Created]:
    return asyncio.create_task(buffer.schedule(f"https://example.com/{name}", in_=60, **more))


def ids(*names: object) -> list[str]:
    return [f"sch_{name}" for name in names]


async def created(*creating: Awaitable[Created]) -> list[str]:
    return [each.schedule_id for each in await asyncio.gather(*creating)]


async def test_what_comes_together_goes_together_and_each_caller_gets_its_own_error(
    client: AsyncPostdate, service: Batches
) -> None:
    names = ["a", "bad1", "b", "bad2", "poor"]
    async with Buffer(client) as buffer:
        creating = [create(buffer, name) for name in names]
        a, bad1, b, bad2, poor = await asyncio.gather(*creating, return_exceptions=True)
    assert (a, b) == (Created("sch_a", "inv_a", MORNING), Created("sch_b", "inv_b", MORNING))
    assert isinstance(bad1, InvalidRequest)
    assert isinstance(bad2, InvalidRequest)
    assert [bad1.details[0].message, bad2.details[0].message] == ["bad1 is bad.", "bad2 is bad."]
    assert isinstance(poor, InsufficientCredits)
    assert service.sent == [names]


async def test_a_full_batch_does_not_linger(client: AsyncPostdate, service: Batches) -> None:
    async with Buffer(client, linger=60, batch_size=10) as buffer:
        creating = [create(buffer, n) for n in range(25)]
        assert await created(*creating[:20]) == ids(*range(20))
        assert [len(batch) for batch in service.sent] == [10, 10]
    assert await created(*creating[20:]) == ids(*range(20, 25))


async def test_batches_are_bounded_in_bytes(
    client: AsyncPostdate, service: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postdate.buffer._BATCH_BYTES", 3000)
    async with Buffer(client) as buffer:
        creating = [create(buffer, n, json={"x": "x" * 900}) for n in range(20)]
        assert await created(*creating) == ids(*range(20))
    assert {len(batch) for batch in service.sent} == {2}
    assert max(len(each.content) for each in service.requests) <= 3032


async def test_so_many_are_in_flight_and_the_others_go_together_later(
    client: AsyncPostdate, service: Batches
) -> None:
    service.gate.clear()
    async with Buffer(client, linger=0, batch_size=2, in_flight=3) as buffer:
        creating = [create(buffer, n) for n in range(20)]
        await until_async(lambda: service.at_once == 3)
        service.gate.set()
        assert await created(*creating) == ids(*range(20))
    assert service.most_at_once == 3


async def test_whoever_finds_no_room_waits_to_be_let_in(
    client: AsyncPostdate, service: Batches
) -> None:
    service.gate.clear()
    async with Buffer(client, batch_size=5, in_flight=1, waiting=5) as buffer:
        creating = [create(buffer, n) for n in range(100)]
        await until_async(lambda: service.at_once == 1)
        await until_async(lambda: len(buffer._batchers.get()._waiting) == 5)
        assert service.sent == [["0", "1", "2", "3", "4"]]
        service.gate.set()
        assert await created(*creating) == ids(*range(100))
    assert [name for batch in service.sent for name in batch] == [str(n) for n in range(100)]


async def test_who_gives_up_waiting_leaves_its_room(
    client: AsyncPostdate, service: Batches
) -> None:
    service.gate.clear()
    async with Buffer(client, batch_size=1, in_flight=1, waiting=2) as buffer:
        creating = [create(buffer, n) for n in range(6)]
        await until_async(lambda: len(buffer._batchers.get()._waiting) == 2)
        for each in creating[1:4]:  # two that wait, and the one at the door
            each.cancel()  # type: ignore[attr-defined]
        await asyncio.gather(*creating[1:4], return_exceptions=True)
        service.gate.set()
        assert await created(creating[0], *creating[4:]) == ids(0, 4, 5)
    assert service.sent == [["0"], ["4"], ["5"]]


async def test_who_is_cancelled_on_the_way_hurts_nobody(
    client: AsyncPostdate, service: Batches
) -> None:
    service.gate.clear()
    async with Buffer(client) as buffer:
        creating = [create(buffer, n) for n in range(10)]
        await until_async(lambda: service.at_once == 1)
        creating[3].cancel()  # type: ignore[attr-defined]
        service.gate.set()
        assert await created(*creating[:3], *creating[4:]) == ids(0, 1, 2, *range(4, 10))


@pytest.mark.parametrize("fault", [refusing(503), httpx.ReadError("cut")], ids=["503", "cut"])
async def test_a_batch_is_repeated_as_the_very_same_request(
    client: AsyncPostdate, service: Batches, fault: Rule | Exception
) -> None:
    service.rules = [fault, fault]
    async with Buffer(client) as buffer:
        assert await created(create(buffer, "a"), create(buffer, "b")) == ids("a", "b")
        assert await created(create(buffer, "c")) == ids("c")
    assert service.sent == [["a", "b"]] * 3 + [["c"]]
    assert len(set(service.keys[:3])) == 1
    assert len(set(service.keys)) == 2
    assert len({each.content for each in service.requests[:3]}) == 1


async def test_what_meets_a_whole_batch_meets_each_caller(
    client: AsyncPostdate, service: Batches
) -> None:
    service.rules = [refusing(401, "Invalid or inactive API key")]
    async with Buffer(client) as buffer:
        creating = [create(buffer, n) for n in range(3)]
        errors = await asyncio.gather(*creating, return_exceptions=True)
    assert [type(each) for each in errors] == [Unauthorized] * 3
    assert {str(each) for each in errors} == {"Invalid or inactive API key"}
    assert len({id(each) for each in errors}) == 3


async def test_what_is_too_large_for_something_on_the_way_goes_in_halves(
    client: AsyncPostdate, service: Batches
) -> None:
    def too_large(items: list[Any]) -> httpx.Response | None:
        return refusing(413)(items) if len(items) > 3 else None

    service.rules = [too_large] * 100
    async with Buffer(client) as buffer:
        assert await created(*(create(buffer, n) for n in range(8))) == ids(*range(8))
    assert [len(batch) for batch in service.sent] == [8, 4, 2, 2, 4, 2, 2]
    assert len(set(service.keys)) == 7


@pytest.mark.parametrize("refusal", [400, 413])
async def test_a_batch_that_may_be_stored_is_never_sent_under_another_key(
    client: AsyncPostdate, service: Batches, refusal: int
) -> None:
    service.rules = [httpx.ReadError("cut"), refusing(refusal)]
    async with Buffer(client) as buffer:
        creating = [create(buffer, n) for n in range(4)]
        results = await asyncio.gather(*creating, return_exceptions=True)
    assert [type(each) for each in results] == [InvalidRequest] * 4
    assert all(each.maybe_done for each in results if isinstance(each, InvalidRequest))
    assert len(set(service.keys)) == 1


async def test_one_that_spoils_its_batch_spoils_none_of_the_others(
    client: AsyncPostdate, service: Batches
) -> None:
    def malformed(items: list[Any]) -> httpx.Response | None:
        spoiled = any(_name(item) == "spoiler" for item in items)
        return refusing(400, "Malformed")(items) if spoiled else None

    service.rules = [malformed] * 100
    async with Buffer(client) as buffer:
        creating = [create(buffer, name) for name in ("a", "b", "c", "spoiler", "d")]
        *others, spoiler, last = await asyncio.gather(*creating, return_exceptions=True)
    assert isinstance(spoiler, InvalidRequest)
    assert [each.schedule_id for each in (*others, last) if isinstance(each, Created)] == ids(
        "a", "b", "c", "d"
    )


async def test_an_answer_for_others_is_no_answer(client: AsyncPostdate, service: Batches) -> None:
    service.rules = [lambda _: httpx.Response(200, json={"schedules": [CREATED]})]
    async with Buffer(client) as buffer:
        creating = [create(buffer, "a"), create(buffer, "b")]
        results = await asyncio.gather(*creating, return_exceptions=True)
    assert [type(each) for each in results] == [PostdateError] * 2
    assert "not come from Postdate: it is for 1 schedules" in str(results[0])
    assert results[0].maybe_done  # type: ignore[union-attr]


async def test_at_the_end_all_is_sent_and_answered(client: AsyncPostdate, service: Batches) -> None:
    async with Buffer(client, linger=60, batch_size=3, in_flight=1, waiting=3) as buffer:
        creating = [create(buffer, n) for n in range(10)]
        await asyncio.sleep(0)
    assert [each.done() for each in creating] == [True] * 10  # type: ignore[attr-defined]
    assert await created(*creating) == ids(*range(10))
    with pytest.raises(RuntimeError, match="has been closed"):
        await create(buffer, "late")


async def test_a_close_waits_for_what_is_under_way_though_nobody_waits_for_it(
    client: AsyncPostdate, service: Batches
) -> None:
    service.gate.clear()
    buffer = Buffer(client, batch_size=1)
    creating = create(buffer, "0")
    await until_async(lambda: service.at_once == 1)
    creating.cancel()  # type: ignore[attr-defined]
    closing = asyncio.ensure_future(buffer.aclose())
    await asyncio.wait([closing], timeout=0.05)
    assert not closing.done()
    service.gate.set()
    await closing
    assert service.sent == [["0"]]


async def test_a_close_that_is_cut_short_leaves_nobody_waiting(
    client: AsyncPostdate, service: Batches
) -> None:
    service.gate.clear()
    buffer = Buffer(client, batch_size=1, in_flight=1, waiting=1)
    creating = [create(buffer, n) for n in range(3)]
    await until_async(lambda: service.at_once == 1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(buffer.aclose(), 0.05)
    results = await asyncio.gather(*creating, return_exceptions=True)
    assert [str(each) for each in results] == ["The buffer was closed before an answer came."] * 3
    maybe_done = [each.maybe_done for each in results if isinstance(each, PostdateError)]
    assert maybe_done == [True, False, False]
    assert service.sent == [["0"]]
