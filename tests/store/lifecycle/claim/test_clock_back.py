"""The server's clock is set back by an hour: what it left in the future comes at its time again."""

from __future__ import annotations

import pytest

from scheduler.callbacks import Callback
from scheduler.store import keys
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from scheduler.store.queries.listing import Selection
from tests.store.clocks import FakeClock
from tests.store.scene import FAILED, LEASE_MS, Scene, ids_of

HOUR_MS = 3_600_000
WAIT_MS = 60_000
CALLBACK = Callback("https://example.com/ended")


@pytest.fixture
def scene(fake_scene: Scene) -> Scene:
    return fake_scene


async def mended(scene: Scene) -> int:
    return await scene.store.clock_back.mend(scene.shard, LEASE_MS)


async def test_what_a_dead_worker_held_is_taken_over(scene: Scene) -> None:
    held = [await scene.create() for _ in range(3)]
    assert len(await scene.claim()) == 3
    scene.clock.ms -= HOUR_MS
    assert await mended(scene) == 3
    page = await scene.store.unended.page(scene.account_id, Selection())
    assert [(each.schedule_id, each.executing) for each in page.schedules] == [
        (each, True) for each in sorted(held)
    ]
    again = await scene.claim()
    assert sorted(ids_of(again)) == sorted(held)
    assert {(each.attempt, each.taken_over) for each in again} == {(2, True)}
    assert {each.due_at_ms for each in again} == {scene.clock.ms}, "and not in an hour"
    assert await mended(scene) == 0, "a lease of now is one"
    assert await scene.ack(again) == [1] * 3
    assert await scene.store.check() == []


async def test_a_retry_waits_as_long_as_it_was_to(scene: Scene, fake_clock: FakeClock) -> None:
    schedule_id = await scene.create()
    await scene.retry([await scene.claim_one()], WAIT_MS)
    fake_clock.ms -= HOUR_MS
    assert await mended(scene) == 1
    retry = (await scene.get(schedule_id)).retry
    assert (retry.failed_at_ms, retry.due_at_ms) == (fake_clock.ms, fake_clock.ms + WAIT_MS)
    assert await scene.visible_at_ms(schedule_id) == fake_clock.ms + WAIT_MS
    fake_clock.ms += WAIT_MS // 2
    assert await mended(scene) == 0, "a repeat does not put it off"
    fake_clock.ms += WAIT_MS // 2
    assert (await scene.claim_one()).attempt == 2
    assert await scene.store.check() == []


async def test_in_a_lane_it_is_the_same(scene: Scene, fake_clock: FakeClock) -> None:
    lost = [await scene.create(lane="a") for _ in range(2)]
    retried = await scene.create(lane="a")
    held = await scene.claim()
    await scene.retry([each for each in held if each.schedule_id == retried], WAIT_MS)
    fake_clock.ms -= HOUR_MS
    await scene.store.claims.realign(scene.shard)
    assert await mended(scene) == 3
    assert await scene.store.check() == []
    again = await scene.claim()
    assert sorted(ids_of(again)) == sorted(lost)
    assert await scene.ack(again) == [1] * 2
    fake_clock.ms += WAIT_MS
    assert (await scene.claim_one()).schedule_id == retried
    assert await scene.store.check() == []


async def test_a_lane_starts_at_its_rate_by_the_clock_of_now(scene: Scene) -> None:
    """Its turn stood in the future, and what its rate allowed was used up until then."""
    for _ in range(3):
        await scene.create(-2 * HOUR_MS, lane="a")
    limits = {"set": 1, "rate": 1, "per": 60_000, "burst": 1, "interval": 60_000_000}
    await scene.redis.hset(scene.base + keys.LANE + "a", mapping=limits)
    assert len(await scene.claim()) == 1
    local, prefix = keys.parts(scene.account_id).local, keys.shard(scene.shard)
    await scene.redis.zadd(prefix + keys.RESUMED, {local: scene.clock.ms})
    scene.clock.ms -= HOUR_MS
    await scene.store.claims.realign(scene.shard)
    assert await scene.redis.zscore(prefix + keys.RESUMED, local) == scene.clock.ms
    assert await mended(scene) == 1
    assert await scene.store.check() == []
    scene.clock.ms += 2 * 60_000
    assert len(await scene.claim()) == 1


