"""Where schedules with a lane stand, and which of them a claim may start."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.models import Request, Upsert
from scheduler.store import keys
from scheduler.store.verdict import Verdict
from tests.store.lanes.lanes import Lane
from tests.store.scene import FAILED, LEASE_MS, URL, Scene


async def stands(scene: Scene, lane: str = "a") -> dict[str, Any]:
    """The sets that a lane's schedules stand in: how many; and when claims look at it."""
    redis, base = scene.redis, scene.base
    sets = ("waiting", "laned", "held", "lanes")
    found = {name: await redis.zcard(base + name) for name in sets}
    found["lane_waiting"] = await redis.zcount(base + keys.LANE_QUEUE + lane, 0, "inf")
    found["running"] = await redis.zcount(base + keys.LANE_QUEUE + lane, "-inf", "(0")
    return {name: count for name, count in found.items() if count}


async def look_now(scene: Scene) -> None:
    """The turn of all that waits for one has come."""
    shard = keys.shard(scene.shard)
    for name in await scene.redis.zrange(scene.base + keys.LANE_HEADS, 0, -1):
        await scene.redis.zadd(scene.base + keys.LANE_HEADS, {name: 1})
    for name in await scene.redis.zrange(shard + keys.HEADS, 0, -1):
        await scene.redis.zadd(shard + keys.HEADS, {name: 1})


async def test_a_schedule_with_a_lane_goes_its_way(scene: Scene) -> None:
    made = await scene.create(lane="a")
    assert await stands(scene) == {"laned": 1, "lane_waiting": 1, "lanes": 1}
    invocation = await scene.claim_one()
    assert (invocation.schedule_id, invocation.lane) == (made, "a")
    assert (invocation.slot_us, invocation.slack_us, invocation.bounded) == (None, 0, False)
    assert await stands(scene) == {"laned": 1, "held": 1, "running": 1, "lanes": 1}
    assert await scene.claim() == []


async def test_each_end_leaves_nothing_behind(scene: Scene) -> None:
    """Acks, retries, releases, extensions, cancellations and stops, of several lanes at once."""
    first, second, third = [await scene.create(lane=name) for name in ("b", "a", "b")]
    plain = await scene.create()
    held = {each.schedule_id: each for each in await scene.claim()}
    assert {each.lane for each in held.values()} == {"a", "b", None}
    assert await scene.extend(LEASE_MS, list(held.values())) == []
    assert (await stands(scene, "b"))["running"] == 2
    assert await scene.ack([held[first], held[plain]]) == [Verdict.DONE] * 2
    assert await scene.retry([held[second], held[third]], 60_000) == [Verdict.DONE] * 2
    assert await scene.ack([held[second]]) == [Verdict.HELD]
    assert await stands(scene, "b") == {"laned": 2, "lane_waiting": 1, "lanes": 2}
    later = await scene.create(60_000, lane="c")
    done = await scene.cancel_all([later, second, third])
    assert [each.refusal for each in done.each] == [None] * 3
    assert await stands(scene, "b") == {}
    released = await scene.held(lane="a")
    await scene.release([released])
    again = await scene.claim_one()
    assert (again.attempt, again.lane) == (1, "a")
    assert await scene.ack([again], FAILED) == [Verdict.DONE]
    await look_now(scene)
    assert await scene.claim() == []
    assert await stands(scene) == {}
    assert await scene.redis.zrange(keys.shard(scene.shard) + keys.HEADS, 0, -1) == []


async def test_a_lane_that_its_last_schedule_leaves_is_none_of_the_account(scene: Scene) -> None:
    """At once: it was to be looked at in an hour, and others may need its room until then."""
    hour_ms = 3_600_000
    ended = [await scene.create(lane="a"), await scene.create(lane="b")]
    one = Request(await scene.clock.now_ms() + hour_ms, "POST", URL, reference="r", lane="e")
    await scene.store.schedules.create_all(scene.account_id, [one])
    assert await scene.ack(await scene.claim()) == [Verdict.DONE] * len(ended)
    await scene.cancel(await scene.create(hour_ms, lane="c"))
    await scene.change(await scene.create(hour_ms, lane="d"), lane="z")
    moved = Upsert(replace(one, lane=None), keep=False)
    await scene.store.schedules.create_all(scene.account_id, [moved])
    for key in (keys.LANES, keys.LANE_HEADS):
        assert await scene.redis.zrange(scene.base + key, 0, -1) == [b"z"]


