"""Claiming: due schedules, their leases, and when to look again."""

from __future__ import annotations

import pytest

from scheduler.store import keys
from tests.store.scene import LEASE_MS, Scene, ids_of, lease_end_ms

pytestmark = pytest.mark.sound


async def test_a_claim_moves_visibility_to_the_leases_end(scene: Scene) -> None:
    schedule_id = await scene.create(headers={"X-A": "b"}, body=b'{"n":1}')
    before_ms = await scene.clock.now_ms()
    invocation = await scene.claim_one()
    after_ms = await scene.clock.now_ms()
    stored = await scene.get(schedule_id)
    assert await scene.visible_at_ms(schedule_id) == lease_end_ms(invocation)
    assert before_ms <= lease_end_ms(invocation) - LEASE_MS < after_ms + 1
    assert (invocation.account_id, invocation.schedule_id) == (scene.account_id, schedule_id)
    assert (invocation.shard, invocation.attempt) == (scene.shard, 1)
    assert (stored.executing, stored.request) == (True, invocation.request)
    assert await scene.claim() == []


@pytest.mark.time_passes
async def test_nothing_is_claimed_early(scene: Scene) -> None:
    due_ms = await scene.clock.now_ms() + 60
    schedule_id = await scene.create_at(due_ms)
    while (now_ms := await scene.clock.now_ms()) < due_ms:
        await scene.claim_nothing_before(due_ms)
        await scene.clock.pass_ms(min(7, due_ms - now_ms))
    assert ids_of(await scene.claim()) == [schedule_id]


async def test_next_look_is_when_something_is_due(scene: Scene) -> None:
    assert (await scene.batch()).next_look_ms is None
    later_ms = await scene.clock.now_ms() + 60_000
    await scene.create_at(later_ms)
    assert (await scene.batch()).next_look_ms == later_ms
    await scene.create(-1000)
    # Nothing is left that is due: now the lease that was given out is the next to end.
    batch = await scene.batch(lease_ms=5000, most=10)
    [invocation] = batch.invocations
    assert batch.next_look_ms == lease_end_ms(invocation)
    # With more due than was taken, the next look is now.
    for _ in range(3):
        await scene.create()
    assert ((await scene.batch(most=1)).next_look_ms or 0) <= await scene.clock.now_ms() + 1


async def test_a_backlog_is_called_out_and_forgotten(scene: Scene) -> None:
    oldest_ms = await scene.clock.now_ms() - 5000
    for _ in range(9):
        await scene.create_at(oldest_ms)
    for _ in range(4):  # a look is too late after a second
        await scene.claim(most=2)
        if (look := await scene.look()).backlog_since_ms is not None:
            break
    assert look.backlog_since_ms == oldest_ms
    await scene.claim(most=10)
    left_ms = await scene.redis.pttl(keys.shard(scene.shard) + keys.BACKLOG)
    assert left_ms <= 1000
    assert left_ms != -1, "it would stay"


@pytest.mark.harmed
async def test_a_member_without_its_schedule_does_not_block_the_others(scene: Scene) -> None:
    gone, kept = await scene.create(-2000), await scene.create(-1000)
    await scene.redis.delete(scene.key(gone))
    claimed = [await scene.claim(most=1) for _ in range(2)]
    assert [ids_of(batch) for batch in claimed] == [[], [kept]]
