"""Claiming ahead: a worker holds schedules that are due within a moment."""

from __future__ import annotations

import pytest

from scheduler.errors import Conflict
from tests.scheduler.clocks import FakeClock
from tests.scheduler.scene import CREDITS, LEASE_MS, Scene, ids_of, lease_end_ms

pytestmark = pytest.mark.sound

AHEAD_MS = 25
LATER_MS = 2**41


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


async def test_an_ack_before_the_time_is_as_good(scene: Scene) -> None:
    """At-most-once ones of a lost worker end without having been due, for one."""
    await scene.create(400)
    assert await scene.ack([await scene.claim_one(ahead_ms=500)]) == [1]
    assert (await scene.holdings()).log == {"completed": 1}


@pytest.mark.time_passes
async def test_a_lease_that_ends_within_the_moment_is_not_taken_over(scene: Scene) -> None:
    """Its worker holds it until the very end."""
    invocation = await scene.held(200)
    await scene.claim_nothing_before(lease_end_ms(invocation), ahead_ms=1000)
    await scene.clock.pass_ms(201)
    [taken] = await scene.claim(ahead_ms=1000)
    assert (taken.schedule_id, taken.attempt) == (invocation.schedule_id, 2)


async def test_full_means_that_more_is_due_within_the_moment(fake_scene: Scene) -> None:
    scene, claims = fake_scene, fake_scene.store.claims
    for ms in (10, 20, 30):
        await scene.create(ms)
    now_ms = await scene.clock.now_ms()
    seen = []
    for most in (1, 1, 1):
        batch = await claims.claim(scene.shard, lease_ms=LEASE_MS, most=most, ahead_ms=AHEAD_MS)
        seen.append((len(batch.invocations), batch.next_look_ms, batch.full))
    assert seen == [(1, now_ms + 20, True), (1, now_ms + 30, False), (0, now_ms + 30, False)]


async def test_turns_are_taken_ahead_as_well(fake_scene: Scene, fake_clock: FakeClock) -> None:
    """One account's flood within the moment does not keep its neighbour out."""
    scene = fake_scene
    [other] = await scene.neighbours(1)
    await scene.create_many(200, fake_clock.ms + 5)
    small = await scene.create(AHEAD_MS, account_id=other)
    assert small in ids_of(await scene.claim(most=16, ahead_ms=AHEAD_MS))
