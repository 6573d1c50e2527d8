"""Which shards have recurring schedules to tend, asked each second by every worker; and rules that
are in no other's way when a clock was set back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler import ids
from scheduler.errors import StoreUnavailable, Unreadable
from scheduler.recurrence.recurring import Rule, RuleState
from scheduler.store import Store, keys
from tests.store.clocks import START_MS, FakeClock
from tests.store.recurring.rules import DAY_MS, HOUR_MS, HOURLY, Rules
from tests.store.scene import Scene
from tests.support.plain import redis_of

YEAR_MS = 365 * DAY_MS
NEXT_MS = START_MS + HOUR_MS


async def put_due(store: Store, shard: int, at_ms: int, count: int = 1) -> None:
    due = {f"x:{n}": at_ms for n in range(count)}
    await redis_of(store).zadd(keys.shard(shard) + keys.RULES_DUE, due)


async def test_those_that_are_due_are_counted_but_on_hold(scene: Scene) -> None:
    store, now_ms = scene.store, await scene.clock.now_ms()
    await store.tick()
    await put_due(store, 0, now_ms, count=3)
    await put_due(store, 1, now_ms + 60_000)
    assert await store.recurring.overdue([0, 1]) == {0: 3, 1: 0}
    assert await store.recurring.overdue([1]) == {1: 0}
    assert await store.recurring.overdue([]) == {}
    await store.hold.begin()
    assert await store.recurring.overdue([0, 1]) == {0: 0, 1: 0}
    await store.hold.end()
    assert await store.recurring.overdue([0]) == {0: 3}


async def test_a_damaged_list_is_its_own_shards_fault(scene: Scene) -> None:
    await put_due(scene.store, 0, 1)
    await scene.redis.set(keys.shard(1) + keys.RULES_DUE, "no set")
    found = await scene.store.recurring.overdue([0, 1])
    assert found[0] == 1
    assert isinstance(found[1], Unreadable)


@pytest.mark.parametrize("routed", [False, True])
async def test_a_shard_that_is_away_has_its_error_and_spoils_no_other_of_a_cluster(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, routed: bool
) -> None:
    reads, away = scene.store.server.reads, StoreUnavailable("away")

    async def failing(commands: Sequence[Sequence[Any]], **options: Any) -> list[Any]:
        if any(str(words[1]).startswith(keys.shard(1)) for words in commands):
            raise away
        return await reads(commands, **options)

    monkeypatch.setattr(scene.store.server, "reads", failing)
    monkeypatch.setattr(scene.store.server, "routed", routed)
    found = await scene.store.recurring.overdue([0, 1])
    assert found == {0: 0 if routed else away, 1: away}


@pytest.mark.parametrize("member", [b"x", b":", b"x:y", b"\xff:\xff", b"\xff" * 8 + b":x"])
async def test_a_member_that_names_no_rule_is_in_no_rule_s_way(
    fake_scene: Scene, member: bytes
) -> None:
    scene, rules = fake_scene, Rules(fake_scene)
    rule = await rules.create()
    await scene.cancel(str(rule.schedule_id))
    await scene.redis.zadd(keys.shard(scene.shard) + keys.RULES_DUE, {member: 1})
    assert await scene.store.renewal.renew(scene.shard) == 1
    assert len(await rules.waiting()) == 1
    assert await rules.tend() == 1
    assert member not in await rules.due()


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
