"""The server's clock is set back by an hour: what it left in the future comes at its time again."""

from __future__ import annotations

from scheduler.callbacks import Callback
from scheduler.store import keys
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from scheduler.store.queries.listing import Selection
from tests.store.clocks import FakeClock
from tests.store.scene import FAILED, LEASE_MS, Scene, ids_of

HOUR_MS = 3_600_000
WAIT_MS = 60_000
CALLBACK = Callback("https://example.com/ended")


async def mended(scene: Scene) -> int:
    return await scene.store.clock_back.mend(scene.shard, LEASE_MS)


async def test_what_a_dead_worker_held_is_taken_over(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    held = [await fake_scene.create() for _ in range(3)]
    assert len(await fake_scene.claim()) == 3
    fake_clock.ms -= HOUR_MS
    assert await mended(fake_scene) == 3
    page = await fake_scene.store.unended.page(fake_scene.account_id, Selection())
    assert [(each.schedule_id, each.executing) for each in page.schedules] == [
        (each, True) for each in sorted(held)
    ]
    again = await fake_scene.claim()
    assert sorted(ids_of(again)) == sorted(held)
    assert {(each.attempt, each.taken_over) for each in again} == {(2, True)}
    assert {each.due_at_ms for each in again} == {fake_clock.ms}, "and not in an hour"
    assert await mended(fake_scene) == 0, "a lease of now is one"
    assert await fake_scene.ack(again) == [1] * 3
    assert await fake_scene.store.check() == []


async def test_a_retry_waits_as_long_as_it_was_to(fake_scene: Scene, fake_clock: FakeClock) -> None:
    schedule_id = await fake_scene.create()
    await fake_scene.retry([await fake_scene.claim_one()], WAIT_MS)
    fake_clock.ms -= HOUR_MS
    assert await mended(fake_scene) == 1
    retry = (await fake_scene.get(schedule_id)).retry
    assert retry is not None
    assert (retry.failed_at_ms, retry.due_at_ms) == (fake_clock.ms, fake_clock.ms + WAIT_MS)
    assert await fake_scene.visible_at_ms(schedule_id) == fake_clock.ms + WAIT_MS
    fake_clock.ms += WAIT_MS // 2
    assert await mended(fake_scene) == 0, "a repeat does not put it off"
    fake_clock.ms += WAIT_MS // 2
    assert (await fake_scene.claim_one()).attempt == 2
    assert await fake_scene.store.check() == []


async def test_in_a_lane_it_is_the_same(fake_scene: Scene, fake_clock: FakeClock) -> None:
    lost = [await fake_scene.create(lane="a") for _ in range(2)]
    retried = await fake_scene.create(lane="a")
    held = await fake_scene.claim()
    await fake_scene.retry([each for each in held if each.schedule_id == retried], WAIT_MS)
    fake_clock.ms -= HOUR_MS
    await fake_scene.store.claims.realign(fake_scene.shard)
    assert await mended(fake_scene) == 3
    assert await fake_scene.store.check() == []
    again = await fake_scene.claim()
    assert sorted(ids_of(again)) == sorted(lost)
    assert await fake_scene.ack(again) == [1] * 2
    fake_clock.ms += WAIT_MS
    assert (await fake_scene.claim_one()).schedule_id == retried
    assert await fake_scene.store.check() == []


async def test_a_lane_starts_at_its_rate_by_the_clock_of_now(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    """Its turn stood in the future, and what its rate allowed was used up until then."""
    for _ in range(3):
        await fake_scene.create(-2 * HOUR_MS, lane="a")
    limits = {"set": 1, "rate": 1, "per": 60_000, "burst": 1, "interval": 60_000_000}
    await fake_scene.redis.hset(fake_scene.base + keys.LANE + "a", mapping=limits)
    assert len(await fake_scene.claim()) == 1
    local, prefix = keys.parts(fake_scene.account_id).local, keys.shard(fake_scene.shard)
    await fake_scene.redis.zadd(prefix + keys.RESUMED, {local: fake_clock.ms})
    fake_clock.ms -= HOUR_MS
    await fake_scene.store.claims.realign(fake_scene.shard)
    assert await fake_scene.redis.zscore(prefix + keys.RESUMED, local) == fake_clock.ms
    assert await mended(fake_scene) == 1
    assert await fake_scene.store.check() == []
    fake_clock.ms += 2 * 60_000
    assert len(await fake_scene.claim()) == 1


async def test_a_moment_that_a_customer_chose_stays(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    """Of what waits for its first attempt, and of a retry that was moved."""
    waits = await fake_scene.create(WAIT_MS)
    moved = await fake_scene.create()
    await fake_scene.retry([await fake_scene.claim_one()], WAIT_MS)
    chosen_ms = fake_clock.ms + 5 * WAIT_MS
    await fake_scene.change(moved, trigger_at_ms=chosen_ms)
    before = [await fake_scene.visible_at_ms(each) for each in (waits, moved)]
    fake_clock.ms -= HOUR_MS
    assert await mended(fake_scene) == 0
    assert [await fake_scene.visible_at_ms(each) for each in (waits, moved)] == before


async def test_a_heartbeat_from_the_future_shows_it_and_is_no_heartbeat(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    """A worker that starts after the step has seen no other time; one that died before it would
    keep its shards for an hour."""
    store = fake_scene.store
    await store.workers.beat("dead", {})
    fake_clock.ms -= HOUR_MS
    store.clock.observe(fake_clock.us)
    before = store.clock.steps_back
    alive = await store.workers.beat("new", {})
    assert [each.process_id for each in alive] == ["new"]
    assert store.clock.steps_back == before + 1
    await store.workers.beat("new", {})
    assert store.clock.steps_back == before + 1


async def test_a_damaged_account_keeps_no_other_back(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    [other] = await fake_scene.neighbours(1)
    await fake_scene.create()
    await fake_scene.create(account_id=other)
    await fake_scene.claim()
    await fake_scene.spoil(fake_scene.base + keys.HELD)
    fake_clock.ms -= HOUR_MS
    assert await mended(fake_scene) == 1


async def test_a_limited_account_is_let_in_again(fake_scene: Scene, fake_clock: FakeClock) -> None:
    api_keys = fake_scene.store.api_keys
    _, key = await api_keys.create(fake_scene.account_id, "mine")
    while (await api_keys.admit(key)).rate.wait_s == 0:
        pass
    fake_clock.ms -= HOUR_MS
    assert (await api_keys.admit(key)).rate.wait_s <= 1
    fake_clock.ms += 1000
    assert (await api_keys.admit(key)).rate.wait_s == 0


async def test_callbacks_wait_as_long_as_they_were_to(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    """One that no worker has had, one that a lost one had, and one that failed before."""
    await fake_scene.ended(3)
    failed, lost, fresh = [await fake_scene.claim_one(most=1) for _ in range(3)]
    assert await fake_scene.answer(failed, FAILED, WAIT_MS) == 1
    await fake_scene.release([fresh])
    fake_clock.ms -= HOUR_MS
    await fake_scene.store.claims.realign(fake_scene.shard)
    assert await mended(fake_scene) == 3
    state = (await fake_scene.get(failed.schedule_id)).callback
    assert state is not None
    assert (state.attempted_at_ms, state.next_attempt_at_ms) == (
        fake_clock.ms,
        fake_clock.ms + WAIT_MS,
    )
    assert await fake_scene.store.check() == []
    again = await fake_scene.claim()
    again += await fake_scene.claim()
    assert sorted(ids_of(again)) == sorted(ids_of([lost, fresh]))
    assert {each.due_at_ms for each in again} == {fake_clock.ms}, "and not in an hour"
    fake_clock.ms += WAIT_MS // 2
    assert await mended(fake_scene) == 0, "a repeat does not put it off"
    assert [await fake_scene.answer(each) for each in again] == [1, 1]
    fake_clock.ms += WAIT_MS // 2
    assert ids_of(await fake_scene.claim()) == [failed.schedule_id]
    assert await fake_scene.store.check() == []


async def test_failed_callbacks_keep_no_places_by_a_moment_of_before(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    await fake_scene.ended(60)
    calls = []
    while more := await fake_scene.claim():
        calls += more
    acks = [CallbackAck(each, FAILED, fake_clock.ms) for each in calls]
    await fake_scene.store.callbacks.ack(fake_scene.shard, acks)
    assert await fake_scene.claim() == []
    fake_clock.ms -= HOUR_MS
    await fake_scene.store.claims.realign(fake_scene.shard)
    assert await mended(fake_scene) == 60
    assert await fake_scene.claim() != []


async def test_a_callback_is_not_put_off_by_a_moment_of_before(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    """Its state may name one that is long in coming, when its turn has come."""
    await fake_scene.ended(1)
    fake_clock.ms -= HOUR_MS
    local = (await fake_scene.redis.zrange(fake_scene.base + keys.CALLBACKS, 0, -1))[0]
    await fake_scene.redis.zadd(fake_scene.base + keys.CALLBACKS, {local: fake_clock.ms})
    await fake_scene.store.claims.realign(fake_scene.shard)
    assert (await fake_scene.claim_one()).due_at_ms == fake_clock.ms
