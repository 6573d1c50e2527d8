"""How an account stands, at a glance: what waits, what is coming, what was executed of late."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.rollups import (
    HOUR_MS,
    LATENESS_BOUNDS_MS,
    MINUTE_MS,
    RESPONSE_BOUNDS_MS,
    lateness_quantile_ms,
    ranges_of,
    response_quantile_ms,
)
from scheduler.store import keys
from scheduler.store.server import Script, Server, flat
from scheduler.store.server.clock import StoreClock

# What is due for longer than this, and held by no worker that is alive, is overdue.
OVERDUE_AFTER_MS = 1000

# Room for each histogram's buckets.
_ROOM = 1 + max(len(LATENESS_BOUNDS_MS), len(RESPONSE_BOUNDS_MS))

_FORECAST = Script("log/forecast")
_PULSE = Script("log/pulse")
_SERIES = Script("log/series")


class Stretch(NamedTuple):
    """Points of time that follow on one another from `from_ms` on, each `step_ms` wide: whole
    minutes, or whole hours if it begins at one."""

    from_ms: int
    step_ms: int
    points: int

    @property
    def to_ms(self) -> int:
        return self.from_ms + self.points * self.step_ms


class Pulse(NamedTuple):
    """An account at one moment. `overdue_lateness` counts what is overdue by
    `rollups.LATENESS_BOUNDS_MS`, as if it were sent now; `overdue_since_ms` is the triggerAt of
    the oldest one."""

    now_ms: int
    credits: int
    waiting: int
    executing: int
    due_soon: int
    overdue: int
    overdue_since_ms: int | None
    overdue_lateness: list[int]


class Point(NamedTuple):
    """Executions from `at_ms` until the next point."""

    at_ms: int
    completed: int
    failed: int
    total_response_ms: int
    lateness: list[int]
    response: list[int]

    @property
    def executed(self) -> int:
        return self.completed + self.failed

    def lateness_ms(self, share: float) -> int | None:
        return lateness_quantile_ms(self.lateness, share)

    def response_ms(self, share: float) -> float | None:
        return response_quantile_ms(self.response, share)


class Series(NamedTuple):
    """Executions over a period, point by point."""

    points: list[Point]

    @property
    def lateness(self) -> list[int]:
        """All of them by `rollups.LATENESS_BOUNDS_MS`."""
        return [
            sum(counts) for counts in zip(*(each.lateness for each in self.points), strict=True)
        ]

    @property
    def response(self) -> list[int]:
        """All of them by `rollups.RESPONSE_BOUNDS_MS`."""
        return [
            sum(counts) for counts in zip(*(each.response for each in self.points), strict=True)
        ]

    @property
    def executed(self) -> int:
        return self.completed + self.failed

    @property
    def completed(self) -> int:
        return sum(point.completed for point in self.points)

    @property
    def failed(self) -> int:
        return sum(point.failed for point in self.points)


class Overview:
    """Reads an account's pulse, and the series of its executions."""

    def __init__(self, server: Server, clock: StoreClock) -> None:
        self._server = server
        self._clock = clock

    async def pulse(self, account_id: str) -> Pulse:
        """One look, all at one moment. Read-only."""
        late = [bound_ms for bound_ms in LATENESS_BOUNDS_MS if bound_ms >= OVERDUE_AFTER_MS]
        values = await self._server.run(_PULSE, keys.account(account_id), late)
        now_us, credits, waiting, executing, due_soon, overdue, since = values
        self._clock.observe(now_us)
        lateness = [0] * (len(LATENESS_BOUNDS_MS) + 1 - len(overdue)) + overdue
        return Pulse(
            *(now_us // 1000, credits, waiting, executing, due_soon),
            overdue=sum(overdue),
            overdue_since_ms=int(float(since)) if since else None,
            overdue_lateness=lateness,
        )

    async def past(self, account_id: str, stretch: Stretch) -> Series:
        """What was executed in a stretch, as far as it is over. Read-only."""
        hourly = stretch.from_ms % HOUR_MS == stretch.step_ms % HOUR_MS == 0
        level, bucket_ms = ("day", HOUR_MS) if hourly else ("hour", MINUTE_MS)
        ranges = ranges_of(level, stretch.from_ms, stretch.to_ms)
        arguments = [stretch.step_ms // bucket_ms, _ROOM, *flat(ranges)]
        found = await self._server.run(_SERIES, keys.account(account_id), arguments)
        return Series(_points(stretch.from_ms, stretch.step_ms, *found))

    async def forecast(self, account_id: str, stretch: Stretch) -> list[int]:
        """How many are due at each point of a stretch: what is overdue at that of this moment, and
        none at those before. Read-only."""
        now_us, due = await self._server.run(_FORECAST, keys.account(account_id), list(stretch))
        self._clock.observe(now_us)
        return list(due)


def _points(
    from_ms: int, step_ms: int, values: list[int], late: list[int], took: list[int]
) -> list[Point]:
    count = len(values) // 3
    lateness = _spread(late, count, len(LATENESS_BOUNDS_MS) + 1)
    response = _spread(took, count, len(RESPONSE_BOUNDS_MS) + 1)
    sums = zip(values[::3], values[1::3], values[2::3], lateness, response, strict=True)
    return [Point(from_ms + i * step_ms, *each) for i, each in enumerate(sums)]


def _spread(found: list[int], points: int, buckets: int) -> list[list[int]]:
    """A histogram for each point, of the buckets that have something."""
    histograms = [[0] * buckets for _ in range(points)]
    for place, executions in zip(found[::2], found[1::2], strict=True):
        point, bucket = divmod(place, _ROOM)
        histograms[point][min(bucket, buckets - 1)] += executions
    return histograms
