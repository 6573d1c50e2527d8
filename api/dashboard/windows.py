"""The stretches of time that a page can show, by the names that addresses have for them. Pure."""

from __future__ import annotations

from typing import NamedTuple

from api.dashboard.charts import DAY_MS, HOUR_MS, MINUTE_MS, STEPS_MS
from api.dashboard.zones import Zone
from scheduler.store.log.overview import ChartRange

_MOST_COLUMNS = 120
# Long stretches are of whole days, by any number of them.
_LONGEST_MS = 400 * DAY_MS


class Around(NamedTuple):
    """So long before this moment, and so long after it."""

    words: str
    each_ms: int
    step_ms: int


class Day(NamedTuple):
    """A day of the calendar, so many after today."""

    words: str
    later: int


WINDOWS: dict[str, Around | Day] = {
    "15m": Around("15 min", 15 * MINUTE_MS, MINUTE_MS),
    "1h": Around("1 h", HOUR_MS, MINUTE_MS),
    "24h": Around("24 h", 24 * HOUR_MS, 30 * MINUTE_MS),
    "7d": Around("7 d", 7 * DAY_MS, 4 * HOUR_MS),
    "30d": Around("30 d", 30 * DAY_MS, 12 * HOUR_MS),
    "yesterday": Day("Yesterday", -1),
    "today": Day("Today", 0),
    "tomorrow": Day("Tomorrow", 1),
}
FIRST = "1h"


def stretch_of(name: str, now_ms: int, zone: Zone) -> ChartRange:
    """The columns of a window, this moment in one of them if it is in the window at all."""
    window = WINDOWS[name]
    if isinstance(window, Day):
        from_ms = zone.midnight(now_ms, window.later)
        return fitted(from_ms, zone.midnight(now_ms, window.later + 1), 15 * MINUTE_MS)
    first_ms = now_ms // window.step_ms * window.step_ms + window.step_ms - window.each_ms
    return ChartRange(first_ms, window.step_ms, 2 * window.each_ms // window.step_ms)


def fitted(from_ms: int, to_ms: int, least_step_ms: int = MINUTE_MS) -> ChartRange:
    """Columns that cover a period, as many as a chart has room for."""
    to_ms = min(max(to_ms, from_ms + MINUTE_MS), from_ms + _LONGEST_MS)
    steps = [step_ms for step_ms in STEPS_MS if step_ms >= least_step_ms]
    whole_hours_ms = from_ms // HOUR_MS * HOUR_MS
    days = -(-(to_ms - whole_hours_ms) // (_MOST_COLUMNS * DAY_MS))
    for step_ms in (*steps, days * DAY_MS):
        first_ms = from_ms // step_ms * step_ms if step_ms < HOUR_MS else whole_hours_ms
        points = -(-(to_ms - first_ms) // step_ms)
        if points <= _MOST_COLUMNS:
            break
    return ChartRange(first_ms, step_ms, points)
