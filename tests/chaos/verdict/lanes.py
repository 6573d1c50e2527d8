"""What must hold of an account's lanes: their rate, their parallelism, their pauses and calms, the
order in them. That nothing is dropped in them is each schedule's own promise. Pure.

After a thaw a worker may still send what it handed over before: such arrivals are not counted, nor
any while a fault may have let a worker go on without its lease. A killed one does not: what it had
comes again, and then needs a place and a slot like any other. The store of sentinels may forget
moments at a failover."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.support.windows import most_at_once
from tests.chaos.history import Arrival, Limits, to_ms
from tests.chaos.keeper import LANES, QUEUE_LANE
from tests.chaos.verdict.evidence import (
    CALM_MS,
    CLAIMED_MS,
    SLACK_MS,
    Call,
    Case,
    Story,
    took_ms,
    woke_up,
)
from tests.chaos.verdict.repeats import LOST
from tests.chaos.verdict.shared import Looked

_LANES = (*LANES, QUEUE_LANE)
_PER_MS = 1000.0
# Between a worker and the target on a busy machine; a window is judged as if it were so much less.
_JITTER_MS = 300.0
_AT_ONCE_MS = 0.1


class Start(NamedTuple):
    """An arrival in a lane."""

    story: Story
    arrival: Arrival
    until_ms: float

    @property
    def at_ms(self) -> float:
        return self.arrival.at_ms


def rates(case: Case) -> Looked:
    """No second has more starts than the rate and the burst, those of before a change or after."""
    breaches, looked = [], 0
    for lane in _LANES:
        starts = [each for each in _starts(case, lane) if not _is_stale(case, each)]
        looked += len(starts)
        for first in starts:
            end_ms = first.at_ms + _PER_MS
            found = sum(first.at_ms <= each.at_ms < end_ms - _JITTER_MS for each in starts)
            allowed = _most(case, lane, first.at_ms, end_ms, _starts_in_a_window)
            if found > allowed and not _forgets(case, first.at_ms, end_ms):
                breaches.append(f"{lane}: {found} starts in a second, of {allowed:g} allowed")
    return Looked(looked, breaches)


def parallel(case: Case) -> Looked:
    """No more are under way at once than the parallelism, of before a change or after. Those of
    lost workers are not counted, as these keep their places for a lease only."""
    breaches, looked = [], 0
    for lane in _LANES:
        starts = [each for each in _starts(case, lane) if _is_recorded(each)]
        safe = [each for each in starts if not _is_disturbed(case, each)]
        looked += len(safe)
        for first in safe:
            spans = [(s.at_ms, s.until_ms) for s in safe if s.at_ms <= first.at_ms < s.until_ms]
            since_ms = min((begin for begin, _ in spans), default=first.at_ms)
            allowed = _most(case, lane, since_ms, first.at_ms, lambda limits: limits.parallelism)
            found = most_at_once(spans)
            if found > allowed and not _forgets(case, since_ms, first.at_ms):
                breaches.append(f"{lane}: {found} at once, of {allowed:g} allowed")
    return Looked(looked, breaches)


def pauses(case: Case) -> Looked:
    """While a lane or the account is surely paused nothing starts but what was claimed before."""
    breaches = []
    spans = [(lane, *span) for lane in (*_LANES, "") for span in paused_spans(case, lane)]
    for lane, began_ms, ended_ms in spans:
        for start in _starts(case, lane or None):
            into_ms = start.at_ms - began_ms
            if into_ms > CLAIMED_MS and start.at_ms < ended_ms:
                if _is_disturbed(case, start) or _is_resent(start):
                    continue
                name = lane or "the account"
                breaches.append(
                    f"{start.story.tag} arrived {into_ms:.0f} ms into a pause of {name}"
                )
    return Looked(len(spans), breaches)


def calms(case: Case) -> Looked:
    """From the answer that asks for it until the calm ends, nothing starts in a lane but what was
    claimed before. No lane is calm for as long as targets of callbacks ask: they calm none."""
    breaches, looked = [], 0
    for call in case.calls:
        until = call.answered.calm_until if call.answered else None
        if until and call.answered and to_ms(until) > call.answered.wall_ms + CALM_MS:
            breaches.append(f"{call.name} was told of a calm until {until}")
    for lane in _LANES:
        starts = _starts(case, lane)
        asking = [each for each in starts if _asks_for_calm(each)]
        looked += len(asking)
        for asked in asking:
            since_ms, until_ms = asked.at_ms + CLAIMED_MS, asked.at_ms + CALM_MS - _JITTER_MS
            meanwhile = [each for each in starts if since_ms < each.at_ms < until_ms]
            breaches += [
                f"{lane}: {each.story.tag} arrived {each.at_ms - asked.at_ms:.0f} ms into a calm"
                for each in meanwhile
                if not _is_disturbed(case, each) and not _forgets(case, asked.at_ms, each.at_ms)
            ]
    return Looked(looked, breaches)


def order(case: Case) -> Looked:
    """In a lane the first attempts come by due time: none long after one that was due later,
    though it had been there."""
    breaches, looked = [], 0
    for lane in _LANES:
        firsts = [each for each in _starts(case, lane) if each.arrival is each.story.arrivals[0]]
        plain = [each for each in firsts if not each.story.changes and _is_plain(each.story)]
        looked += len(plain)
        for late in plain:
            ready_ms, due_ms = _ready_ms(late.story), to_ms(late.arrival.trigger_at)
            for other in plain:
                behind_ms = late.at_ms - other.at_ms
                after = to_ms(other.arrival.trigger_at) > max(ready_ms, due_ms)
                if (
                    after
                    and behind_ms > SLACK_MS
                    and not case.cost_a_lease(ready_ms, late.at_ms, lane)
                ):
                    told = f"{late.story.tag} came {behind_ms:.0f} ms after {other.story.tag}"
                    breaches.append(f"{lane}: {told}, which was due later")
    return Looked(looked, breaches)


def paused_spans(case: Case, lane: str) -> Iterator[tuple[float, float]]:
    """When it was surely paused: from a pause's answer to its own end, or to the first call that
    may have ended it. A call without an answer may be done at any later time."""
    calls = _calls(case, lane)
    for place, call in enumerate(calls):
        limits, answered = call.invoked.limits, call.answered
        if limits is None or limits.paused_until_ms is None or call.result != "ok":
            continue
        assert answered is not None
        maybe = [each for each in calls[:place] if each.result == "unknown" and _ends(each)]
        others = [each.invoked.wall_ms for each in calls[place + 1 :] if _ends(each)]
        end_ms = min([limits.paused_until_ms, *others])
        if not maybe and answered.wall_ms < end_ms:
            yield answered.wall_ms, end_ms


def _calls(case: Case, lane: str) -> list[Call]:
    return [call for call in case.calls if call.invoked.limits and call.invoked.limits.lane == lane]


def _ends(call: Call) -> bool:
    """Whether it may end a pause, by resuming, or with a pause that is shorter."""
    limits = call.invoked.limits
    paused = limits is not None and (limits.resumed or limits.paused_until_ms is not None)
    return paused and call.result != "fail"


def _most(
    case: Case,
    lane: str,
    since_ms: float,
    until_ms: float,
    of: Callable[[Limits], int | None],
) -> float:
    """The highest limit that may have been in force meanwhile; infinite if there was none."""
    certain: list[float] = []
    maybe: list[float] = []
    known = False
    for call in _calls(case, lane):
        limits, answered = call.invoked.limits, call.answered
        if limits is None or limits.resumed or limits.paused_until_ms is not None:
            continue
        if call.invoked.wall_ms > until_ms or call.result == "fail":
            continue
        limit = of(limits)
        if call.result == "unknown" or answered is None:
            maybe.append(float("inf") if limit is None else limit)
            continue
        if answered.wall_ms + SLACK_MS <= since_ms:  # those before it no longer hold
            certain, known = [], True
        certain.append(float("inf") if limit is None else limit)
    return max(certain + maybe) if known else float("inf")


def _starts_in_a_window(limits: Limits) -> int | None:
    return None if limits.rate is None else limits.rate + limits.burst


def _starts(case: Case, lane: str | None) -> list[Start]:
    """By time; of a lane, or all of the account."""
    found = []
    for story in case.stories.values():
        for arrival in story.arrivals:
            wanted = story.wanted_by(arrival)
            if wanted is not None and lane in (None, wanted.lane):
                ms = max(_AT_ONCE_MS, took_ms(wanted.behaviour, arrival.path))
                found.append(Start(story, arrival, arrival.at_ms + ms))
    return sorted(found, key=lambda start: start.at_ms)


def _is_stale(case: Case, start: Start) -> bool:
    return woke_up(case, start.at_ms, start.at_ms)


def _is_disturbed(case: Case, start: Start) -> bool:
    """Whether a fault may have kept it back since its claim, which is a lease ago at most. A killed
    worker keeps nothing back."""
    since_ms = start.at_ms - case.run.lease_ms - SLACK_MS
    return any(
        outage.costs_leases
        and not outage.kills_worker
        and outage.began_ms <= start.at_ms
        and outage.healed_ms >= since_ms
        for outage in case.outages
    )


def _is_recorded(start: Start) -> bool:
    """Whether the log has the outcome of this attempt, so that its worker held it until then."""
    entry, attempts = start.story.entry, {each.attempt for each in start.story.attempts}
    if entry is not None and entry.error_message != LOST:
        attempts.add(entry.attempt)
    return start.arrival.attempt in attempts


def _is_resent(start: Start) -> bool:
    """Whether it is the second sending of what the target reset."""
    wanted = start.story.wanted_by(start.arrival)
    return wanted is not None and wanted.behaviour == "reset"


def _asks_for_calm(start: Start) -> bool:
    wanted = start.story.wanted_by(start.arrival)
    return wanted is not None and wanted.behaviour == "calming" and start.arrival.attempt == 1


def _is_plain(story: Story) -> bool:
    return story.entry is not None and not story.asked.on_existing and not story.asked.retries


def _ready_ms(story: Story) -> float:
    """From when on it surely was there and due."""
    assert story.entry is not None
    done = [c.answered.wall_ms for c in story.creates if c.answered and c.result == "ok"]
    return max(to_ms(story.entry.scheduled_at), min(done, default=float("inf")))


def _forgets(case: Case, since_ms: float, until_ms: float) -> bool:
    """Whether a failover was close."""
    return case.run.store == "sentinel" and any(
        not outage.target.startswith(("worker", "api", "service", "account"))
        and outage.began_ms <= until_ms
        and outage.healed_ms + 10 * SLACK_MS >= since_ms
        for outage in case.outages
    )
