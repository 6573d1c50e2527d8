"""Every way out of `active` settles what came up until then. Each time of a rule has an occurrence,
perhaps a cancelled one, or is one of a `skipped` entry: never neither, never both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.models import Invocation
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Rule, RuleState
from scheduler.store.queries.reading import read_one
from tests.store.clocks import START_MS
from tests.store.losses import COMMAND, REPLY, losing
from tests.store.recurring.rules import Rules, slot_of
from tests.store.scene import LEASE_MS, Scene, settled

SECOND_MS = 1000
EACH_SECOND = Timing(every_ms=SECOND_MS)
Way = Callable[[Rules, Rule], Awaitable[object]]
Standing = Callable[[Rules, Rule], Awaitable[list[Invocation]]]


@pytest.fixture
def rules(fake_scene: Scene) -> Rules:
    return Rules(fake_scene)


async def times_told(rules: Rules, rule: Rule) -> list[int]:
    """The slots of the rule's occurrences in the log, and of its `skipped` entries, in order."""
    found = list[int]()
    for each in await rules.scene.log(recurring_id=rule.recurring_id):
        if each.status == "skipped":
            first_ms = each.scheduled_at_ms
            found += [first_ms + n * SECOND_MS for n in range(each.missed)]
    for each in await rules.scene.log(recurring_id=rule.recurring_id, statuses=LIVE):
        request = (await rules.scene.get(each.schedule_id)).request
        found += [slot] if (slot := slot_of(request)) is not None else []
    return sorted(found)


LIVE = ("completed", "failed", "cancelled", "scheduled")


# How the rule stands as its seventh second comes up.


async def waits(rules: Rules, rule: Rule) -> list[Invocation]:
    """No worker came."""
    await rules.to(START_MS + 7 * SECOND_MS + 1)
    return []


async def held(rules: Rules, rule: Rule) -> list[Invocation]:
    """A worker has its late occurrence, and has not advanced the rule."""
    await rules.to(START_MS + 7 * SECOND_MS + 1)
    return await rules.scene.claim()


async def held_since(rules: Rules, rule: Rule) -> list[Invocation]:
    """A worker has had it since its time, and hangs."""
    await rules.to(START_MS + SECOND_MS)
    found = await rules.scene.claim(lease_ms=1_000_000)
    await rules.to(START_MS + 7 * SECOND_MS + 1)
    return found


async def lost(rules: Rules, rule: Rule) -> list[Invocation]:
    """The worker that had it is dead."""
    await rules.to(START_MS + SECOND_MS)
    await rules.scene.claim(lease_ms=5)
    await rules.to(START_MS + 7 * SECOND_MS + 1)
    return []


async def advanced(rules: Rules, rule: Rule) -> list[Invocation]:
    """A worker has it, has advanced the rule, and has not sent it."""
    found = await held(rules, rule)
    await rules.recurring.advance(found)
    return found


async def cancelled(rules: Rules, rule: Rule) -> list[Invocation]:
    """Its owner has cancelled it, and the process died before the next one was made."""
    await rules.to(START_MS + 7 * SECOND_MS + 1)
    await rules.scene.cancel(str(rule.schedule_id))
    return []


async def ended(rules: Rules, rule: Rule) -> list[Invocation]:
    """It was sent by a worker of an older version, which has not advanced the rule."""
    await rules.scene.ack(await held(rules, rule))
    return []


async def put_off(rules: Rules, rule: Rule) -> list[Invocation]:
    """Its owner has given it a later time."""
    due_ms = START_MS + 9 * SECOND_MS
    await rules.scene.change(str(rule.schedule_id), trigger_at_ms=due_ms)
    await rules.to(START_MS + 7 * SECOND_MS + 1)
    return []


async def on_hold(rules: Rules, rule: Rule) -> list[Invocation]:
    await rules.scene.store.hold.begin()
    await rules.to(START_MS + 7 * SECOND_MS + 1)
    assert await rules.scene.claim() == []
    return []


async def of_a_paused_account(rules: Rules, rule: Rule) -> list[Invocation]:
    await rules.scene.pause()
    await rules.to(START_MS + 7 * SECOND_MS + 1)
    assert await rules.scene.claim() == []
    return []


async def of_a_suspended_account(rules: Rules, rule: Rule) -> list[Invocation]:
    await rules.scene.store.changes.suspend(rules.scene.account_id)
    await rules.to(START_MS + 7 * SECOND_MS + 1)
    assert await rules.scene.claim() == []
    return []


