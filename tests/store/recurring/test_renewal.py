"""A newer tzdata changes what lies ahead of recurring schedules, once, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.models import Request
from scheduler.recurrence.recurrence import TZDATA_VERSION, Timing, first_slot
from scheduler.recurrence.recurring import Draft, Rule
from scheduler.store import keys
from tests.store.recurring.rules import DAY_MS, Rules
from tests.store.scene import URL, Scene

pytestmark = [pytest.mark.sound, pytest.mark.usefixtures("_no_pauses")]
HOUR_MS = 3_600_000
RULES = "scheduler.store.recurring.rules.TZDATA_VERSION"
DAILY = Timing(cron="0 9 * * *", zone="Europe/Berlin")
MONTHLY = Timing(cron="0 9 1 * *", zone="Europe/Berlin")


@pytest.fixture
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.store.recurring.renewal._PAUSE_S", 0)


async def made_before(scene: Scene, monkeypatch: pytest.MonkeyPatch, timing: Timing) -> Rule:
    """By an older tzdata, in which it was an hour later."""

    async def later(timing: Timing, now_ms: int) -> int:
        return await first_slot(timing, now_ms) + HOUR_MS

    with monkeypatch.context() as before:
        before.setattr(RULES, "2000a")
        before.setattr("scheduler.store.recurring.recurring.first_slot", later)
        draft = Draft(Request(0, "POST", URL), timing)
        return (await scene.store.recurring.create(scene.account_id, draft)).rule


async def read(scene: Scene, rule: Rule) -> Rule:
    return await scene.store.recurring.read(scene.account_id, rule.recurring_id)


async def test_the_occurrence_that_waits_moves_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.store.tick()
    rule = await made_before(scene, monkeypatch, MONTHLY)
    assert await scene.store.renewal.renew(scene.shard) == 1
    assert scene.store.recurring.computed_anew == 1
    after = await read(scene, rule)
    assert (after.slot_ms, after.schedule_id) == (rule.slot_ms - HOUR_MS, rule.schedule_id)
    moved = await scene.get(rule.schedule_id or "")
    assert moved.request.trigger_at_ms == after.slot_ms
    assert moved.request.recurring.slot_ms == after.slot_ms
    assert await scene.store.renewal.renew(scene.shard) == 0
    mark = await scene.redis.hget(keys.META, f"tzdata:{scene.shard}")
    assert mark.decode() == TZDATA_VERSION
    # A process with an older one, as there is for a while in an upgrade, changes nothing back.
    monkeypatch.setattr("scheduler.store.recurring.renewal.TZDATA_VERSION", "2001a")
    assert await scene.store.renewal.renew(scene.shard) == 0


async def test_the_time_that_its_owner_gave_an_occurrence_stays(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.store.tick()
    rule = await made_before(scene, monkeypatch, MONTHLY)
    due_ms = await scene.clock.now_ms() + 5 * HOUR_MS

    def at(old: Request) -> Request:
        return replace(old, trigger_at_ms=due_ms)

    await scene.store.schedules.change(scene.account_id, rule.schedule_id or "", at)
    await scene.store.renewal.renew(scene.shard)
    assert (await read(scene, rule)).slot_ms == (rule.slot_ms or 0) - HOUR_MS
    assert (await scene.get(rule.schedule_id or "")).request.trigger_at_ms == due_ms


@pytest.mark.parametrize("timing", [Timing(cron="0 9 * * *"), Timing(every_ms=HOUR_MS)])
async def test_what_goes_by_no_zone_stays(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, timing: Timing
) -> None:
    await scene.store.tick()
    rule = await made_before(scene, monkeypatch, timing)
    assert await scene.store.renewal.renew(scene.shard) == 1
    assert (await read(scene, rule)).slot_ms == rule.slot_ms
    assert scene.store.recurring.computed_anew == 0


async def test_an_occurrence_that_is_held_stays(
    fake_scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = fake_scene
    await scene.store.tick()
    rule = await made_before(scene, monkeypatch, DAILY)
    await scene.clock.pass_ms((rule.slot_ms or 0) - await scene.clock.now_ms())
    held: Any = await scene.claim()
    await scene.store.tick()
    await scene.store.renewal.renew(scene.shard)
    assert (await read(scene, rule)).slot_ms == rule.slot_ms
    await scene.store.recurring.advance(held)
    await scene.ack(held)
    after = await read(scene, rule)
    assert after.slot_ms == (rule.slot_ms or 0) + 23 * HOUR_MS


@pytest.mark.parametrize("are_newer_left", [True, False])
async def test_an_older_tzdata_makes_no_next_occurrence_while_there_is_a_newer(
    fake_scene: Scene, monkeypatch: pytest.MonkeyPatch, are_newer_left: bool
) -> None:
    """In an upgrade; and afterwards, of one that was taken back."""
    rules = Rules(fake_scene)
    await fake_scene.store.tick()
    rule = await rules.create(DAILY)
    slot_ms = rule.slot_ms or 0
    await rules.to(slot_ms)
    with monkeypatch.context() as older:
        older.setattr(RULES, "2000a")
        assert len(await rules.fire()) == 1
        await rules.tend()
        await fake_scene.clock.pass_ms(29_000)
        await rules.tend()
        assert await rules.waiting() == []
        if not are_newer_left:
            await fake_scene.clock.pass_ms(1000)
            await rules.tend()
            slot_ms += DAY_MS
            await rules.to(slot_ms)
            assert len(await rules.fire()) == 1, "it is as if there had been no newer one"
            assert await rules.waiting() == [(slot_ms + DAY_MS,) * 2]
    await rules.tend()
    assert await rules.waiting() == [(slot_ms + DAY_MS,) * 2]
    assert await fake_scene.store.check() == []