async def test_a_change_moves_a_schedule_from_a_lane_to_another_or_to_none(scene: Scene) -> None:
    made = await scene.create(60_000)
    for lane in ("a", "b", None, "b"):
        await scene.change(made, lane=lane)
        places = {name: await stands(scene, name) for name in ("a", "b")}
        for name, found in places.items():
            assert found.get("lane_waiting", 0) == (name == lane)
        assert places["a"].get("laned", 0) == (lane is not None)
        assert places["a"].get("waiting", 0) == (lane is None)
        assert await scene.claim() == [], "it is due as before"
    await scene.change(made, trigger_at_ms=1)
    assert (await scene.claim_one()).lane == "b"


async def test_a_replacement_in_another_lane_leaves_the_turn_of_the_first(scene: Scene) -> None:
    one = Request(await scene.clock.now_ms() + 60_000, "POST", URL, reference="r", lane="a")
    await scene.store.schedules.create_all(scene.account_id, [one])
    due = await scene.create(lane="a")
    moved = Upsert(replace(one, lane="b"), keep=False)
    await scene.store.schedules.create_all(scene.account_id, [moved])
    assert (await stands(scene, "a"))["lane_waiting"] == 1
    assert (await stands(scene, "b"))["lane_waiting"] == 1
    assert (await scene.claim_one()).schedule_id == due


async def test_a_quarter_of_the_slack_is_left_for_the_way_and_a_passed_slot_counts_from_the_claim(
    scene: Scene,
) -> None:
    await scene.limit(rate=100, per_ms=1000)
    for _ in range(2):
        await scene.create(lane="a")
    past, coming = await scene.claim(ahead_ms=50)
    claimed_us = int(past.token) - LEASE_MS * 1000
    assert past.slot_us < claimed_us
    assert 0 <= claimed_us - (past.slot_us + past.slack_us - 15_000) <= 1
    assert coming.slot_us > claimed_us
    assert coming.slack_us == 15_000


HOURLY = {"interval": 180e6, "burst": 1}


@pytest.mark.parametrize(
    ("lane", "due", "stuck"),
    [
        (Lane((), head_s=9), 0, 0),
        (Lane((-9, -8, 5, 70), head_s=0), 2, 0),  # without limits all start
        (Lane((-9, -8, 5, 70), head_s=-math.inf), 2, 3),
        (Lane((5, 70), head_s=-math.inf), 0, 1),
        (Lane((-9, -8, 5), head_s=70), 2, 3),
        (Lane((-9, -8, 5), head_s=30, settings=HOURLY), 2, 2),
        (Lane((-9, -8, 5), head_s=-1, settings=HOURLY | {"burst": 2}), 2, 1),
        (Lane((-9, -8, 5), head_s=-1, settings={"interval": 1e6}), 2, 0),
        (Lane((-0.2,), head_s=30, settings=HOURLY), 0, 0),  # due just now
        (Lane((-9,), ends_s=(20,), head_s=20), 1, 0),  # one runs
        (Lane((), ends_s=(-5,), head_s=70), 1, 1),  # its worker is lost
    ],
    ids=[
        *("idle", "free", "paused", "paused, none due", "closed", "hourly", "burst", "fast"),
        *("just due", "running", "lost"),
    ],
)
async def test_a_backlog_is_what_is_due_and_does_not_start(
    fake_scene: Scene, lane: Lane, due: int, stuck: int
) -> None:
    """`stuck` are those of the next minute that cannot start in it."""
    await lane.make(fake_scene, "a")
    await fake_scene.spoil(fake_scene.base + keys.LANE_QUEUE + "damaged")
    await fake_scene.redis.zadd(fake_scene.base + keys.LANE_HEADS, {"damaged": 1})
    found = await fake_scene.store.lanes.backlogs(fake_scene.account_id)
    assert (found.looked_at, found.total) == (2, 2)
    assert [(each.lane, each.due) for each in found.lanes] == ([("a", due)] if due else [])
    assert found.stuck == stuck


async def test_of_many_lanes_a_look_reads_two_hundred(fake_scene: Scene) -> None:
    """The paused ones first; of those found the longest backlog first. Others cannot start sooner
    than these, so what is due soon in them is stuck."""
    heads = {f"lane-{n:04}": 2e12 + n for n in range(1500)}
    await fake_scene.redis.zadd(fake_scene.base + keys.LANE_HEADS, heads)
    for name, due_s in (("late", -20.0), ("later", -40.0)):
        await Lane((due_s,), head_s=-math.inf).make(fake_scene, name)
    found = await fake_scene.store.lanes.backlogs(fake_scene.account_id)
    assert (found.looked_at, found.total) == (200, 1502)
    assert [each.lane for each in found.lanes] == ["later", "late"]
    assert found.stuck == 2
    now_ms = await fake_scene.clock.now_ms()
    soon = {str(n): now_ms + 5000 for n in range(10)}
    await fake_scene.redis.zadd(fake_scene.base + keys.LANED, soon | {"later": now_ms + 70_000})
    assert (await fake_scene.store.lanes.backlogs(fake_scene.account_id)).stuck == 10
