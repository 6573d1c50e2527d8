"""Charts: the figures of each column, which a page has as a table and `static/charts.js` draws; the
stretches of time that they show. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from api.dashboard.zones import Zone
from scheduler.store.log.overview import ChartRange

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000

_MOST_LABELS = 6
# Round steps from a minute to a day.
STEPS_MS = tuple(
    minutes * MINUTE_MS for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440)
)
_LABEL_STEPS_MS = (*STEPS_MS, 2 * DAY_MS, 5 * DAY_MS, 7 * DAY_MS, 10 * DAY_MS)
_MOST_COLUMNS = 120
# So many rows of a table are one piece of a live update.
_ROWS_A_PIECE = 6
# Long stretches are of whole days, by any number of them.
_LONGEST_MS = 400 * DAY_MS


class Window(NamedTuple):
    """So long before this moment and after it; or, without that, a day so many after today."""

    words: str
    each_ms: int = 0
    step_ms: int = 0
    days_later: int = 0


# By the names that addresses have for them.
WINDOWS = {
    "15m": Window("15 min", 15 * MINUTE_MS, MINUTE_MS),
    "1h": Window("1 h", HOUR_MS, MINUTE_MS),
    "24h": Window("24 h", 24 * HOUR_MS, 30 * MINUTE_MS),
    "7d": Window("7 d", 7 * DAY_MS, 4 * HOUR_MS),
    "30d": Window("30 d", 30 * DAY_MS, 12 * HOUR_MS),
    "yesterday": Window("Yesterday", days_later=-1),
    "today": Window("Today"),
    "tomorrow": Window("Tomorrow", days_later=1),
}
FIRST = "1h"


class Layer(NamedTuple):
    """A figure of each column: its kind, which has a colour; its name, and its values."""

    kind: str
    label: str
    values: Sequence[float | None]


class Axis(NamedTuple):
    """Columns that follow on one another, in somebody's time zone."""

    from_ms: int
    step_ms: int
    columns: int
    zone: Zone

    @property
    def to_ms(self) -> int:
        return self.from_ms + self.columns * self.step_ms

    def words(self, ms: int) -> str:
        text = self.zone.minute(ms)
        return text[:10] if self.step_ms >= DAY_MS else text

    def ticks(self) -> list[tuple[int, str]]:
        """Round times with their labels, as many as there is room for."""
        span_ms = self.to_ms - self.from_ms
        wanted = (step for step in _LABEL_STEPS_MS if span_ms / step <= _MOST_LABELS)
        step_ms = next(wanted, _LABEL_STEPS_MS[-1])
        moments = (self.from_ms + index * self.step_ms for index in range(self.columns))
        return [(ms, self._label(ms, step_ms)) for ms in moments if self._is_round(ms, step_ms)]

    def _is_round(self, ms: int, step_ms: int) -> bool:
        since_midnight_ms = ms - self.zone.midnight(ms)
        if step_ms <= DAY_MS:
            return since_midnight_ms % step_ms < min(self.step_ms, step_ms)
        day = self.zone.local(ms).toordinal()
        return since_midnight_ms < self.step_ms and day % (step_ms // DAY_MS) == 0

    def _label(self, ms: int, step_ms: int) -> str:
        at = self.zone.local(ms)
        midnight = at.hour == at.minute == 0
        return f"{at:%m-%d}" if step_ms >= DAY_MS or midnight else f"{at:%H:%M}"


class Row(NamedTuple):
    """A column: its time, and each of its figures in words and as a number. `begins`: it is the
    first of a piece of a live update."""

    time: str
    cells: list[str]
    values: list[float | None]
    at_ms: int
    to_ms: int
    is_empty: bool
    begins: bool


class Chart(NamedTuple):
    """Its layers lie on one another, the first at the bottom, if they are `counts`; else they are
    the two ends of a spread of times in ms. `now_ms`: this moment, if the chart has it."""

    name: str
    title: str
    height: int
    axis: Axis
    layers: Sequence[Layer]
    words: Callable[[float | None], str]
    counts: bool = True
    now_ms: int | None = None
    causes: Sequence[Any] = ()

    @property
    def rows(self) -> list[Row]:
        return [self._row(index) for index in range(self.axis.columns)]

    def _row(self, index: int) -> Row:
        axis, values = self.axis, [layer.values[index] for layer in self.layers]
        at_ms = axis.from_ms + index * axis.step_ms
        return Row(
            time=axis.words(at_ms),
            cells=[self.words(each) for each in values],
            values=[None if each is None else round(each, 1) for each in values],
            at_ms=at_ms,
            to_ms=at_ms + axis.step_ms,
            is_empty=not any(values) if self.counts else all(each is None for each in values),
            begins=at_ms // axis.step_ms % _ROWS_A_PIECE == 0,
        )


def stretch_of(name: str, now_ms: int, zone: Zone) -> ChartRange:
    """The columns of a window, this moment in one of them if it is in the window at all."""
    window = WINDOWS[name]
    if not window.each_ms:
        from_ms = zone.midnight(now_ms, window.days_later)
        return fitted(from_ms, zone.midnight(now_ms, window.days_later + 1), 15 * MINUTE_MS)
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
