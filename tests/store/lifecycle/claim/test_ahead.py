"""Claiming ahead: a worker holds schedules that are due within a moment."""

from __future__ import annotations

import pytest

from scheduler.errors import Conflict
from tests.store.scene import CREDITS, LEASE_MS, Scene, ids_of, lease_end_ms

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
