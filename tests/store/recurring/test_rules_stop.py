"""Every way out of `active` settles what came up until then. Each time of a rule has an occurrence,
perhaps a cancelled one, or is one of a `skipped` entry: never neither, never both."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler import ids
from scheduler.errors import InvalidRequest
from scheduler.lane_settings import Pause
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft, Rule, RuleState
from scheduler.store.queries.reading import read_one
from tests.store.clocks import START_MS
from tests.store.losses import COMMAND, REPLY, losing
from tests.store.recurring.acts import (
    Act,
    ack,
    advance,
    cancel,
    change,
    claim,
    claims,
    credits,
    delete,
    fire,
    in_turn,
    lose,
    moved,
    pause,
    resume,
    tend,
)
from tests.store.recurring.rules import HOUR_MS, HOURLY, Rules, slot_of
from tests.store.scene import LEASE_MS, Scene, settled

SECOND_MS = 1000
EACH_SECOND = Timing(every_ms=SECOND_MS)


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


def second(number: float, ms: int = 0) -> Act:
    return lambda rules, _: rules.to(START_MS + int(number * SECOND_MS) + ms)


async def is_blocked(rules: Rules, rule: Rule) -> None:
    assert (await rules.read(rule)).state == RuleState.BLOCKED


async def is_not_claimed(rules: Rules, _: Rule) -> None:
    assert await rules.scene.claim() == []


async def tells_each_time(rules: Rules, rule: Rule) -> None:
    """Seven seconds have come up."""
    await settled(lambda: delete(rules, rule))
    for _ in range(3):
        await rules.tend()
    told = [each for each in await times_told(rules, rule) if each <= START_MS + 7 * SECOND_MS]
    assert told == [START_MS + n * SECOND_MS for n in range(1, 8)]


SEVENTH = second(7, 1)
BLOCKED = in_turn(
    *(credits(0), second(1), fire, second(2), tend, second(3), tend, second(5), tend, SEVENTH),
    is_blocked,
)
# How the rule stands as its seventh second has come up.
STANDINGS = {
    "no worker came": [SEVENTH],
    "a worker has its late occurrence, and has not advanced the rule": [SEVENTH, claim],
    "a worker has had it since its time, and hangs": [second(1), claim, SEVENTH],
    "the worker that had it is dead": [second(1), claims(5), lose, SEVENTH],
    "a worker has advanced the rule, and not sent it": [SEVENTH, claim, advance],
    "its owner has cancelled it, and the process died": [SEVENTH, cancel],
    "a worker of an older version has sent it": [SEVENTH, claim, ack, lose],
    "its owner has given it a later time": [moved(9 / 3600), SEVENTH],
    "on hold": [lambda rules, _: rules.scene.store.hold.begin(), SEVENTH, is_not_claimed],
    "its account is paused": [lambda rules, _: rules.scene.pause(), SEVENTH, is_not_claimed],
    "its account is suspended": [
        lambda rules, _: rules.scene.store.changes.suspend(rules.scene.account_id),
        *(SEVENTH, is_not_claimed),
    ],
    "blocked": [BLOCKED],
}
OTHER_TIMES = change(timing=replace(EACH_SECOND, starts_at_ms=START_MS + 3_600_000))
WAYS: dict[str, Act] = {
    "paused": pause,
    "paused and resumed": in_turn(pause, resume),
    "deleted": delete,
    "other times": OTHER_TIMES,
    # Which is behind the first time.
    "an end that has passed": lambda rules, rule: rules.change(
        rule, timing=replace(rule.timing, ends_at_ms=START_MS + 3 * SECOND_MS)
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("lost_", ["nothing", REPLY, COMMAND])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("standing", STANDINGS.values(), ids=STANDINGS)
async def test_what_came_up_until_a_rule_stops_is_told_once(
    rules: Rules, standing: list[Act], way: Act, lost_: str
) -> None:
    rule = await rules.create(EACH_SECOND)
    await in_turn(lose, *standing)(rules, rule)
    with losing(rules.scene.store, lost_):
        await settled(lambda: way(rules, rule))
    await settled(lambda: way(rules, rule))
    await in_turn(advance, ack, tells_each_time)(rules, rule)


async def test_a_stop_on_each_server_writes_the_entry_with_the_state(scene: Scene) -> None:
    """The occurrence has been due for ten seconds, by what the rule's record says."""
    rules = Rules(scene)
    since_ms = await scene.clock.now_ms() - 60 * SECOND_MS
    rule = await rules.create(replace(EACH_SECOND, starts_at_ms=since_ms))
    late_ms = (rule.slot_ms or 0) - 10 * SECOND_MS
    stands = f"{ids.local(rule.schedule_id or '')} {late_ms} {late_ms - SECOND_MS}"
    await scene.redis.hset(rules.key(rule), "n", stands)
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
    await OTHER_TIMES(rules, rule)
    assert await times_told(rules, rule) == [START_MS + n * SECOND_MS for n in range(1, 8)] + [
        START_MS + 3_600_000
    ]


