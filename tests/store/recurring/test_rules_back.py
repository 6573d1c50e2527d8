"""The store's clock was ahead for a while: a recurring schedule that went on by it, for a slot far
away, is sent at its next time all the same."""

from __future__ import annotations

import pytest

from scheduler import ids
from scheduler.recurrence.recurring import Rule, RuleState
from scheduler.store import keys
from tests.store.clocks import START_MS, FakeClock
from tests.store.recurring.rules import DAY_MS, HOUR_MS, HOURLY, Rules
from tests.store.scene import Scene

YEAR_MS = 365 * DAY_MS
NEXT_MS = START_MS + HOUR_MS


@pytest.fixture
def rules(fake_scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Rules:
    monkeypatch.setattr("scheduler.store.recurring.renewal._PAUSE_S", 0)
    return Rules(fake_scene)


async def jump(rules: Rules, clock: FakeClock, ms: int) -> None:
    clock.ms += ms
    await rules.scene.store.tick()


async def fired_ahead(rules: Rules, clock: FakeClock, ahead_ms: int) -> Rule:
    """A rule of which an occurrence was sent while the clock was ahead by so much."""
    rule = await rules.create(HOURLY)
    await jump(rules, clock, ahead_ms)
    assert len(await rules.fire()) == 1
    return rule


async def back(rules: Rules) -> int:
    return await rules.scene.store.renewal.bring_back(rules.scene.shard)


async def test_one_that_was_paused_stays_so_though_its_occurrence_has_not_ended(
    rules: Rules, fake_clock: FakeClock
) -> None:
    """As a process leaves it that dies before it has cancelled that."""
    rule = await fired_ahead(rules, fake_clock, YEAR_MS)
    await rules.scene.redis.hset(rules.key(rule), "p", RuleState.PAUSED)
    await jump(rules, fake_clock, -YEAR_MS)
    assert await back(rules) == 0
    assert (await rules.read(rule)).state == RuleState.PAUSED


async def test_one_that_is_held_is_left_and_a_damaged_one_is_in_no_other_s_way(
    rules: Rules, fake_clock: FakeClock
) -> None:
    damaged = await fired_ahead(rules, fake_clock, YEAR_MS)
    await jump(rules, fake_clock, -YEAR_MS)
    sound = await fired_ahead(rules, fake_clock, YEAR_MS)
    held = (await rules.read(sound)).schedule_id or ""
    await jump(rules, fake_clock, -YEAR_MS)
    await rules.scene.redis.hset(rules.key(damaged), "d", b"?")
    await rules.scene.redis.zadd(rules.scene.base + keys.HELD, {ids.local(held): 1})
    assert await back(rules) == 0
    await rules.scene.redis.zrem(rules.scene.base + keys.HELD, ids.local(held))
    assert await back(rules) == 1
    assert (await rules.read(sound)).slot_ms == NEXT_MS


@pytest.mark.parametrize("is_there", [False, True], ids=["gone", "of a wrong type"])
async def test_one_without_a_last_slot_is_in_no_other_s_way(
    rules: Rules, fake_clock: FakeClock, is_there: bool
) -> None:
    lacking = await fired_ahead(rules, fake_clock, YEAR_MS)
    await jump(rules, fake_clock, -YEAR_MS)
    sound = await fired_ahead(rules, fake_clock, YEAR_MS)
    await jump(rules, fake_clock, -YEAR_MS)
    await rules.scene.redis.delete(rules.key(lacking))
    if is_there:
        await rules.scene.redis.set(rules.key(lacking), "none of ours")
    assert await back(rules) == 1
    assert (await rules.read(sound)).slot_ms == NEXT_MS
