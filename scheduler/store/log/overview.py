"""An account at a glance: waiting, coming and recently executed schedules."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from scheduler.rollups import (
    COMPLETED,
    CREATED,
    FAILED,
    HOUR_MS,
    LATENESS_BOUNDS_MS,
    LATENESSES,
    MINUTE_MS,
    RESPONSES,
    ranges_of,
    response_quantile_ms,
    sums_of,
)
from scheduler.store import keys
from scheduler.store.log.statistics import read_sums
from scheduler.store.server import Server
from scheduler.store.server.clock import StoreClock

# A schedule due for longer than this, and held by no live worker, is overdue.
OVERDUE_AFTER_MS = 1000
_OVERDUE = [bound_ms for bound_ms in LATENESS_BOUNDS_MS if bound_ms >= OVERDUE_AFTER_MS]

# Rollups of one round trip: each may have some thousand sums.
_ROLLUPS_AT_ONCE = 2
# The columns of a row, as a rollup has them of a bucket; and each field's bucket and column.
_ROW = (COMPLETED, FAILED, *LATENESSES, *RESPONSES)
_PLACES = {name: place for place, name in enumerate(_ROW)}


class ChartRange(NamedTuple):
    """`points` of `step_ms` each: whole minutes, or whole hours if `from_ms` begins one."""

    from_ms: int
    step_ms: int
    points: int

    @property
    def to_ms(self) -> int:
        return self.from_ms + self.points * self.step_ms


class AccountSnapshot(NamedTuple):
    """An account at one moment. `overdue_lateness` counts overdue ones by
    `rollups.LATENESS_BOUNDS_MS`, as if sent now; the oldest was due at `overdue_since_ms`. Nothing
    that a limit or a pause holds back is overdue: of a lane its next one is, from when it may start
    on; such are `held`, once they are due for a second. `due_soon` are due within a minute, none
    if all of the account is held then, and `soon_in_lanes` of them stand in lanes, which may hold
    them back."""

    now_ms: int
    credits: int
    waiting: int
    executing: int
    due_soon: int
    overdue: int
    overdue_since_ms: int | None
    overdue_lateness: list[int]
    held: int = 0
    soon_in_lanes: int = 0


class Point(NamedTuple):
    """Executions from `at_ms` until the next point."""

    at_ms: int
    completed: int
    failed: int
    lateness: list[int]
    response: list[int]

    def response_ms(self, share: float) -> float | None:
        return response_quantile_ms(self.response, share)


class Series(NamedTuple):
    """Executions over a period, point by point."""

    points: list[Point]

    @property
    def lateness(self) -> list[int]:
        """All of them by `rollups.LATENESS_BOUNDS_MS`."""
        return _summed([each.lateness for each in self.points])

    @property
    def response(self) -> list[int]:
        """All of them by `rollups.RESPONSE_BOUNDS_MS`."""
        return _summed([each.response for each in self.points])

    @property
    def executed(self) -> int:
        return self.completed + self.failed

    @property
    def completed(self) -> int:
        return sum(point.completed for point in self.points)

    @property
    def failed(self) -> int:
        return sum(point.failed for point in self.points)


class Activity(NamedTuple):
    """Executions, failed ones among them, and created schedules of the last two hours begun."""

    fired: int
    failed: int
    created: int


class Overview:
    def __init__(self, server: Server, clock: StoreClock) -> None:
        self._server = server
        self._clock = clock

    async def pulse(self, account_id: str) -> AccountSnapshot:
        """One look, all at one moment. Read-only."""
        (shard, local), base = keys.parts(account_id), keys.account(account_id)
        now_ms, waiting, held = self._clock.now_ms(), base + keys.WAITING, base + keys.HELD
        laned, heads = base + keys.LANED, base + keys.LANE_HEADS
        bounds, late_ms = [now_ms - bound_ms for bound_ms in _OVERDUE], now_ms - OVERDUE_AFTER_MS
        late = [*pairwise([*map(str, bounds), "-inf"])]
        time, state, hold, resumed, executing, first, lane, *counts = await self._server.reads(
            [
                ("TIME",),
                ("HMGET", base + keys.ACCOUNT, "credits", "suspended", "paused", "paused_until"),
                ("GET", keys.shard(shard) + keys.HOLD),
                ("ZSCORE", keys.shard(shard) + keys.RESUMED, local),
                ("ZCARD", held),
                ("ZRANGE", waiting, 0, 0, "WITHSCORES"),
                # A lane at -inf is paused.
                ("ZRANGE", heads, "(-inf", "+inf", "BYSCORE", "LIMIT", 0, 1, "WITHSCORES"),
                *(("ZCARD", each) for each in (waiting, laned)),
                *(("ZCOUNT", each, "-inf", now_ms + MINUTE_MS) for each in (waiting, laned)),
                *(("ZCOUNT", each, "-inf", late_ms) for each in (waiting, laned)),
                # A held schedule whose lease has ended is overdue as well.
                *(("ZCOUNT", waiting, low, f"({high}") for high, low in late),
                *(("ZCOUNT", heads, f"({low}", f"({high}") for high, low in late),
            ],
            at_once=base,
        )
        credits, suspended, paused, paused_until = state
        resumed_ms, paused_ms = float(resumed or 0), float(paused_until or "inf") if paused else 0
        all_, soon, (due, due_in_lanes) = sum(counts[:2]), counts[2:4], counts[4:6]
        counts = counts[6:]
        overdue = _late_since(counts[: len(late)], bounds, resumed_ms)
        since_ms: list[float] = []
        if sum(overdue):
            # Its triggerAt stands in `held`, unless its worker has given it back since.
            since = await self._server.read("ZSCORE", held, first[0])
            since_ms.append(max(resumed_ms, float(since or first[1])))
        in_lanes = counts[len(late) :]
        if sum(in_lanes):
            since_ms.append(float(lane[1]))
        overdue = [a + b for a, b in zip(overdue, in_lanes, strict=True)]
        held = max(0, due_in_lanes - sum(in_lanes))
        if suspended or paused_ms > now_ms:
            overdue, since_ms, held = [0] * len(late), [], due + due_in_lanes
        if suspended or hold or paused_ms > now_ms + MINUTE_MS:
            soon = [0, 0]
        return AccountSnapshot(
            self._clock.observe_reply(time),
            int(credits or 0),
            max(0, all_ - executing),
            executing,
            max(0, sum(soon) - executing),
            sum(overdue),
            int(min(since_ms, default=0)) or None,
            [0] * (len(LATENESSES) - len(overdue)) + overdue,
            held,
            soon[1],
        )

    async def past(self, account_id: str, stretch: ChartRange) -> Series:
        """Executions in a stretch, as far as it is over. Read-only."""
        hourly = stretch.from_ms % HOUR_MS == stretch.step_ms % HOUR_MS == 0
        level, bucket_ms = ("day", HOUR_MS) if hourly else ("hour", MINUTE_MS)
        ranges = ranges_of(level, stretch.from_ms, stretch.to_ms)
        base, width = keys.account(account_id), stretch.step_ms // bucket_ms
        rows, begin = [[0] * len(_ROW) for _ in range(stretch.points)], 0
        for start in range(0, len(ranges), _ROLLUPS_AT_ONCE):
            some = ranges[start : start + _ROLLUPS_AT_ONCE]
            replies = await self._server.reads([("HGETALL", base + each.rollup) for each in some])
            for (_, first, last), fields in zip(some, replies, strict=True):
                buckets = range(first, last + 1)
                points = {bucket: rows[(begin + n) // width] for n, bucket in enumerate(buckets)}
                _add(points, fields)
                begin += len(buckets)
        return Series(
            [_point(stretch.from_ms + n * stretch.step_ms, row) for n, row in enumerate(rows)]
        )

    async def activity(self, account_ids: Sequence[str]) -> tuple[int, dict[str, Activity]]:
        """Of each account; and since when that counts (ms). In one round trip. Read-only."""
        since_ms = (self._clock.now_ms() // HOUR_MS - 1) * HOUR_MS
        ranges = ranges_of("day", since_ms, since_ms + 2 * HOUR_MS)
        rollups = [(keys.account(each), range_) for each in account_ids for range_ in ranges]
        rows = iter(await read_sums(self._server, rollups, (COMPLETED, FAILED, CREATED)))
        found = {}
        for account_id in account_ids:
            hours = [next(rows) for _ in ranges]
            completed, failed, created = (sum(column) for column in zip(*hours, strict=True))
            found[account_id] = Activity(completed + failed, failed, created)
        return since_ms, found

    async def forecast(self, account_id: str, stretch: ChartRange) -> list[int]:
        """How many are due at each point; overdue ones without a lane count at the present one.
        Read-only."""
        base, now_ms = keys.account(account_id), self._clock.now_ms()
        begins = range(stretch.from_ms, stretch.to_ms, stretch.step_ms)
        left = [begin for begin in begins if begin + stretch.step_ms > now_ms]
        counts = [
            (begin if begin > now_ms else "-inf", f"({begin + stretch.step_ms}") for begin in left
        ]
        time, unseen, *due = await self._server.reads(
            [
                ("TIME",),
                ("ZCARD", base + keys.HELD),
                *(("ZCOUNT", base + keys.WAITING, *bounds) for bounds in counts),
                *(
                    ("ZCOUNT", base + keys.LANED, f"({now_ms}" if low == "-inf" else low, high)
                    for low, high in counts
                ),
            ],
            at_once=base,
        )
        self._clock.observe_reply(time)
        due = [a + b for a, b in zip(due[: len(left)], due[len(left) :], strict=True)]
        # In `waiting`, what a worker holds stands at its lease's end, which is the nearest future.
        for place, begin in enumerate(left):
            hidden = min(due[place], unseen) if begin <= now_ms + MINUTE_MS else 0
            unseen -= hidden
            due[place] -= hidden
        return [0] * (stretch.points - len(left)) + due


def _late_since(late: list[int], bounds_ms: Sequence[float], since_ms: float) -> list[int]:
    """Counts by when something was due, each later than its bound, as if all that was due before
    `since_ms` had been due then."""
    place = sum(float(each) > since_ms for each in bounds_ms) - 1
    if place < 0:
        return [0] * len(late)
    return [*late[:place], sum(late[place:]), *([0] * (len(late) - place - 1))]


def _summed(histograms: list[list[int]]) -> list[int]:
    return [sum(counts) for counts in zip(*histograms, strict=True)]


def _add(points: dict[int, list[int]], fields: list[bytes]) -> None:
    """Adds what a rollup counts to the row of each bucket's point."""
    for bucket, packed in zip(fields[::2], fields[1::2], strict=True):
        row = points.get(int(bucket)) if bucket.isdigit() else None
        if row is not None:
            for name, count in sums_of(packed).items():
                if (place := _PLACES.get(name)) is not None:
                    row[place] += count


def _point(at_ms: int, row: list[int]) -> Point:
    completed, failed, *histograms = row
    lateness, response = histograms[: len(LATENESSES)], histograms[len(LATENESSES) :]
    return Point(at_ms, completed, failed, lateness, response)