async def test_a_blocked_stretch_is_told_as_it_begins_and_as_it_ends(rules: Rules) -> None:
    rule = await rules.create(replace(EACH_SECOND, ends_at_ms=START_MS + 60 * SECOND_MS))
    await BLOCKED(rules, rule)
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
    await BLOCKED(rules, rule)
    await rules.scene.store.accounts.grant(rules.scene.account_id, 1)
    await rules.recurring.resume(rules.scene.account_id, rule.recurring_id)
    assert (await rules.read(rule)).missed == 6
    assert await rules.recurring.blocked(rules.scene.account_id, 5) == (0, [])
    await rules.to(START_MS + 8 * SECOND_MS)
    await rules.fire()
    found = await rules.read(rule)
    assert (found.state, found.missed) == (RuleState.BLOCKED, 0)
    assert await rules.recurring.blocked(rules.scene.account_id, 5) == (1, [found])
    assert await rules.recurring.blocked(rules.scene.account_id, 0) == (1, [])


async def taken_over(rules: Rules, rule: Rule) -> object:
    """The worker is lost, and another one has the occurrence."""
    await rules.scene.clock.pass_ms(LEASE_MS)
    return await rules.fire()


CUTS = [(REPLY,), (COMMAND,), ("", REPLY), ("", COMMAND)]


@pytest.mark.slow
@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.parametrize("then", [taken_over, change(body=b"{}"), cancel, *WAYS.values()])
@pytest.mark.parametrize("credits_", [0, 50])
async def test_an_advance_that_is_cut_short_loses_no_time(
    rules: Rules, credits_: int, then: Act, cut: tuple[str, ...]
) -> None:
    """The worker has a late occurrence, its step or the reply to it is lost, and the worker too.
    Without credits the step is followed by another one, which blocks the rule."""
    rule = await rules.create(EACH_SECOND)
    await rules.take_credits(credits_)
    await rules.to(START_MS + 4 * SECOND_MS)
    found = await rules.scene.claim(lease_ms=5)
    with losing(rules.scene.store, *cut):
        await settled(lambda: rules.recurring.advance(found))
    await rules.to(START_MS + 7 * SECOND_MS + 1)
    await settled(lambda: then(rules, rule))
    await rules.scene.ack(await rules.scene.claim())
    await tells_each_time(rules, rule)


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
    await tells_each_time(rules, rule)


async def test_one_that_has_ended_is_not_paused_whatever_else_changes(fake_rules: Rules) -> None:
    rules, account_id = fake_rules, fake_rules.scene.account_id
    rule = await rules.create(replace(HOURLY, ends_at_ms=START_MS + HOUR_MS))
    await rules.to(START_MS + HOUR_MS)
    await rules.fire()
    assert (await rules.read(rule)).state is RuleState.ENDED

    async def paused_with(**timing: Any) -> Rule:
        def made(now: Rule) -> Draft:
            return Draft(now.request, replace(now.timing, **timing), now.name)

        change = rules.recurring.change
        return await change(account_id, rule.recurring_id, made, lambda _: Pause("us"))

    changed = await paused_with(expires_after_ms=HOUR_MS)
    assert (changed.state, changed.pause) == (RuleState.ENDED, None)
    with pytest.raises(InvalidRequest):
        await paused_with(ends_at_ms=START_MS + HOUR_MS - 1)
    changed = await paused_with(ends_at_ms=None)
    assert changed.state is RuleState.PAUSED
