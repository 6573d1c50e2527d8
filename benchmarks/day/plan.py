"""What a day has: how many schedules a second in each hour, and of which kinds. Pure."""

from __future__ import annotations

import math
from typing import NamedTuple

HOUR_MS = 3_600_000
# Of an hour's real time: what is due at once after the clock's step is sent first, and at the end
# the last ones are awaited and everything is counted.
SETTLE_MS, LOOK_MS = 6000, 12_000
ACCOUNTS = 8
_LEAST_LOG = 8000
_PEAKS = (9, 18)  # o'clock
_PEAK_WIDTH, _NOON, _DAY_WIDTH, _DAY_PART = 1.8, 13.5, 4.5, 0.35


class Kind(NamedTuple):
    """A share of an hour's schedules. `path` is the first part of its target's."""

    share: float
    path: str


# `waited` is stored before the day, all others seconds before they are due. `cancelled` would be
# due a month later, and is never sent.
KINDS = {
    "waited": Kind(0.40, "plain"),
    "batch": Kind(0.25, "plain"),
    "single": Kind(0.05, "plain"),
    "laned": Kind(0.10, "laned"),
    "called": Kind(0.10, "called"),
    "flaky": Kind(0.06, "flaky"),
    "failing": Kind(0.02, "failing"),
    "cancelled": Kind(0.02, "plain"),
}


class Plan(NamedTuple):
    """The size of a day. `minute_ms`: how much real time an hour has. `logged`: entries of the log
    that the day trims by age; `log_most`: of one account, so that it trims by number as well.
    `kept_hours`, `failed_hours`: how long ended schedules are kept, and failed ones."""

    hours: int
    minute_ms: int
    waiting: int
    rules: int
    logged: int
    valley: int
    peak: int
    kept_hours: int = 6
    failed_hours: int = 12

    @property
    def busy_ms(self) -> int:
        """For how much of an hour's real time schedules are due at a steady rate: whole seconds."""
        return (self.minute_ms - SETTLE_MS - LOOK_MS) // 1000 * 1000

    def rate(self, hour: int) -> int:
        """Schedules a second in that hour."""
        return rate_at(hour * 24 / self.hours, self.valley, self.peak)

    def due(self, hour: int, kind: str) -> int:
        """How many of a kind are due in that hour."""
        return int(self.rate(hour) * self.busy_ms / 1000 * KINDS[kind].share)

    def sent(self, hour: int) -> int:
        """How many requests are due to be sent in it: with callbacks and occurrences of hourly
        rules, without retries."""
        schedules = sum(self.due(hour, kind) for kind in KINDS if kind != "cancelled")
        return schedules + self.due(hour, "called") + self.rules

    @property
    def log_most(self) -> int:
        """Reached in the last third of the day, if the old log is not the longer one."""
        return (
            max(_LEAST_LOG, self.logged, sum(map(self.sent, range(self.hours))) * 2 // 3)
            // ACCOUNTS
        )


def rate_at(clock: float, valley: int, peak: int) -> int:
    """A night's valley, two equal peaks, at 9 and at 18 o'clock, and a lull between them."""
    high = max(math.exp(-(((clock - at) / _PEAK_WIDTH) ** 2)) for at in _PEAKS)
    day = _DAY_PART * math.exp(-(((clock - _NOON) / _DAY_WIDTH) ** 2))
    return round(valley + (peak - valley) * max(high, day))


def peaks(rates: list[float]) -> tuple[int, int]:
    """The hours of the first peak and of the second: the busiest before and after half past one."""
    noon = max(1, round(len(rates) * _NOON / 24))
    hours = range(len(rates))
    first, second = (
        max(some, key=rates.__getitem__, default=0) for some in (hours[:noon], hours[noon:])
    )
    return first, second


def moments(hour_ms: int, busy_ms: int, count: int) -> list[int]:
    """When so many of one hour are due, spread evenly; `hour_ms`: when it begins."""
    begin_ms = hour_ms + SETTLE_MS
    return [begin_ms + n * busy_ms // count for n in range(count)]