async def test_a_moment_that_a_customer_chose_stays(scene: Scene) -> None:
    """Of what waits for its first attempt, and of a retry that was moved."""
    waits = await scene.create(WAIT_MS)
    moved = await scene.create()
    await scene.retry([await scene.claim_one()], WAIT_MS)
    chosen_ms = scene.clock.ms + 5 * WAIT_MS
    await scene.change(moved, trigger_at_ms=chosen_ms)
    before = [await scene.visible_at_ms(each) for each in (waits, moved)]
    scene.clock.ms -= HOUR_MS
    assert await mended(scene) == 0
    assert [await scene.visible_at_ms(each) for each in (waits, moved)] == before


async def test_a_heartbeat_from_the_future_shows_it_and_is_no_heartbeat(scene: Scene) -> None:
    """A worker that starts after the step has seen no other time; one that died before it would
    keep its shards for an hour."""
    store = scene.store
    await store.workers.beat("dead", {})
    scene.clock.ms -= HOUR_MS
    store.clock.observe(scene.clock.us)
    before = store.clock.steps_back
    alive = await store.workers.beat("new", {})
    assert [each.process_id for each in alive] == ["new"]
    assert store.clock.steps_back == before + 1
    await store.workers.beat("new", {})
    assert store.clock.steps_back == before + 1


async def test_a_damaged_account_keeps_no_other_back(scene: Scene) -> None:
    [other] = await scene.neighbours(1)
    await scene.create()
    await scene.create(account_id=other)
    await scene.claim()
    await scene.spoil(scene.base + keys.HELD)
    scene.clock.ms -= HOUR_MS
    assert await mended(scene) == 1


async def test_a_limited_account_is_let_in_again(scene: Scene, fake_clock: FakeClock) -> None:
    api_keys = scene.store.api_keys
    _, key = await api_keys.create(scene.account_id, "mine")
    while (await api_keys.admit(key)).rate.wait_s == 0:
        pass
    fake_clock.ms -= HOUR_MS
    assert (await api_keys.admit(key)).rate.wait_s <= 1
    fake_clock.ms += 1000
    assert (await api_keys.admit(key)).rate.wait_s == 0


async def test_callbacks_wait_as_long_as_they_were_to(scene: Scene) -> None:
    """One that no worker has had, one that a lost one had, and one that failed before."""
    await scene.ended(3)
    failed, lost, fresh = [await scene.claim_one(most=1) for _ in range(3)]
    assert await scene.answer(failed, FAILED, WAIT_MS) == 1
    await scene.release([fresh])
    scene.clock.ms -= HOUR_MS
    await scene.store.claims.realign(scene.shard)
    assert await mended(scene) == 3
    state = (await scene.get(failed.schedule_id)).callback
    assert (state.attempted_at_ms, state.next_attempt_at_ms) == (
        scene.clock.ms,
        scene.clock.ms + WAIT_MS,
    )
    assert await scene.store.check() == []
    again = await scene.claim()
    again += await scene.claim()
    assert sorted(ids_of(again)) == sorted(ids_of([lost, fresh]))
    assert {each.due_at_ms for each in again} == {scene.clock.ms}, "and not in an hour"
    scene.clock.ms += WAIT_MS // 2
    assert await mended(scene) == 0, "a repeat does not put it off"
    assert [await scene.answer(each) for each in again] == [1, 1]
    scene.clock.ms += WAIT_MS // 2
    assert ids_of(await scene.claim()) == [failed.schedule_id]
    assert await scene.store.check() == []


async def test_failed_callbacks_keep_no_places_by_a_moment_of_before(scene: Scene) -> None:
    await scene.ended(60)
    calls = []
    while more := await scene.claim():
        calls += more
    acks = [CallbackAck(each, FAILED, scene.clock.ms) for each in calls]
    await scene.store.callbacks.ack(scene.shard, acks)
    assert await scene.claim() == []
    scene.clock.ms -= HOUR_MS
    await scene.store.claims.realign(scene.shard)
    assert await mended(scene) == 60
    assert await scene.claim() != []


async def test_a_callback_is_not_put_off_by_a_moment_of_before(scene: Scene) -> None:
    """Its state may name one that is long in coming, when its turn has come."""
    await scene.ended(1)
    scene.clock.ms -= HOUR_MS
    local = (await scene.redis.zrange(scene.base + keys.CALLBACKS, 0, -1))[0]
    await scene.redis.zadd(scene.base + keys.CALLBACKS, {local: scene.clock.ms})
    await scene.store.claims.realign(scene.shard)
    assert (await scene.claim_one()).due_at_ms == scene.clock.ms
