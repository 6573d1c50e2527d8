"""Accounts that are suspended: nothing of theirs is fired, and nothing is lost."""

from __future__ import annotations

import pytest

from scheduler.models import Plan, Status
from scheduler.store import keys
from tests.store.scene import LEASE_MS, Scene, ids_of

pytestmark = pytest.mark.sound
MINUTE_MS = 60_000


async def test_what_is_due_waits_and_goes_out_when_it_is_resumed(scene: Scene) -> None:
    due, later = await scene.create(), await scene.create(MINUTE_MS)
    account = await scene.store.changes.suspend(scene.account_id)
    assert account.suspended
    assert await scene.claim() == []
    came_in = await scene.create()
    assert await scene.claim() == []
    await scene.assert_sound()
    assert not (await scene.store.changes.resume(scene.account_id)).suspended
    claimed = await scene.claim()
    assert ids_of(claimed) == [due, came_in]
    assert await scene.ack(claimed) == [1, 1]
    assert await scene.status(later) == Status.SCHEDULED


async def test_no_worker_looks_for_it_and_none_is_kept_awake(scene: Scene) -> None:
    await scene.create()
    [neighbour] = await scene.neighbours(1)
    due_ms = await scene.clock.now_ms() + MINUTE_MS
    await scene.create_at(due_ms, account_id=neighbour)
    await scene.store.changes.suspend(scene.account_id)
    looks = await scene.store.claims.look([scene.shard])
    assert looks[scene.shard].next_look_ms == due_ms
    batch = await scene.store.claims.claim(scene.shard, lease_ms=LEASE_MS, most=128)
    assert (batch.invocations, batch.next_look_ms, batch.full) == ([], due_ms, False)
    [shard] = [s for s in await scene.store.system.shards() if s.number == scene.shard]
    assert (shard.busy_accounts, shard.next_look_ms) == (1, due_ms)


async def test_what_is_held_ends_and_what_is_given_back_waits(scene: Scene) -> None:
    await scene.create()
    await scene.create()
    ended, given_back = await scene.claim()
    await scene.store.changes.suspend(scene.account_id)
    assert await scene.ack([ended]) == [1]
    await scene.release([given_back])
    assert await scene.claim() == []
    await scene.store.claims.realign(scene.shard)
    assert await scene.claim() == []
    await scene.store.changes.resume(scene.account_id)
    assert ids_of(await scene.claim()) == [given_back.schedule_id]


async def test_its_schedules_can_be_changed_and_cancelled_all_the_same(scene: Scene) -> None:
    """Calls that came just before the suspension do not wake the account."""
    changed, cancelled = await scene.create(MINUTE_MS), await scene.create(MINUTE_MS)
    await scene.store.changes.suspend(scene.account_id)
    now_ms = await scene.clock.now_ms()
    await scene.change(changed, trigger_at_ms=now_ms)
    await scene.cancel(cancelled)
    assert await scene.claim() == []


async def test_its_key_says_so_and_its_plan_from_the_next_request_on(scene: Scene) -> None:
    changes, account_id = scene.store.changes, scene.account_id
    _, value = await scene.store.api_keys.create(account_id, "x")
    for change, suspended, limit in (
        (changes.suspend(account_id), True, 10),
        (changes.resume(account_id), False, 10),
        (changes.plan(account_id, Plan.PRO), False, 100),
    ):
        await change
        caller = await scene.store.api_keys.admit(value)
        assert (caller.suspended, caller.rate.limit) == (suspended, limit)


async def test_a_suspension_stops_lanes_too_and_a_pause_outlasts_it(scene: Scene) -> None:
    for lane in (None, "a"):
        await scene.create(lane=lane)
    changes = scene.store.changes
    await changes.suspend(scene.account_id)
    assert await scene.claim() == []
    await scene.redis.hset(scene.base + keys.ACCOUNT, "paused", 1)
    await changes.resume(scene.account_id)
    assert await scene.claim() == []
    await changes.suspend(scene.account_id)
    await scene.redis.hdel(scene.base + keys.ACCOUNT, "paused")
    await changes.resume(scene.account_id)
    assert len(await scene.claim()) == 2
