"""Why requests of an account may have been late, and what holds them: the times in which the
service, the account or one of its lanes sent nothing, in words that name no host, operator or other
account. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from api.dashboard.charts import Axis
from api.dashboard.formats import duration, near, per
from api.dashboard.zones import Zone
from scheduler.events import Event, Kind
from scheduler.lane_settings import HeldBy, LaneSettings
from scheduler.lanes import hold_words
from scheduler.store.operators.restore import Held

_PARTLY = "a part of the service was held"
# Nearer to each other than this part of a chart's width, they have one mark.
_NEAR = 0.01
# Of a fold, the latest.
_MOST_TIMES = 5
# The longest is at most so many times as long as the shortest, where all are said to be alike.
_ALIKE = 1.5
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


class Fold(NamedTuple):
    """A cause and its repeats in a chart: `words` say how often and how long, `share` of the past
    that is shown; `times` are when the latest began, and `earlier` counts the others. `marks`: from
    when to when, None where it goes on."""

    words: str
    share: str
    times: list[str]
    earlier: int
    marks: list[tuple[int, int | None]]


def folded(causes: Iterable[Cause], axis: Axis, now_ms: int, lane: str = "") -> list[Fold]:
    """Those of an axis: first the service's and the account's, of each the longest; then those of
    one lane, if nothing but this lane is shown."""
    from_ms, to_ms = axis.from_ms, axis.to_ms
    alike: dict[str, list[Cause]] = {}
    for each in causes:
        if each.lane in ("", lane) and each.overlaps(from_ms, to_ms):
            alike.setdefault(each.what, []).append(each)
    seen_ms = min(to_ms, now_ms) - from_ms
    found = []
    for same in alike.values():
        parts = [(max(a, from_ms), min(b, now_ms, to_ms)) for a, b in _ends(same, now_ms)]
        taken_ms = _length(_joined(parts, 0))
        percent = round(100 * taken_ms / seen_ms) if seen_ms > 0 else 0
        is_told = percent and same[0].what != _WHOLE[Kind.WORKER_LOST]
        share = f"{percent} %" if is_told else ""
        marks = [
            (begin, None if end == now_ms and same[-1].to_ms is None else end)
            for begin, end in _joined(_ends(same, now_ms), (to_ms - from_ms) * _NEAR)
        ]
        times = [axis.words(each.from_ms) for each in same[-_MOST_TIMES:]]
        fold = Fold(_repeated(same), share, times, len(same) - len(times), marks)
        found.append((bool(same[0].lane), -taken_ms, fold))
    return [fold for *_, fold in sorted(found, key=lambda each: each[:2])]


def _ends(causes: Iterable[Cause], now_ms: int) -> list[tuple[int, int]]:
    return [(each.from_ms, now_ms if each.to_ms is None else each.to_ms) for each in causes]


def _joined(parts: Iterable[tuple[int, int]], gap_ms: float) -> list[tuple[int, int]]:
    """Parts that overlap, or are nearer to each other than that, are one."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(parts):
        if found and begin <= found[-1][1] + gap_ms:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def _repeated(same: Sequence[Cause]) -> str:
    """`the store was away: 9 × 2 s`; of one cause its own words."""  # noqa: RUF002
    count, last = f"{len(same):,}", same[-1]
    lengths_ms = [each.to_ms - each.from_ms for each in same if each.to_ms is not None]
    if len(same) == 1:
        return last.words
    if len(lengths_ms) < len(same):
        return f"{last._replace(to_ms=None).words}, {count} times so far"
    if last.what == _WHOLE[Kind.WORKER_LOST]:
        return f"{last.what} {count} times"
    if max(lengths_ms) <= _ALIKE * min(lengths_ms):
        return f"{last.what}: {count} × {duration(sum(lengths_ms) / len(same))}"  # noqa: RUF001
    return f"{last.what} {count} times, {duration(sum(lengths_ms))} in all"


class Late(NamedTuple):
    """A request that was due, and from when on its lane let it start: at that moment, unless the
    lane's limits held it. It was sent, or it is now, at `until_ms`. `limits` says what these do."""

    due_ms: int
    slot_ms: int
    until_ms: int
    lane: str | None = None
    limits: str = ""


def why_late(causes: Iterable[Cause], late: Late) -> list[str]:
    """Each cause's share of the time in which a request was due and not yet sent, the greatest
    first: of several at a time the one that `heldBy` would tell. None if it was in time, nor of
    what has less than a tenth of it."""
    whole_ms = late.until_ms - late.due_ms
    if whole_ms < LATE_MS:
        return []
    of_it = [each for each in causes if each.lane in ("", late.lane)]
    left, shares = [(late.due_ms, late.until_ms)], dict[str, list[int]]()
    limits = Cause(late.due_ms, late.slot_ms, late.limits) if late.limits else None
    for each in (*sorted(of_it, key=_rank), *([limits] if limits else [])):
        to_ms = late.until_ms if each.to_ms is None else each.to_ms
        rest = [
            part
            for from_ms, end_ms in left
            for part in ((from_ms, min(end_ms, each.from_ms)), (max(from_ms, to_ms), end_ms))
            if part[0] < part[1]
        ]
        words = each.what if each.to_ms is not None else each.words
        if taken_ms := _length(left) - _length(rest):
            shares.setdefault(words, []).append(taken_ms)
        left = rest
    told = [
        f"{round(100 * sum(parts) / whole_ms)} % of that time {words}"
        + (f", {len(parts):,} times" if len(parts) > 1 else "")
        for words, parts in sorted(shares.items(), key=lambda share: -sum(share[1]))
        if sum(parts) * 10 >= whole_ms
    ]
    return [f"It was due for {duration(whole_ms)}: for {told[0]}", *told[1:]] if told else []


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
            return f"lane {lane} was at its parallelism limit"
    return f"lane {lane} kept to its limits"


def held_words(held_by: HeldBy, now_ms: float, zone: Zone) -> str:
    at = "" if held_by.until_ms is None else near(held_by.until_ms, now_ms, zone)
    limit = "" if held_by.most is None else per(held_by.most, held_by.per_ms)
    return hold_words(
        held_by.cause,
        held_by.lane,
        at,
        estimated=held_by.estimated,
        ahead=held_by.ahead,
        limit=limit,
    )
