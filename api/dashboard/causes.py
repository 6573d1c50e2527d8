"""Why requests of an account may have been late, and what holds them: the times in which the
service, the account or one of its lanes sent nothing, in words that name no host, operator or other
account. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from api.dashboard.charts import Axis, CauseMark
from api.dashboard.formats import duration, near, per
from api.dashboard.zones import Zone
from scheduler.events import Event, Kind
from scheduler.lane_settings import HeldBy, HoldCause, LaneSettings
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

_ORDER = (
    _BEGIN[Kind.HOLD],
    _PARTLY,
    _BEGIN[Kind.ACCOUNT_SUSPENDED],
    _BEGIN[Kind.ACCOUNT_PAUSED],
    _BEGIN[Kind.LANE_PAUSED],
    _WHOLE[Kind.STORE_AWAY],
    _WHOLE[Kind.WORKER_LOST],
    _WHOLE[Kind.LANE_CALM],
)


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


class Late(NamedTuple):
    """A request that was due, and from when on its lane let it start: at that moment, unless the
    lane's limits held it. It was sent, or it is now, at `until_ms`. `limits` says what these do."""

    due_ms: int
    slot_ms: int
    until_ms: int
    lane: str | None = None
    limits: str = ""


def why_late(causes: Iterable[Cause], late: Late) -> str:
    """A sentence with each cause's share of the time in which a request was due and not yet sent:
    of several at a time the one that `heldBy` would tell. '' if it was in time, and if nothing that
    is known has a tenth of it."""
    whole_ms = late.until_ms - late.due_ms
    if whole_ms < LATE_MS:
        return ""
    of_it = [each for each in causes if each.lane in ("", late.lane)]
    left, shares = [(late.due_ms, late.until_ms)], dict[str, int]()
    limits = Cause(late.due_ms, late.slot_ms, late.limits) if late.limits else None
    for each in (*sorted(of_it, key=_rank), *([limits] if limits else [])):
        to_ms = late.until_ms if each.to_ms is None else each.to_ms
        rest = [
            part
            for from_ms, end_ms in left
            for part in ((from_ms, min(end_ms, each.from_ms)), (max(from_ms, to_ms), end_ms))
            if part[0] < part[1]
        ]
        taken_ms = _length(left) - _length(rest)
        words = each.what if each.to_ms is not None else each.words
        shares[words] = shares.get(words, 0) + taken_ms
        left = rest
    told = [
        f"for {round(100 * ms / whole_ms)} % of that time {words}"
        for words, ms in sorted(shares.items(), key=lambda share: -share[1])
        if ms * 10 >= whole_ms
    ]
    return f"It was due for {duration(whole_ms)}: {_sentence(told)}." if told else ""


def _length(parts: Iterable[tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in parts)


def _rank(cause: Cause) -> int:
    """The place in the order of `HoldCause`; of others, behind what somebody has to end."""
    words = cause.what.replace(f"lane {cause.lane} ", "lane {} ", 1)
    return _ORDER.index(words)


def limits_words(lane: str, settings: LaneSettings) -> str:
    """What a lane's limits did that held a request. They may be others by now."""
    match settings.rate is not None, settings.parallelism is not None:
        case True, False:
            return f"lane {lane} had used up its rate"
        case False, True:
            return f"lane {lane} ran as many as it may"
    return f"lane {lane} kept to its limits"


_HELD = {
    HoldCause.SERVICE_HOLD: "the service is on hold",
    HoldCause.ACCOUNT_SUSPENDED: "the account is suspended",
    HoldCause.ACCOUNT_PAUSED: "the account is paused",
    HoldCause.NO_WORKER: "no worker runs",
    HoldCause.LANE_PAUSED: "paused",
    HoldCause.LANE_CALM: "its target asked for a rest",
    HoldCause.LANE_PARALLELISM: "it runs as many as it may",
    HoldCause.LANE_RATE: "its rate is used up",
}


def held_words(held_by: HeldBy, now_ms: float, zone: Zone) -> str:
    """`waits for lane eu: 20 per hour, 241 before it, about 12:40`; `waits: no worker runs`."""
    parts = [_HELD[held_by.cause]]
    if held_by.most is not None:
        parts = [per(held_by.most, held_by.per_ms)]
    at = "" if held_by.until_ms is None else near(held_by.until_ms, now_ms, zone)
    if at and not held_by.estimated:
        parts[0] += f" until {at}"
    if held_by.ahead is not None:
        parts.append(f"{held_by.ahead:,} before it" if held_by.ahead else "it is next")
    if at and held_by.estimated:
        parts.append(f"about {at}")
    whom = "" if held_by.lane is None else f" for lane {held_by.lane}"
    return f"waits{whom}: {', '.join(parts)}"
