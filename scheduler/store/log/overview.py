"""How an account stands, at a glance: what waits, what is coming, what was executed of late."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.rollups import HOUR_MS, LATENESS_BOUNDS_MS, MINUTE_MS, ranges_of
from scheduler.store import keys
from scheduler.store.clock import StoreClock
from scheduler.store.server import Script, Server, flat

COMING_MINUTES = 180

_PULSE = Script("log/pulse")
_SERIES = Script("log/series")


class Period(NamedTuple):
    """A stretch of the past that ends now: so many points, each of so many buckets of a rollup."""

    level: str
    bucket_ms: int
    points: int
    width: int = 1

    @property
    def point_ms(self) -> int:
        return self.bucket_ms * self.width


LAST_HOUR = Period("hour", MINUTE_MS, 60)
LAST_DAY = Period("day", HOUR_MS, 24)
LAST_MONTH = Period("day", HOUR_MS, 30, 24)


class Pulse(NamedTuple):
    """An account at one moment; `coming[i]` is due in the i-th minute from `coming_from_ms` on,
    what is overdue in the first."""

    now_ms: int
    credits: int
    waiting: int
    executing: int
    due_soon: int
    coming: list[int]

    @property
    def coming_from_ms(self) -> int:
        return self.now_ms // MINUTE_MS * MINUTE_MS


class Point(NamedTuple):
    """Executions from `at_ms` until the next point."""

    at_ms: int
    completed: int
    failed: int
    total_response_ms: int

    @property
    def executed(self) -> int:
        return self.completed + self.failed

    @property
    def average_response_ms(self) -> float | None:
        return self.total_response_ms / self.executed if self.executed else None


class Series(NamedTuple):
    """Executions over a period; `lateness` counts them by `rollups.LATENESS_BOUNDS_MS`."""

    points: list[Point]
    lateness: list[int]

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
        values = await self._server.run(_PULSE, keys.account(account_id), [COMING_MINUTES])
        now_us, credits, waiting, executing, due_soon, coming = values
        self._clock.observe(now_us)
        return Pulse(now_us // 1000, credits, waiting, executing, due_soon, coming)

    async def series(self, account_id: str, period: Period) -> Series:
        """The points of a period, the one that is not over yet being the last. Read-only."""
        step_ms = period.point_ms
        to_ms = self._clock.now_ms() // step_ms * step_ms + step_ms
        from_ms = to_ms - period.points * step_ms
        ranges = ranges_of(period.level, from_ms, to_ms)
        arguments = [period.width, len(LATENESS_BOUNDS_MS) + 1, *flat(ranges)]
        values, lateness = await self._server.run(_SERIES, keys.account(account_id), arguments)
        rows = zip(*[iter(values)] * 3, strict=True)
        points = [Point(from_ms + i * step_ms, *row) for i, row in enumerate(rows)]
        return Series(points, lateness)
