"""The accounts at a glance: the state, the load and the ledger of each; and which workers are
alive, as they tell each other."""

from __future__ import annotations

import pytest

from scheduler.errors import NotFound
from scheduler.models import Plan
from scheduler.store import Store, keys
from scheduler.store.operators import roster
from scheduler.store.operators.roster import AccountRow
from tests.store.clocks import FakeClock
from tests.store.scene import COMPLETED, FAILED, Scene

pytestmark = pytest.mark.sound
LOST_MS, FORGOTTEN_MS = 10_000, 3_600_000


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


async def heard(store: Store, worker_id: str) -> list[str]:
    """Who is alive, as a worker hears with its heartbeat."""
    return sorted(each.process_id for each in await store.workers.beat(worker_id, {}))


async def test_who_is_not_heard_of_for_ten_seconds_is_lost_and_after_an_hour_forgotten(
    fake_store: Store, fake_clock: FakeClock
) -> None:
    workers = fake_store.workers
    assert await heard(fake_store, "a") == ["a"]
    assert await heard(fake_store, "b") == ["a", "b"]
    fake_clock.ms += LOST_MS
    assert await heard(fake_store, "b") == ["a", "b"]
    fake_clock.ms += 1
    assert await heard(fake_store, "b") == ["b"]
    lost, alive = await workers.all()
    assert (lost.process_id, lost.is_lost(fake_clock.ms)) == ("a", True)
    assert (alive.process_id, alive.is_lost(fake_clock.ms)) == ("b", False)
    assert await heard(fake_store, "a") == ["a", "b"], "it is welcome again"
    fake_clock.ms += FORGOTTEN_MS
    assert await heard(fake_store, "b") == ["b"]
    assert len(await workers.all()) == 2
    fake_clock.ms += 1
    await workers.beat("b", {})
    assert [each.process_id for each in await workers.all()] == ["b"]


async def test_of_those_lost_in_a_crash_loop_the_latest_fifty_are_listed(
    fake_store: Store, fake_clock: FakeClock
) -> None:
    for n in range(60):
        await fake_store.workers.beat(f"w{n:02}", {})
        fake_clock.ms += 1000
    fake_clock.ms += LOST_MS
    await fake_store.workers.beat("alive", {})
    found = [each.process_id for each in await fake_store.workers.all()]
    assert found == ["alive", *(f"w{n:02}" for n in range(10, 60))]
