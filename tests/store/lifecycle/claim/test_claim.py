"""Claiming: due schedules, their leases, and when to look again; and those that are due within a
moment, which a worker may hold ahead."""

from __future__ import annotations

import pytest

from scheduler.errors import Conflict
from scheduler.store import keys
from tests.store.scene import CREDITS, LEASE_MS, Scene, ids_of, lease_end_ms

pytestmark = pytest.mark.sound
AHEAD_MS = 25
LATER_MS = 2**41


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


async def test_what_is_due_within_the_moment_is_claimed(fake_scene: Scene) -> None:
    scene = fake_scene
    late, now, soon, last = [await scene.create(ms) for ms in (-1000, 0, AHEAD_MS - 1, AHEAD_MS)]
    later = await scene.create(AHEAD_MS + 1)
    claimed = await scene.claim(ahead_ms=AHEAD_MS)
    assert ids_of(claimed) == [late, now, soon, last]
    # Its lease counts from now, not from when it is due.
    now_ms = (await scene.clock.now_ms()) + 0.3
    assert {lease_end_ms(each) for each in claimed} == {now_ms + LEASE_MS}
    assert await scene.claim(ahead_ms=AHEAD_MS) == []
    await scene.clock.pass_ms(1)
    assert ids_of(await scene.claim(ahead_ms=AHEAD_MS)) == [later]


@pytest.mark.parametrize("due_in_ms", [-5, 400])
async def test_what_is_held_ahead_can_be_neither_cancelled_nor_changed(
    scene: Scene, due_in_ms: int
) -> None:
    schedule_id = await scene.create(due_in_ms)
    invocation = await scene.claim_one(ahead_ms=500)
    before = await scene.holdings()
    with pytest.raises(Conflict, match="Execution has started"):
        await scene.cancel(schedule_id)
    with pytest.raises(Conflict, match="Execution has started"):
        await scene.change(schedule_id, trigger_at_ms=LATER_MS)
    assert await scene.holdings() == before
    assert (await scene.get(schedule_id)).request == invocation.request


@pytest.mark.time_passes
async def test_a_release_puts_back_what_is_not_due_yet(scene: Scene) -> None:
    due_ms = await scene.clock.now_ms() + 300
    kept, changed, cancelled = [await scene.create_at(due_ms) for _ in range(3)]
    claimed = await scene.claim(ahead_ms=500)
    assert len(claimed) == 3
    await scene.release(claimed)
    assert {await scene.visible_at_ms(each.schedule_id) for each in claimed} == {due_ms}
    await scene.claim_nothing_before(due_ms)
    assert (await scene.cancel(cancelled)).credits == CREDITS - 2
    await scene.change(changed, trigger_at_ms=LATER_MS)
    await scene.clock.pass_ms(max(0, due_ms - await scene.clock.now_ms()))
    invocation = await scene.claim_one()
    assert (invocation.schedule_id, invocation.attempt) == (kept, 1)