async def blocked(rules: Rules, rule: Rule) -> list[Invocation]:
    await rules.take_credits(0)
    await rules.to(START_MS + SECOND_MS)
    await rules.fire()
    for second in (2, 3, 5):
        await rules.to(START_MS + second * SECOND_MS)
        await rules.tend()
    await rules.to(START_MS + 7 * SECOND_MS + 1)
    assert (await rules.read(rule)).state == RuleState.BLOCKED
    return []


# The ways.


async def pause(rules: Rules, rule: Rule) -> object:
    return await rules.recurring.pause(rules.scene.account_id, rule.recurring_id)


async def pause_and_resume(rules: Rules, rule: Rule) -> object:
    await pause(rules, rule)
    return await rules.recurring.resume(rules.scene.account_id, rule.recurring_id)


async def delete(rules: Rules, rule: Rule) -> object:
    return await rules.recurring.delete(rules.scene.account_id, rule.recurring_id)


async def other_times(rules: Rules, rule: Rule) -> object:
    far = Timing(every_ms=SECOND_MS, starts_at_ms=START_MS + 3_600_000)
    return await rules.change(rule, timing=far)


async def other_end(rules: Rules, rule: Rule) -> object:
    """Which has passed, and is behind the first time."""
    end_ms = START_MS + 3 * SECOND_MS
    return await settled(lambda: rules.change(rule, timing=replace(rule.timing, ends_at_ms=end_ms)))


WAYS = (pause, pause_and_resume, delete, other_times, other_end)
STANDINGS = (
    waits,
    held,
    held_since,
    lost,
    advanced,
    cancelled,
    ended,
    put_off,
    on_hold,
    of_a_paused_account,
    of_a_suspended_account,
    blocked,
)


@pytest.mark.slow
@pytest.mark.parametrize("lost_", ["nothing", REPLY, COMMAND])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("standing", STANDINGS)
async def test_what_came_up_until_a_rule_stops_is_told_once(
    rules: Rules, standing: Standing, way: Way, lost_: str
) -> None:
    rule = await rules.create(EACH_SECOND)
    found = await standing(rules, rule)
    with losing(rules.scene.store, lost_):
        await settled(lambda: way(rules, rule))
    await settled(lambda: way(rules, rule))
    await rules.recurring.advance(found)
    await rules.scene.ack(found)
    await settled(lambda: delete(rules, rule))
    for _ in range(3):
        await rules.tend()
    told = [each for each in await times_told(rules, rule) if each <= START_MS + 7 * SECOND_MS]
    assert told == [START_MS + n * SECOND_MS for n in range(1, 8)]


async def test_a_stop_on_each_server_writes_the_entry_with_the_state(scene: Scene) -> None:
    """The occurrence has been due for ten seconds, by what the rule's record says."""
    rules = Rules(scene)
    since_ms = await scene.clock.now_ms() - 60 * SECOND_MS
    rule = await rules.create(replace(EACH_SECOND, starts_at_ms=since_ms))
    late_ms = (rule.slot_ms or 0) - 10 * SECOND_MS
    await scene.redis.hset(rules.key(rule), mapping={"s": late_ms, "l": late_ms - SECOND_MS})
    await pause(rules, rule)
    [entry] = await scene.log(statuses=["skipped"])
    assert entry.scheduled_at_ms == late_ms + SECOND_MS
    assert entry.missed in (9, 10)  # the clock goes on
    await pause(rules, rule)
    await delete(rules, rule)
    assert len(await scene.log(statuses=["skipped"])) == 1


async def test_another_end_while_an_occurrence_is_late_tells_no_time_twice(rules: Rules) -> None:
    """Two entries in one step: its own slot, and what came up behind what was told before."""
    rule = await rules.create(EACH_SECOND)
    await rules.to(START_MS + 4 * SECOND_MS)
    late_end = replace(rule.timing, ends_at_ms=START_MS + 3_600_000)
    await rules.change(rule, timing=late_end)
    await rules.to(START_MS + 7 * SECOND_MS + 1)
    assert await rules.scene.store.check() == []
    await other_times(rules, rule)
    assert await times_told(rules, rule) == [START_MS + n * SECOND_MS for n in range(1, 8)] + [
        START_MS + 3_600_000
    ]


