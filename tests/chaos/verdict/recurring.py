"""What must hold of recurring schedules: each slot has one occurrence, or a skipped entry. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.chaos.history import Ruled, Skipped, to_ms
from tests.chaos.verdict.evidence import CLAIMED_MS, Call, Case, Rule
from tests.chaos.verdict.occurrences import wanted
from tests.chaos.verdict.shared import Looked

_MINUTE_MS = 60_000
_ENDS = ("rule pause", "rule delete")


class Window(NamedTuple):
    """From when to when a rule surely had these times, or surely none."""

    ruled: Ruled | None
    since_ms: float
    until_ms: float


def never_twice(case: Case) -> Looked:
    """No slot has two occurrences that were not cancelled, nor one and an entry that it was
    skipped; each is a time of its rule."""
    breaches, looked = [], 0
    for rule in case.rules:
        slots = [slot for _, slot in rule.occurrences if slot is not None]
        looked += len(slots)
        live = [slot for e, slot in rule.occurrences if slot and e.status != "cancelled"]
        skipped = [slot for each in rule.skipped for slot in _skipped(rule, each)]
        versions = wanted(rule)
        for slot, times in Counter(live + skipped).items():
            if times > 1:
                breaches.append(f"{rule.tag} has {times} occurrences or entries for {slot:.0f}")
        odd = {slot for slot in slots if not any(_is_time(ruled, slot) for ruled in versions)}
        breaches += [f"{rule.tag} has no such time as {slot:.0f}" for slot in odd]
    return Looked(looked, breaches)


def never_none(case: Case) -> Looked:
    """Each time at which a rule surely was active has an occurrence, be it a cancelled one, or an
    entry that it was skipped: also the last ones before a pause or the deletion."""
    breaches, looked = [], 0
    for rule in case.rules:
        made = {slot for _, slot in rule.occurrences if slot is not None}
        made |= {slot for each in rule.skipped for slot in _skipped(rule, each)}
        for window in windows(rule):
            until_ms = window.until_ms
            sent_ms = _sent_early(rule, until_ms)
            times = [time for time in _times(window) if sent_ms < time < until_ms]
            looked += len(times)
            missing = [time for time in times if time not in made]
            breaches += [f"{rule.tag} has no occurrence for {time:.0f}" for time in missing]
    return Looked(looked, breaches)


def one_waits(case: Case) -> Looked:
    """At the end one occurrence with a slot waits for an active rule, the one that it names, and
    none for another."""
    breaches = []
    for rule in case.rules:
        waits = [e.schedule_id for e, slot in rule.occurrences if slot and e.status == "scheduled"]
        body = rule.body or {}
        expected = [body["scheduleId"]] if body.get("state") == "active" else []
        if waits != expected:
            state = body.get("state", "deleted")
            breaches.append(f"{rule.tag} is {state}, names {expected}, and {waits} wait")
    return Looked(len(case.rules), breaches)


def as_told(case: Case) -> Looked:
    """A rule is in the state of the last call about that, sends nothing for times of a pause, and
    was triggered only as often as clients asked for it."""
    breaches = []
    arrived = {story.occurrence_id for story in case.stories.values() if story.arrivals}
    for rule in case.rules:
        state = _state(rule)
        stands = (rule.body or {}).get("state", "deleted")
        if state is not None and stands != state:
            breaches.append(f"{rule.tag} is {stands}, and was told to be {state}")
        for window in windows(rule, active=False):
            breaches += [
                f"{rule.tag} sent {entry.schedule_id} for {slot:.0f}, in a pause"
                for entry, slot in rule.occurrences
                if slot and entry.schedule_id in arrived
                if window.since_ms + CLAIMED_MS < slot < window.until_ms
            ]
        triggers = [c for c in rule.calls if c.invoked.call == "rule trigger"]
        asked = {c.invoked.key for c in triggers if c.result != "fail"}
        sent = sum(slot is None for _, slot in rule.occurrences)
        logged = {entry.schedule_id for entry, _ in rule.occurrences}
        told = {each for call in rule.calls for each in call.ids if isinstance(each, str)}
        breaches += [f"{rule.tag} made {each}, which is not in the log" for each in told - logged]
        if sent > len(asked):
            breaches.append(f"{rule.tag} was triggered {sent} times, of {len(asked)} asked for")
    return Looked(len(case.rules), breaches)


def _sent_early(rule: Rule, until_ms: float) -> float:
    """The newest slot of what was claimed before its slot, because its owner gave it another time,
    and before `until_ms`: no other times begin before that slot, lest one is made twice. 0: none.
    A worker that is lost has claimed it long before another one sends it."""
    sent = (
        (to_ms(entry.scheduled_at), slot)
        for entry, slot in rule.occurrences
        if entry.executed_at and slot
    )
    return max(
        (slot for due_ms, slot in sent if due_ms < min(until_ms, slot - CLAIMED_MS)), default=0
    )


def windows(rule: Rule, *, active: bool = True) -> Iterator[Window]:
    """When it surely was active, or surely paused: between the answer of one call and the beginning
    of the next that may end that. A call without an answer may be done at any later time."""
    ruled: Ruled | None = None
    since_ms: float | None = None
    paused = False
    for call in rule.calls:
        if not _matters(call):
            continue
        if since_ms is not None and paused != active and (ruled or paused):
            yield Window(None if paused else ruled, since_ms, call.invoked.wall_ms)
        since_ms = None
        if call.result == "unknown" and call.invoked.call != "rule":
            return
        if call.result == "ok" and call.answered is not None:
            ruled = call.invoked.ruled or ruled
            paused = call.invoked.call in _ENDS or (paused and call.invoked.ruled is not None)
            changed = call.invoked.call == "rule change"  # beside one that a worker has
            since_ms = call.answered.wall_ms + (CLAIMED_MS if changed else 0)


def _matters(call: Call) -> bool:
    """Whether it may change the times, or end them."""
    kind = call.invoked.call
    times = kind in ("rule", "rule change") and call.invoked.ruled is not None
    return call.result != "fail" and (times or kind in (*_ENDS, "rule resume"))


def _state(rule: Rule) -> str | None:
    """None if that is not known."""
    states: dict[str, str] = {
        "rule": "active",
        "rule pause": "paused",
        "rule resume": "active",
        "rule delete": "deleted",
    }
    told = [call for call in rule.calls if call.invoked.call in states and call.result != "fail"]
    if any(call.result == "unknown" for call in told if call.invoked.call != "rule"):
        return None
    return states[told[-1].invoked.call] if told and told[-1].result == "ok" else None


def _times(window: Window) -> Iterator[float]:
    ruled = window.ruled
    if ruled is None:
        return
    step_ms, anchor_ms = ruled.every_ms or _MINUTE_MS, ruled.anchor_ms if ruled.every_ms else 0
    number = max(0, -int(-(window.since_ms - anchor_ms) // step_ms))
    while (time := anchor_ms + number * step_ms) < window.until_ms:
        yield float(time)
        number += 1


def _is_time(ruled: Ruled, slot: float) -> bool:
    if not ruled.every_ms:
        return slot % _MINUTE_MS == 0
    return slot >= ruled.anchor_ms and (slot - ruled.anchor_ms) % ruled.every_ms == 0


def _skipped(rule: Rule, skipped: Skipped) -> Iterator[float]:
    """The times of an entry. Those of the rule as it was then: of the versions with its first time,
    the last one that was wanted by then."""
    first_ms = to_ms(skipped.scheduled_at)
    calls = [c for c in rule.calls if c.invoked.ruled and _is_time(c.invoked.ruled, first_ms)]
    by_then = [c for c in calls if c.invoked.wall_ms <= first_ms] or calls
    if by_then and (ruled := by_then[-1].invoked.ruled):
        for number in range(skipped.missed):
            yield first_ms + number * (ruled.every_ms or _MINUTE_MS)


BOOKS: tuple[tuple[str, Callable[[Case], Looked]], ...] = (
    ("a rule's slot: never two for one", never_twice),
    ("a rule's slot: never none", never_none),
    ("a rule: one waits while it is active", one_waits),
    ("a rule: as it was told", as_told),
)
