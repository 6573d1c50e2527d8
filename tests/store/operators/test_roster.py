"""The accounts at a glance: the state, the load and the ledger of each."""

from __future__ import annotations

import pytest

from scheduler.errors import NotFound
from scheduler.models import Plan
from scheduler.store import keys
from scheduler.store.operators import roster
from scheduler.store.operators.roster import AccountRow
from tests.store.clocks import FakeClock
from tests.store.scene import COMPLETED, FAILED, Scene

pytestmark = pytest.mark.sound


async def row(scene: Scene) -> AccountRow:
    return await scene.store.roster.of(scene.account_id)


async def test_what_waits_what_is_overdue_and_what_was_done(fake_scene: Scene) -> None:
    scene = fake_scene
    for _ in range(2):
        await scene.create(-3000)
    for claimed, outcome in zip(await scene.claim(), (COMPLETED, FAILED), strict=True):
        await scene.ack([claimed], outcome)
    for due_in_ms in (-9000, -1500, -500, 60_000):
        await scene.create(due_in_ms)
    found = await row(scene)
    assert (found.waiting, found.overdue, found.fired, found.failed) == (4, 2, 2, 1)
    assert found.overdue_since_ms == await scene.clock.now_ms() - 9000
    assert (found.created, found.spent, found.granted - found.credits) == (6, 6, 6)
    assert found.stored_bytes == await scene.store.accounts.stored_bytes(scene.account_id)
    assert await scene.claim(most=3)
    assert (await row(scene)).waiting == 1


@pytest.mark.parametrize("how", ["pause", "pause that ended", "suspension"])
async def test_what_a_pause_holds_back_is_not_overdue(fake_scene: Scene, how: str) -> None:
    scene, store = fake_scene, fake_scene.store
    await scene.create(-9000)
    now_ms = await scene.clock.now_ms()
    if how == "suspension":
        await store.changes.suspend(scene.account_id)
    else:
        until_ms = now_ms + 1000 if how == "pause that ended" else None
        await scene.pause(until_ms=until_ms)
    found = await row(scene)
    state = "suspended" if how == "suspension" else "paused"
    assert (found.state, found.overdue, found.overdue_since_ms) == (state, 0, None)
    assert isinstance(scene.clock, FakeClock)
    await scene.clock.pass_ms(60_000)
    ended = how == "pause that ended"
    assert ((await row(scene)).state == "") is ended


async def test_damage_of_one_account_hides_no_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roster, "_AT_ONCE", 2)
    store = scene.store
    others = [
        (await store.accounts.create(f"n{i}", credits=1, plan=Plan.FREE)).account_id
        for i in range(3 * store.shards.count)
    ]
    broken = scene.base + keys.WAITING
    await scene.spoil(broken)
    look = await store.roster.look(5000)
    assert look.damaged == [scene.account_id]
    assert sorted(each.account_id for each in look.rows) == sorted(others)
    assert (look.total, look.looked_at) == (len(others) + 1, len(others) + 1)
    some = await store.roster.look(2 * store.shards.count)
    assert (some.looked_at, some.total) == (2 * store.shards.count, len(others) + 1)
    for nobody in (scene.account_id, "acc_00_22222222"):
        with pytest.raises(NotFound):
            await store.roster.of(nobody)
    await scene.redis.delete(broken)