async def test_a_blocked_stretch_is_told_as_it_begins_and_as_it_ends(rules: Rules) -> None:
    rule = await rules.create(replace(EACH_SECOND, ends_at_ms=START_MS + 60 * SECOND_MS))
    await blocked(rules, rule)
    entries = await rules.scene.log(statuses=["skipped"])
    assert [(each.scheduled_at_ms, each.missed) for each in entries] == [
        (START_MS + 2 * SECOND_MS, 1)
    ]
    await rules.to(START_MS + 61 * SECOND_MS)
    await rules.tend()
    found = await rules.read(rule)
    assert (found.state, found.missed) == (RuleState.ENDED, 59)
    entries = await rules.scene.log(statuses=["skipped"])
    assert [(each.scheduled_at_ms, each.missed) for each in entries] == [
        (START_MS + 3 * SECOND_MS, 58),
        (START_MS + 2 * SECOND_MS, 1),
    ]


async def test_what_a_rule_has_missed_stays_until_it_is_blocked_again(rules: Rules) -> None:
    rule = await rules.create(EACH_SECOND)
    await blocked(rules, rule)
    await rules.scene.store.accounts.grant(rules.scene.account_id, 1)
    await rules.recurring.resume(rules.scene.account_id, rule.recurring_id)
    assert (await rules.read(rule)).missed == 6
    await rules.to(START_MS + 8 * SECOND_MS)
    await rules.fire()
    found = await rules.read(rule)
    assert (found.state, found.missed) == (RuleState.BLOCKED, 0)


async def taken_over(rules: Rules, rule: Rule) -> object:
    """The worker is lost, and another one has the occurrence."""
    await rules.scene.clock.pass_ms(LEASE_MS)
    return await rules.fire()


async def another_body(rules: Rules, rule: Rule) -> object:
    return await rules.change(rule, body=b"{}")


async def cancel(rules: Rules, rule: Rule) -> object:
    waiting = (await rules.read(rule)).schedule_id
    return await rules.scene.cancel(str(waiting))


CUTS = [(REPLY,), (COMMAND,), ("", REPLY), ("", COMMAND)]


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("then", [taken_over, another_body, cancel, *WAYS])
@pytest.mark.parametrize("credits", [0, 50])
async def test_an_advance_that_is_cut_short_loses_no_time(
    rules: Rules, credits: int, then: Way, cut: tuple[str, ...]
) -> None:
    """The worker has a late occurrence, its step or the reply to it is lost, and the worker too.
    Without credits the step is followed by another one, which blocks the rule."""
    rule = await rules.create(EACH_SECOND)
    await rules.take_credits(credits)
    await rules.to(START_MS + 4 * SECOND_MS)
    found = await rules.scene.claim(lease_ms=5)
    with losing(rules.scene.store, *cut):
        await settled(lambda: rules.recurring.advance(found))
    await rules.to(START_MS + 7 * SECOND_MS + 1)
    await settled(lambda: then(rules, rule))
    await rules.scene.ack(await rules.scene.claim())
    await settled(lambda: delete(rules, rule))
    for _ in range(3):
        await rules.tend()
    told = [each for each in await times_told(rules, rule) if each <= START_MS + 7 * SECOND_MS]
    assert told == [START_MS + n * SECOND_MS for n in range(1, 8)]


async def test_a_change_beside_a_slow_store_loses_no_entry(
    rules: Rules, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times of the new rule come up while its occurrence is read, which a worker has."""
    rule = await rules.create(EACH_SECOND)
    await rules.to(START_MS + SECOND_MS)
    found = await rules.scene.claim(lease_ms=1_000_000)
    await rules.to(START_MS + 5 * SECOND_MS)

    async def slow(*arguments: Any) -> Any:
        await rules.scene.clock.pass_ms(2 * SECOND_MS)
        return await read_one(*arguments)

    monkeypatch.setattr("scheduler.store.recurring.tending.read_one", slow)
    soon = Timing(every_ms=SECOND_MS, starts_at_ms=START_MS + 6 * SECOND_MS)
    await rules.change(rule, timing=soon)
    await rules.recurring.advance(found)
    await rules.scene.ack(found)
    await delete(rules, rule)
    told = [each for each in await times_told(rules, rule) if each <= START_MS + 7 * SECOND_MS]
    assert told == [START_MS + n * SECOND_MS for n in range(1, 8)]
