"""/v2/queues: the lanes of queues."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.lane_settings import LaneSettings
from tests.qstash.conftest import URL, Door
from tests.qstash.ends import ask, claim, delete, end, get, post, refused, said


async def upsert(door: Door, name: str = "q", **more: Any) -> None:
    assert await post(door, "queues", {"queueName": name, **more}) == {}


async def enqueue(door: Door) -> str:
    return str((await said(await door.send(f"enqueue/q/{URL}")))["messageId"])


def queue(name: str = "q", **more: Any) -> dict[str, Any]:
    empty = {"parallelism": 1, "createdAt": 0, "updatedAt": 0, "lag": 0, "paused": False}
    return {"name": name, **empty, **more}


async def test_a_queue_is_made_read_and_deleted(door: Door) -> None:
    await upsert(door, parallelism=2)
    assert await get(door, "queues/q") == queue(parallelism=2)
    assert await get(door, "queues") == [queue(parallelism=2)]
    assert await delete(door, "queues/q") == {}
    assert await get(door, "queues") == []
    refused(await ask(door, "GET queues/q"), 404)
    assert await delete(door, "queues/q") == {}, "as often as one likes"


async def test_an_upsert_replaces_parallelism_and_pause_and_nothing_else(door: Door) -> None:
    await upsert(door, parallelism=2, paused=True)
    assert await get(door, "queues/q") == queue(parallelism=2, paused=True)
    note = LaneSettings(parallelism=2, note="ours")
    await door.store.lanes.put(door.account_id, "queue:q", note)
    await upsert(door)
    assert await get(door, "queues/q") == queue()
    assert (await door.store.lanes.read(door.account_id, "queue:q")).settings.note == "ours"


async def test_a_queue_is_paused_and_resumed(door: Door) -> None:
    await upsert(door)
    assert await post(door, "queues/q/pause") == {}
    assert (await get(door, "queues/q"))["paused"] is True
    native = (await door.client.get("/lanes/queue:q")).json()
    assert (native["paused"], native["pausedBy"]) == (True, "test")
    await enqueue(door)
    assert await claim(door) == []
    assert await post(door, "queues/q/resume") == {}
    assert len(await claim(door)) == 1


async def test_one_that_nobody_made_can_be_paused(door: Door) -> None:
    await post(door, "queues/q/pause")
    assert await get(door, "queues/q") == queue(paused=True)
    assert await post(door, "queues/other/resume") == {}
    assert await get(door, "queues") == [queue(paused=True)]


async def test_messages_make_their_queue_and_go_in_their_order(door: Door) -> None:
    made = [await enqueue(door) for _ in range(3)]
    assert await get(door, "queues/q") == queue(lag=3)
    await upsert(door, parallelism=1)
    sent = [(await end(door))[0].schedule_id for _ in range(3)]
    assert sent == [each.replace("msg_", "sch_") for each in made]
    await asyncio.gather(*(enqueue(door) for _ in range(5)))
    assert await get(door, "queues/q") == queue(lag=5)


async def test_a_message_leaves_the_limits_of_its_queue_alone(door: Door) -> None:
    await upsert(door, parallelism=3)
    await enqueue(door)
    assert await get(door, "queues/q") == queue(parallelism=3, lag=1)
    assert "Upstash-Queue-Name" in refused(await door.send(f"enqueue/a%20b/{URL}"), 400)


async def test_a_deleted_queue_lets_go_what_waits(door: Door) -> None:
    for _ in range(3):
        await enqueue(door)
    await delete(door, "queues/q")
    assert await get(door, "queues") == []
    assert len(await claim(door)) == 3


async def test_the_list_has_queues_alone(door: Door) -> None:
    for name in ("b", "a"):
        await upsert(door, name)
    for lane in ("queue", "queues", "flow:k", "other"):
        await door.store.lanes.put(door.account_id, lane, LaneSettings(parallelism=1))
    assert await get(door, "queues") == [queue("a"), queue("b")]


async def test_a_long_list_is_read_in_pages(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("api.qstash.queues.MAX_LIMIT", 2)
    for number in range(5):
        await upsert(door, f"q{number}")
    assert [each["name"] for each in await get(door, "queues")] == [f"q{n}" for n in range(5)]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"queueName": "q", "parallelism": 0}, "parallelism"),
        ({"queueName": "q", "parallelism": 10_001}, "parallelism"),
        ({"queueName": "q", "parallelism": "2"}, "parallelism"),
        ({"queueName": "q", "paused": 1}, "paused"),
        ({"queueName": ""}, "queue"),
        ({"queueName": "a b"}, "queue"),
        ({"queueName": "x" * 59}, "queue"),
        ({"parallelism": 1}, "queueName"),
        ([], "object"),
    ],
)
async def test_a_bad_body_is_refused_and_makes_nothing(door: Door, body: Any, named: str) -> None:
    assert named in refused(await ask(door, "POST queues", body), 400)
    assert await get(door, "queues") == []
