"""Why requests of an account may have been late: the times in which the service, the account or
one of its lanes sent nothing, in words that name no host, operator or other account. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from api.dashboard.charts import Axis, CauseMark
from api.dashboard.formats import duration
from api.dashboard.zones import Zone
from scheduler.events import Event, Kind
from scheduler.store.operators.restore import Held

_PARTLY = "a part of the service was held"
# Nearer to each other than this, in percent of a chart's width, they have one mark.
_NEAR = 2.5
# In one mark, and of one request.
_MOST_SENTENCES = 4
# Less late than that, no request asks why.
LATE_MS = 1000

_BEGIN = {
    Kind.HOLD: "the service was held",
    Kind.ACCOUNT_PAUSED: "the account was paused",
    Kind.ACCOUNT_SUSPENDED: "the account was suspended",
    Kind.LANE_PAUSED: "lane {} was paused",
}
_END = {
    Kind.RESUMED: Kind.HOLD,
    Kind.ACCOUNT_RESUMED: Kind.ACCOUNT_PAUSED,
    Kind.ACCOUNT_REINSTATED: Kind.ACCOUNT_SUSPENDED,
    Kind.LANE_RESUMED: Kind.LANE_PAUSED,
}
_WHOLE = {
    Kind.STORE_AWAY: "the store was away",
    Kind.WORKER_LOST: "a worker was lost",
    Kind.LANE_CALM: "lane {} was calm, as its target had asked",
}


class Cause(NamedTuple):
    """`to_ms` is None while it goes on. `lane`: of this one only; '' of all requests."""

    from_ms: int
    to_ms: int | None
    what: str
    lane: str = ""

    def overlaps(self, from_ms: int, to_ms: int) -> bool:
        return self.from_ms < to_ms and (self.to_ms is None or self.to_ms >= from_ms)

    @property
    def words(self) -> str:
        """`the service was held for 4 min`; `the service is held`."""
        if self.to_ms is None:
            return self.what.replace(" was ", " is ", 1)
        if self.what == _WHOLE[Kind.WORKER_LOST]:  # when it was noticed says little
            return self.what
        return f"{self.what} for {duration(self.to_ms - self.from_ms)}"


def causes_of(events: Iterable[Event]) -> list[Cause]:
    """Of the service's and an account's events, in any order; the earliest first."""
    found: list[Cause] = []
    open_: dict[tuple[Kind, str], list[Event]] = {}  # what began it, and began it again
    for event in sorted(events, key=lambda each: each.at_ms):
        kind, lane = event.kind, event.about if event.kind.startswith("lane-") else ""
        if kind in _WHOLE:
            from_ms = event.at_ms if event.since_ms is None else event.since_ms
            to_ms = event.at_ms if event.until_ms is None else event.until_ms
            found.append(Cause(from_ms, to_ms, _WHOLE[kind].format(lane), lane))
        elif kind in _BEGIN:
            begins = open_.setdefault((kind, lane), [])
            if event.was_refused:
                _undo(begins, event.who)
                continue
            if begins and (until_ms := begins[-1].until_ms) is not None and until_ms < event.at_ms:
                found.append(_begun(begins, lane))
                begins.clear()
            begins.append(event)
        elif kind in _END and not event.was_refused:
            begins = open_.pop((_END[kind], lane), [])
            begun = _begun(begins, lane) if begins else None
            since_ms = begun.from_ms if begun else event.since_ms
            if since_ms is not None:
                until_ms = begun.to_ms if begun and begun.to_ms is not None else event.at_ms
                what = _BEGIN[_END[kind]].format(lane)
                found.append(Cause(since_ms, min(until_ms, event.at_ms), what, lane))
    found += [_begun(begins, lane) for (_, lane), begins in open_.items() if begins]
    return sorted(found, key=lambda each: each.from_ms)


def _undo(begins: list[Event], who: str) -> None:
    """Removes the last begin of `who`, which was refused; those of others stand."""
    for at in reversed(range(len(begins))):
        if begins[at].who == who:
            del begins[at]
            return


def _begun(begins: Sequence[Event], lane: str) -> Cause:
    what = _BEGIN[begins[0].kind].format(lane)
    return Cause(begins[0].at_ms, begins[-1].until_ms, what, lane)


def as_held(causes: Sequence[Cause], held: Held) -> list[Cause]:
    """With the hold that the store says there is, or without one, whatever the events say: an act
    is noted before it is done, so it may not have been done, and a note may be lost."""
    what, since_ms = _BEGIN[Kind.HOLD], held.latest_ms
    if since_ms is None:
        return [each for each in causes if each.to_ms is not None or each.what != what]
    of_now = [
        each for each in causes if each.what == what and each.overlaps(since_ms, since_ms + 1)
    ]
    from_ms = min((each.from_ms for each in of_now), default=since_ms)
    words = what if held.since_ms is not None else _PARTLY
    rest = [each for each in causes if each not in of_now]
    return sorted([*rest, Cause(from_ms, None, words)], key=lambda each: each.from_ms)


def ongoing(causes: Iterable[Cause], now_ms: float) -> list[Cause]:
    """A cause that has an end to come still goes on."""
    return [
        each._replace(to_ms=None) if each.to_ms is not None and each.to_ms > now_ms else each
        for each in causes
    ]


def marks(causes: Sequence[Cause], axis: Axis, now_ms: float) -> list[CauseMark]:
    """Those that an axis shows, from the left; as few as there is room for."""
    groups: list[list[Cause]] = []
    shown = [each for each in causes if each.overlaps(axis.from_ms, axis.to_ms)]
    for each in shown:
        near = groups and _at(axis, each.from_ms) - _at(axis, groups[-1][0].from_ms) < _NEAR
        if near:
            groups[-1].append(each)
        else:
            groups.append([each])
    return [_mark(axis, group, now_ms) for group in groups]


def _mark(axis: Axis, group: Sequence[Cause], now_ms: float) -> CauseMark:
    at = _at(axis, group[0].from_ms)
    ends = (now_ms if each.to_ms is None else each.to_ms for each in group)
    width = _at(axis, max(ends)) - at
    words = f"{_time(axis.zone, group[0].from_ms)}: {_sentence([each.words for each in group])}"
    return CauseMark(at, round(width, 3), words)


def _at(axis: Axis, ms: float) -> float:
    return min(max(axis.part(ms), 0.0), 100.0)


def _time(zone: Zone, ms: int) -> str:
    at = zone.local(ms)
    return f"{at:%b} {at.day}, {at:%H:%M}"


def _sentence(words: Sequence[str]) -> str:
    """Each once; of many the first."""
    known = list(dict.fromkeys(words))
    more = len(known) - _MOST_SENTENCES
    return "; ".join(known[:_MOST_SENTENCES]) + (f"; and {more} more" if more > 0 else "")


def why_late(causes: Iterable[Cause], due_ms: int, until_ms: int, lane: str | None) -> str:
    """A sentence on what happened while a request was due and not yet sent; '' if it was in time or
    nothing is known."""
    if until_ms - due_ms < LATE_MS:
        return ""
    met = [each for each in causes if each.overlaps(due_ms, until_ms) and each.lane in ("", lane)]
    return f"It was due while {_sentence([each.words for each in met])}." if met else ""
