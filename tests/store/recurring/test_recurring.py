"""Rules: one occurrence waits at a time, and each slot has one at most."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.errors import NotFound, StoreUnavailable
from scheduler.lane_settings import Pause
from scheduler.models import Occurrence
from scheduler.recurrence.recurrence import Timing, next_slot
from scheduler.recurrence.recurring import RuleState
from scheduler.store import keys
from scheduler.store.recurring.steps import Answer, Step
from tests.store.clocks import START_MS
from tests.store.recurring.rules import HOUR_MS, HOURLY, Rules
from tests.store.scene import CREDITS


async def test_a_rule_begins_with_one_occurrence_for_a_credit(rules: Rules) -> None:
    scene = rules.scene
    rule = await rules.create(lane="a", reference="x", body=b"{}")
    slot_ms = next_slot(rules.timing, await scene.clock.now_ms())
    assert (rule.state, rule.slot_ms, rule.missed) == (RuleState.ACTIVE, slot_ms, 0)
    found = await scene.get(rule.schedule_id)
    assert found.request == replace(
        rule.request, trigger_at_ms=slot_ms, recurring=Occurrence(rule.recurring_id, slot_ms)
    )
    assert await rules.waiting() == [(slot_ms, slot_ms)]
    assert await scene.credits() == CREDITS - 1
    assert await rules.read(rule) == replace(rule, etag=(await rules.read(rule)).etag)


async def test_before_an_occurrence_fires_the_next_one_waits(fake_rules: Rules) -> None:
    rules, scene = fake_rules, fake_rules.scene
    rule = await rules.create(replace(HOURLY, expires_after_ms=60_000))
    first_ms = START_MS + HOUR_MS
    await rules.to(first_ms)
    [held] = await rules.fire()
    assert held.schedule_id == rule.schedule_id
    assert held.request.expires_at_ms == first_ms + 60_000
    after = await rules.read(rule)
    assert after.slot_ms == first_ms + HOUR_MS
    assert after.schedule_id not in (None, rule.schedule_id)
    assert await rules.waiting() == [(after.slot_ms, after.slot_ms)]
    await rules.recurring.advance([held, held])
    assert await rules.read(rule) == after
    assert await scene.credits() == CREDITS - 2


async def test_two_workers_that_advance_at_once_make_one(fake_rules: Rules) -> None:
    rules = fake_rules
    await rules.create(lane="a")
    await rules.to(START_MS + HOUR_MS)
    held = await rules.scene.claim()
    await asyncio.gather(*(rules.recurring.advance(held) for _ in range(5)))
    assert len(await rules.waiting()) == 2


@pytest.mark.parametrize("tends", [False, True])
async def test_others_have_turns_between_the_rules_of_a_call(
    fake_rules: Rules, monkeypatch: pytest.MonkeyPatch, *, tends: bool
) -> None:
    """To find the next time of a rule may take 0.3 ms. Calls at once take no longer together."""
    monkeypatch.setattr("scheduler.store.recurring.tending._TURN_S", -1.0)
    rules, turns, seen = fake_rules, 0, set[int]()
    made = rules.recurring._chain._made

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def noted(*what: Any) -> Step:
        seen.add(turns)
        return made(*what)

    for _ in range(25):
        await rules.create()
    monkeypatch.setattr(rules.recurring._chain, "_made", noted)
    await rules.to(START_MS + HOUR_MS)
    held = await rules.scene.claim()
    counting = asyncio.create_task(count_turns())
    if tends:
        await rules.scene.ack(held)
        await rules.to(START_MS + HOUR_MS + 60_000)
        assert await rules.tend() == 25
    else:
        await asyncio.gather(*map(rules.recurring.advance, (held[:10], held[10:])))
    counting.cancel()
    assert len(seen) == 25  # one in each
    assert len(await rules.waiting()) == (25 if tends else 50)


async def test_cancelling_the_occurrence_advances_the_rule(rules: Rules) -> None:
    scene, rule = rules.scene, await rules.create()
    await scene.cancel(rule.schedule_id)
    assert (await rules.read(rule)).schedule_id is None
    assert await rules.tend() == 1
    after = await rules.read(rule)
    assert after.slot_ms == rule.slot_ms + HOUR_MS
    assert await rules.waiting() == [(after.slot_ms, after.slot_ms)]
    assert await scene.credits() == CREDITS - 1
    assert await rules.tend() == 0


async def test_a_rule_that_stays_blocked_is_tried_ever_more_seldom(fake_rules: Rules) -> None:
    """Ten thousand that fire each second are not to keep the workers from the rules of others."""
    rules = fake_rules
    rule, tried = await rules.create(Timing(every_ms=1000)), 0
    await rules.take_credits(0)
    await rules.to(START_MS + 1000)
    await rules.fire()
    for second in range(2, 302):
        await rules.to(START_MS + second * 1000)
        tried += await rules.tend()
    assert tried == 10
    await rules.to(START_MS + 400_000)
    await rules.tend()
    assert (await rules.read(rule)).missed == 399
    assert [each.missed for each in await rules.scene.log(statuses=["skipped"])] == [1]


async def test_a_pause_cancels_what_waits_and_a_resume_makes_the_next(rules: Rules) -> None:
    scene, rule = rules.scene, await rules.create()
    paused = await rules.recurring.pause(scene.account_id, rule.recurring_id, Pause("us"))
    assert (paused.state, paused.slot_ms, paused.schedule_id) == (RuleState.PAUSED, None, None)
    assert (await rules.waiting(), await scene.credits()) == ([], CREDITS)
    assert await rules.due() == {}
    again = await rules.recurring.pause(scene.account_id, rule.recurring_id, Pause("us"))
    assert again == paused
    resumed = await rules.recurring.resume(scene.account_id, rule.recurring_id)
    assert (resumed.state, resumed.slot_ms) == (RuleState.ACTIVE, rule.slot_ms)
    assert resumed.schedule_id != rule.schedule_id
    assert await rules.waiting() == [(rule.slot_ms, rule.slot_ms)]
    assert await rules.recurring.resume(scene.account_id, rule.recurring_id) == resumed
    assert await scene.credits() == CREDITS - 1


@pytest.mark.time_passes
async def test_a_pause_ends_by_itself(rules: Rules) -> None:
    scene, rule = rules.scene, await rules.create()
    await rules.recurring.pause(scene.account_id, rule.recurring_id, Pause("us"))
    assert await rules.waiting() == []
    until_ms = await scene.clock.now_ms() + 100
    await rules.recurring.pause(scene.account_id, rule.recurring_id, Pause("us", until_ms))
    assert list((await rules.due()).values()) == [until_ms]
    await scene.clock.pass_ms(101)
    assert await rules.tend() == 1
    resumed = await rules.read(rule)
    assert (resumed.state, resumed.slot_ms, resumed.pause) == (RuleState.ACTIVE, rule.slot_ms, None)
    assert await rules.waiting() == [(rule.slot_ms, rule.slot_ms)]
    assert await scene.credits() == CREDITS - 1


async def test_a_deleted_rule_is_gone_with_what_waits(rules: Rules) -> None:
    scene, rule = rules.scene, await rules.create(name="ours")
    await rules.recurring.delete(scene.account_id, rule.recurring_id)
    for call in (rules.recurring.resume, rules.recurring.read):
        with pytest.raises(NotFound):
            await call(scene.account_id, rule.recurring_id)
    [other] = await scene.neighbours(1)
    with pytest.raises(NotFound):
        await rules.recurring.delete(other, rule.recurring_id)
    with pytest.raises(NotFound):
        await rules.recurring.delete(scene.account_id, "op")
    assert (await rules.waiting(), await scene.credits()) == ([], CREDITS)
    assert await rules.due() == {}
    assert await rules.stored() == []
    await rules.create(name="ours")


async def test_a_deletion_is_answered_alike_for_an_hour(fake_rules: Rules) -> None:
    rules, scene = fake_rules, fake_rules.scene
    rule = await rules.create(name="ours")
    delete = rules.recurring.delete
    assert await delete(scene.account_id, rule.recurring_id) == "ours"
    again = await rules.create(name="ours")
    await rules.to(START_MS + HOUR_MS - 1)
    assert await delete(scene.account_id, rule.recurring_id) is None
    assert await rules.read(again) is not None
    assert await delete(scene.account_id, again.recurring_id) == "ours"
    assert await delete(scene.account_id, again.recurring_id) is None
    await rules.to(START_MS + 2 * HOUR_MS)
    for each in (rule, again):
        with pytest.raises(NotFound):
            await delete(scene.account_id, each.recurring_id)


async def test_the_newest_thousand_deletions_of_an_account_are_remembered(
    fake_rules: Rules,
) -> None:
    rules, scene = fake_rules, fake_rules.scene
    deleted, delete = scene.base + keys.RULES_DELETED, rules.recurring.delete
    first, second, third = [await rules.create() for _ in range(3)]
    await delete(scene.account_id, first.recurring_id)
    await scene.redis.lpush(deleted, *map(str, range(998)))
    await delete(scene.account_id, second.recurring_id)
    await rules.to(START_MS + 60_001)
    assert await delete(scene.account_id, first.recurring_id) is None
    await delete(scene.account_id, third.recurring_id)
    assert await scene.redis.llen(deleted) == 1000
    with pytest.raises(NotFound):
        await delete(scene.account_id, first.recurring_id)
    for each in (second, third):
        assert await delete(scene.account_id, each.recurring_id) is None
    await scene.store.changes.delete(scene.account_id)
    assert await scene.redis.keys(scene.base + "*") == []


async def test_however_many_were_deleted_since_the_last_minute_is_remembered(
    fake_rules: Rules,
) -> None:
    rules, scene = fake_rules, fake_rules.scene
    rule, delete = await rules.create(), rules.recurring.delete
    await rules.to(START_MS + 60_001)
    await delete(scene.account_id, rule.recurring_id)
    await scene.redis.lpush(scene.base + keys.RULES_DELETED, *map(str, range(1000)))
    await scene.redis.ltrim(scene.base + keys.RULES_DELETED, 0, 999)
    await rules.to(START_MS + 120_000)
    assert await delete(scene.account_id, rule.recurring_id) is None
    await rules.to(START_MS + 120_002)
    with pytest.raises(NotFound):
        await delete(scene.account_id, rule.recurring_id)


async def test_a_deletion_whose_reply_was_lost_is_done(
    fake_rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, scene = fake_rules, fake_rules.scene
    rule = await rules.create()
    steps = rules.recurring._steps
    once = steps.one

    async def repeated(step: Step, *, stores: bool = False) -> Answer:
        """As the server does after a lost reply."""
        await once(step, stores=stores)
        return await once(step, stores=stores)

    monkeypatch.setattr(steps, "one", repeated)
    await rules.recurring.delete(scene.account_id, rule.recurring_id)
    assert await rules.waiting() == []
    with pytest.raises(NotFound):
        await rules.read(rule)


async def test_a_pause_that_died_in_the_middle_is_completed(
    rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, rule = rules.scene, await rules.create()

    async def die(*_: object) -> None:
        raise StoreUnavailable("The process has died")

    with monkeypatch.context() as patched:
        patched.setattr(rules.recurring, "tend", die)
        with pytest.raises(StoreUnavailable):
            await rules.recurring.pause(scene.account_id, rule.recurring_id, Pause("us"))
        with pytest.raises(StoreUnavailable):
            await rules.change(rule, name="other")
    assert len(await rules.waiting()) == 1
    assert await rules.tend() == 1
    assert await rules.waiting() == []
    with monkeypatch.context() as patched:
        patched.setattr(rules.recurring, "tend", die)
        with pytest.raises(StoreUnavailable):
            await rules.recurring.delete(scene.account_id, rule.recurring_id)
    assert await rules.tend() == 1
    assert await rules.stored() == []
