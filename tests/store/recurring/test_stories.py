"""What becomes of a rule, act by act: hours count from its creation, at the start of one."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.errors import InvalidRequest
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Rule, RuleState
from tests.store.recurring.acts import (
    Act,
    ack,
    advance,
    at,
    cancel,
    change,
    checked,
    claim,
    credits,
    in_turn,
    moved,
    ms_at,
    pause,
    pauses,
    resume,
    tend,
    tend_it,
)
from tests.store.recurring.rules import ALL, DAY_MS, HOURLY, Rules, slot_of

HALF_PAST, AT_NOON = Timing(cron="30 * * * *"), Timing(cron="0 12 * * *")
FROM_TOMORROW, ANY_HOUR = Timing(every_ms=DAY_MS), Timing(cron="0,0 * * * *")
YEAR, DECEMBER, JANUARY = 365 * 24, 256, 1000
WHY = "Insufficient credits"


def ends(hours: float) -> Timing:
    return replace(HOURLY, ends_at_ms=ms_at(hours))


def lasts(days: int) -> Timing:
    return replace(HOURLY, expires_after_ms=days * DAY_MS)


def fires(hours: float) -> Act:
    """The occurrence of that slot, alone."""

    async def act(rules: Rules, _: Rule) -> None:
        assert [slot_of(each.request) for each in await rules.fire()] == [ms_at(hours)]

    return act


def tends(count: int) -> Act:
    async def act(rules: Rules, _: Rule) -> None:
        assert await rules.tend() == count

    return act


def back(count: int) -> Act:
    """So many are brought back from a future that a clock was in."""

    async def act(rules: Rules, _: Rule) -> None:
        assert await rules.scene.store.renewal.bring_back(rules.scene.shard) == count

    return act


def waits(*hours: float, moved_by_ms: int = 0) -> Act:
    """The slots of the occurrences that wait, which are due then."""

    async def act(rules: Rules, _: Rule) -> None:
        expected = [(ms_at(each), ms_at(each, moved_by_ms)) for each in hours]
        assert await rules.waiting() == expected

    return act


def skips(*entries: tuple[float, int, str]) -> Act:
    """The first hour of each entry of the log, how many were missed, and why."""

    async def act(rules: Rules, rule: Rule) -> None:
        found = await rules.scene.log(statuses=["skipped"], descending=False)
        assert all((each.schedule_id, each.status_code) == ("", 0) for each in found)
        assert {each.recurring_id for each in found} <= {rule.recurring_id}
        told = [(each.scheduled_at_ms, each.missed, each.error_message) for each in found]
        assert told == [(ms_at(hours), *more) for hours, *more in entries]

    return act


def stands(state: RuleState, missed: int = 0, slot: float | None = None, reason: str = "") -> Act:
    async def act(rules: Rules, rule: Rule) -> None:
        found = await rules.read(rule)
        assert (found.state, found.missed, found.reason) == (state, missed, reason)
        assert slot is None or found.slot_ms == ms_at(slot)
        assert (found.schedule_id is None) == (state != RuleState.ACTIVE)
        assert state != RuleState.ENDED or (found.slot_ms, await rules.due()) == (None, {})

    return act


def refuses(field: str, timing: Timing) -> Act:
    async def act(rules: Rules, rule: Rule) -> None:
        with pytest.raises(InvalidRequest) as refused:
            await rules.change(rule, timing=timing)
        assert [each.field for each in refused.value.details] == [field]

    return act


def looked_after(hours: float) -> Act:
    async def act(rules: Rules, _: Rule) -> None:
        assert list((await rules.due()).values()) == [ms_at(hours)]

    return act


def expires(hours: float) -> Act:
    async def act(rules: Rules, _: Rule) -> None:
        page = await rules.scene.store.unended.page(rules.scene.account_id, ALL)
        assert [each.request.expires_at_ms for each in page.schedules] == [ms_at(hours)]

    return act


ACTIVE, BLOCKED, ENDED = RuleState.ACTIVE, RuleState.BLOCKED, RuleState.ENDED
BODY, POOR = change(body=b"{}"), "insufficient_credits"
STORIES: dict[str, list[Any]] = {
    "times that an outage missed are one entry, and not made up for": [
        *(HOURLY, at(5, 1), fires(1), waits(6), skips((2, 4, ""))),
    ],
    "a clock that was set back repeats no slot": [
        *(HOURLY, at(1), fires(1), at(0), cancel, tends(1), waits(3)),
    ],
    "an occurrence that ended without an advance, as of an older worker": [
        *(HOURLY, at(1), claim, ack, tends(0), at(1, 60_000), tends(1), waits(2)),
    ],
    "one whose occurrence is late is looked at ever later": [
        *(HOURLY, at(2), tends(1), looked_after(3), waits(1)),
    ],
    "other times count what a late occurrence stood for as missed": [
        *(HOURLY, at(5, 1), BODY, skips(), change(timing=FROM_TOMORROW), skips((1, 5, ""))),
        waits(24),
    ],
    "other times count what came up while a lost worker held a late occurrence": [
        *(HOURLY, at(1), claim, at(5, 1), change(timing=FROM_TOMORROW), skips((2, 4, ""))),
        *(advance, ack, skips((2, 4, "")), waits(24)),
    ],
    # Five seconds before the time it is tried, and once it has passed it is missed.
    "without credits it is blocked, and goes on with the next time": [
        *(HOURLY, credits(0), at(1), fires(1), stands(BLOCKED, 0, 2, POOR)),
        *(at(2, -5001), tends(0), at(2, -5000), tends(1), stands(BLOCKED, 0, 2, POOR)),
        *(at(2), tends(1), stands(BLOCKED, 1, 3, POOR), at(3, -5001), tends(0)),
        *(at(3, -5000), tends(1), at(3), tends(1), stands(BLOCKED, 2, 4, POOR)),
        *(at(4, -5000), tends(1), at(4), tends(1), stands(BLOCKED, 3, 5, POOR)),
        *(skips((2, 1, WHY)), credits(5), at(5, -5000), tends(1), stands(ACTIVE, 3, 5)),
        *(waits(5), skips((2, 1, WHY), (3, 2, WHY))),
    ],
    "blocked, it counts what it missed while nothing ran": [
        *(HOURLY, credits(0), at(1), fires(1), at(9, 1), tends(1), stands(BLOCKED, 8, 10, POOR)),
        skips((2, 1, WHY)),
    ],
    "one whose times are over has ended": [
        *(ends(2), at(1), fires(1), at(2), fires(2), stands(ENDED), waits()),
    ],
    "an occurrence that is held outlives a pause, and is not made twice": [
        *(HOURLY, at(1, -50), claim, pause, advance, resume, ack, waits(2)),
    ],
    "times during a pause are not missed": [HOURLY, pause, at(5, 1), resume, waits(6), skips()],
    "a change of the times moves what waits": [
        *(HOURLY, change(timing=HALF_PAST), waits(0.5), change(timing=AT_NOON), waits(4)),
        *(refuses("cron", Timing(cron="0 0 30 2 *")), waits(4)),
    ],
    "a time to which the owner moved an occurrence stays": [
        *(HOURLY, moved(1, 7), BODY, waits(1, moved_by_ms=7)),
    ],
    "a slot that was fired early is not made again": [
        *(HOURLY, moved(0), fires(1), waits(2), change(timing=ANY_HOUR), waits(2)),
    ],
    "a cancelled time does not hold up other times, tended or not": [
        *(AT_NOON, cancel, tends(1), waits(28), pause, resume, waits(28)),
        *(change(timing=HALF_PAST), waits(0.5), cancel, change(timing=HOURLY), waits(1)),
    ],
    "another end moves no occurrence, late or not": [
        *(HOURLY, cancel, tends(1), change(timing=ends(25)), waits(2), refuses("endsAt", ends(1))),
        *(at(3), change(timing=ends(2)), waits(2), fires(2), stands(ENDED)),
    ],
    "how long occurrences last moves none, late or not": [
        *(HOURLY, cancel, tends(1), change(timing=lasts(1)), waits(2)),
        *(at(3), change(timing=lasts(2)), waits(2), expires(50)),
    ],
    "a change beside a held occurrence makes the next": [
        *(HOURLY, at(1), claim, BODY, waits(1, 2), advance, ack, waits(2)),
    ],
    "a change of a paused rule makes nothing": [
        *(HOURLY, pause, change(timing=HALF_PAST, body=b"{}"), stands(RuleState.PAUSED), waits()),
        *(resume, waits(0.5)),
    ],
    "a pause ends by itself, and its times are not missed": [
        *(HOURLY, pauses(3.25), waits(), at(3.25, -1), tends(0), stands(RuleState.PAUSED)),
        *(at(3.25), tends(1), stands(ACTIVE, 0, 4), waits(4), skips(), checked),
    ],
    "a pause ends at a time of the rule": [HOURLY, pauses(3), at(3), tends(1), waits(4), skips()],
    "a time that passed before the end of a pause was noticed is sent late": [
        *(HOURLY, pauses(3.25), at(6.5), tends(1), waits(4), fires(4), skips((5, 2, "")), waits(7)),
    ],
    "a resume ends a pause before its end": [
        *(HOURLY, pauses(3.25), resume, waits(1), at(1), fires(1), at(3.25), waits(2)),
    ],
    "a resume after the end of a pause changes nothing": [
        *(HOURLY, pauses(3.25), at(5.5), resume, waits(4), skips()),
    ],
    "another pause takes the place of one": [
        *(HOURLY, pauses(3.25, "a"), pauses(5.25, "b"), at(4.5), tends(0), waits(), at(5.25)),
        *(tends(1), waits(6), pauses(7.25), pauses(None), at(9), tends(0), waits()),
    ],
    "a pause with an end that cannot go on then is blocked": [
        *(HOURLY, pauses(3.25), credits(0), at(3.25), tends(1), stands(BLOCKED, 0, 4, POOR)),
    ],
    "a pause whose end comes when no time is left": [
        *(ends(3), pauses(3.25), at(3.25), tends(1), stands(ENDED), waits()),
    ],
    "a pause with an end waits for the occurrence that a worker has": [
        *(HOURLY, at(1), claim, pauses(1.5), at(1.5), tend, waits(1, 2), ack, waits(2), checked),
    ],
    "a change keeps the end of a pause": [
        *(HOURLY, pauses(3.25), change(timing=HALF_PAST), at(3.25), tends(1), waits(3.5)),
    ],
    "an ended rule goes on with other times": [
        *(ends(1), at(1), fires(1), BODY, stands(ENDED), change(timing=HOURLY), waits(2)),
        stands(ACTIVE),
    ],
    "a change without credit for the next occurrence blocks": [
        *(HOURLY, credits(0), at(1), claim, BODY, stands(BLOCKED, 0, 2, POOR), advance),
        *(credits(1), resume, stands(ACTIVE, 0, 2)),
    ],
    "after a clock that was a year ahead its next time is the one after now": [
        *(HOURLY, at(YEAR), fires(1), back(0), at(0), stands(ACTIVE, 0, YEAR + 1), back(1)),
        *(waits(1), back(0), at(1), fires(1), waits(2), checked),
    ],
    "after such a clock one that was cancelled then comes at its next time": [
        *(HOURLY, at(YEAR), fires(1), cancel, tends(1), at(0), back(1), waits(1)),
    ],
    "after a clock that was an hour ahead nothing is sent twice": [
        *(HOURLY, at(1), fires(1), waits(2), at(0), back(0), waits(2)),
    ],
    "later slots that its owner had sent now stay sent": [
        *(HOURLY, moved(0), fires(1), moved(0), fires(2), moved(0), fires(3), back(0), waits(4)),
    ],
    "a blocked one is left, as its owner may have had a later slot sent": [
        *(Timing(cron="0 0 1 * *"), moved(0), credits(0), fires(DECEMBER)),
        *(stands(BLOCKED, 0, JANUARY, POOR), credits(5), back(0), tend_it, waits(JANUARY)),
    ],
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
async def test_a_rule(fake_rules: Rules, story: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.store.recurring.renewal._PAUSE_S", 0)
    timing, *acts = story
    rule = await fake_rules.create(timing, lane="a")
    await in_turn(*acts)(fake_rules, rule)
