"""Charts: from figures to rectangles, which a template writes as SVG; and the stretches of time
that they show. Pure.

Labels stand in percent of the width and in pixels of the height, so that a chart fits any screen as
it is drawn. Columns are drawn in steps of time and in what they count, and the browser scales them:
one stays the same text while the chart moves on or grows, and a live update does not send it again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from api.dashboard import formats
from api.dashboard.zones import Zone
from scheduler.store.log.overview import ChartRange

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000

# Room above the highest column, and under the plot for the times.
_TOP = 14
_BOTTOM = 20
_LEAST_PIXELS = 2
# The least distance between two labels.
_LABEL_PIXELS = 15
_MOST_LABELS = 6
# Round steps from a minute to a day.
STEPS_MS = tuple(
    minutes * MINUTE_MS for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440)
)
_LABEL_STEPS_MS = (*STEPS_MS, 2 * DAY_MS, 5 * DAY_MS, 7 * DAY_MS, 10 * DAY_MS)
_MOST_COLUMNS = 120
# Places count from a moment that stays for so many steps: a browser draws with 24 bits.
_ANCHORED_STEPS = 1000
# So many columns, and so many rows of a table, are one piece of a live update.
_COLUMNS_A_PIECE = 6
# Long stretches are of whole days, by any number of them.
_LONGEST_MS = 400 * DAY_MS
_DURATION_TICKS_MS = (1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000)


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


class Part(NamedTuple):
    """A rectangle of a column, from `y`, which is negative, downwards; at its foot a line of so
    many pixels, half of them above it, by which something is seen of the smallest."""

    kind: str
    y: float
    height: float
    line: int

    @property
    def foot(self) -> float:
        return round(self.y + self.height, 3)


class Column(NamedTuple):
    """`x` is its place in steps, `begins` whether it is the first of a piece. Of its `parts` a
    later one covers an earlier one. `words` say all that it shows, and `cells` for a table."""

    x: float
    begins: bool
    parts: list[Part]
    words: str
    cells: list[str]
    at_ms: int
    to_ms: int


class Mark(NamedTuple):
    """A labelled place on an axis: a gridline's in pixels, a time's in percent."""

    at: float
    label: str


class CauseMark(NamedTuple):
    """Why requests were late, one cause or several that are near each other: where it is and how
    wide, in percent of the width; `words` say all of it."""

    at: float
    width: float
    words: str


class Chart(NamedTuple):
    """`top` is how much fills its height. `headings` name the cells of its columns; `now` is where
    this moment is, if it is in it; `marks` say why requests were late."""

    name: str
    title: str
    height: int
    top: float
    columns: list[Column]
    lines: list[Mark]
    ticks: list[Mark]
    headings: list[str]
    now: float | None = None
    marks: Sequence[CauseMark] = ()

    @property
    def floor(self) -> float:
        return float(self.height - _BOTTOM)

    @property
    def first(self) -> float:
        return self.columns[0].x if self.columns else 0


class Axis(NamedTuple):
    """Columns that follow on one another, in somebody's time zone."""

    from_ms: int
    step_ms: int
    columns: int
    zone: Zone

    @property
    def to_ms(self) -> int:
        return self.from_ms + self.columns * self.step_ms

    def part(self, ms: float) -> float:
        """How far a moment is along it, in percent."""
        return round(100 * (ms - self.from_ms) / (self.to_ms - self.from_ms), 3)

    def place(self, at_ms: int) -> float:
        """Of a column: in steps, from a moment that seldom changes."""
        anchored_ms = _ANCHORED_STEPS * self.step_ms
        return round((at_ms - self.from_ms // anchored_ms * anchored_ms) / self.step_ms, 3)

    def words(self, index: int) -> str:
        text = self.zone.minute(self.from_ms + index * self.step_ms)
        return text[:10] if self.step_ms >= DAY_MS else text

    def ticks(self) -> list[Mark]:
        """Round times, as many as there is room for."""
        span_ms = self.to_ms - self.from_ms
        wanted = (step for step in _LABEL_STEPS_MS if span_ms / step <= _MOST_LABELS)
        step_ms = next(wanted, _LABEL_STEPS_MS[-1])
        moments = (self.from_ms + index * self.step_ms for index in range(self.columns))
        return [self._tick(ms, step_ms) for ms in moments if self._is_round(ms, step_ms)]

    def _is_round(self, ms: int, step_ms: int) -> bool:
        since_midnight_ms = ms - self.zone.midnight(ms)
        if step_ms <= DAY_MS:
            return since_midnight_ms % step_ms < min(self.step_ms, step_ms)
        day = self.zone.local(ms).toordinal()
        return since_midnight_ms < self.step_ms and day % (step_ms // DAY_MS) == 0

    def _tick(self, ms: int, step_ms: int) -> Mark:
        at = self.zone.local(ms)
        midnight = at.hour == at.minute == 0
        label = f"{at:%m-%d}" if step_ms >= DAY_MS or midnight else f"{at:%H:%M}"
        return Mark(self.part(ms), label)


class Layer(NamedTuple):
    """A part of each stack: the class of its rectangles, its name, a figure for each column."""

    name: str
    label: str
    values: Sequence[int]


def stacked(
    name: str, title: str, height: int, axis: Axis, kinds: Sequence[Layer], now_ms: float
) -> Chart:
    """Figures on top of one another, the first at the bottom."""
    rows = list(zip(*(kind.values for kind in kinds), strict=True))
    ceiling, lines = _counts(max(map(sum, rows), default=0), height)
    columns = []
    for index, values in enumerate(rows):
        pairs = zip(kinds, values, strict=True)
        words = ", ".join(f"{value:,} {kind.label}" for kind, value in pairs if value)
        parts: list[Part] = []
        below = 0
        for kind, value in zip(kinds, values, strict=True):
            if value:
                below += value
                line = 2 * _LEAST_PIXELS * (len(parts) + 1)
                parts.insert(0, Part(kind.name, -below, value, line))
        columns.append(_column(axis, index, parts, words, [f"{value:,}" for value in values]))
    headings = [kind.label for kind in kinds]
    now = axis.part(now_ms) if axis.from_ms <= now_ms < axis.to_ms else None
    top = _with_room(ceiling, height)
    return Chart(name, title, height, top, columns, lines, axis.ticks(), headings, now)


def ranges(
    name: str,
    title: str,
    height: int,
    axis: Axis,
    labels: tuple[str, str],
    values: Sequence[Sequence[float | None]],
    words: Callable[[float], str],
) -> Chart:
    """Pairs of quantiles on a logarithmic scale, None where there are none; cut to the axis."""
    values = values[: axis.columns]
    highest = max((high for _, high in values if high is not None), default=0.0)
    tops = (tick for tick in _DURATION_TICKS_MS[1:] if tick >= highest)
    top_ms = next(tops, _DURATION_TICKS_MS[-1])
    floor = height - _BOTTOM

    def tall(ms: float) -> float:
        return round(math.log10(1 + min(ms, _DURATION_TICKS_MS[-1])), 3)

    def y(ms: float) -> float:
        return round(floor - (floor - _TOP) * tall(ms) / tall(top_ms), 1)

    columns = []
    for index, (low, high) in enumerate(values):
        if low is None or high is None:
            columns.append(_column(axis, index, [], "", ["–", "–"]))  # noqa: RUF001
            continue
        parts = [
            Part("spread", -tall(high), round(tall(high) - tall(low), 3), 0),
            Part("high", -tall(high), 0, _LEAST_PIXELS),
            Part("low", -tall(low), 0, _LEAST_PIXELS),
        ]
        cells = [words(low), words(high)]
        text = ", ".join(f"{label} {cell}" for label, cell in zip(labels, cells, strict=True))
        columns.append(_column(axis, index, parts, text, cells))
    lines: list[Mark] = []
    for tick in reversed([tick for tick in _DURATION_TICKS_MS if tick <= top_ms]):
        above = lines[-1].at if lines else -_BOTTOM
        if y(tick) - above >= _LABEL_PIXELS and floor - y(tick) >= _LABEL_PIXELS:
            lines.append(Mark(y(tick), formats.duration(tick)))
    top = _with_room(tall(top_ms), height)
    return Chart(name, title, height, top, columns, lines, axis.ticks(), list(labels))


def _with_room(highest: float, height: int) -> float:
    """What fills a chart's height, where this has room above it."""
    floor = height - _BOTTOM
    return round(highest * floor / (floor - _TOP), 3)


def _column(axis: Axis, index: int, parts: list[Part], words: str, cells: list[str]) -> Column:
    at_ms = axis.from_ms + index * axis.step_ms
    return Column(
        x=axis.place(at_ms),
        begins=at_ms // axis.step_ms % _COLUMNS_A_PIECE == 0,
        parts=parts,
        words=f"{axis.words(index)} · {words or 'nothing'}",
        cells=[axis.words(index), *cells],
        at_ms=at_ms,
        to_ms=at_ms + axis.step_ms,
    )


def _counts(highest: int, height: int) -> tuple[int, list[Mark]]:
    """The top of a scale of whole numbers, and its gridlines; each has its label."""
    steps = [factor * 10**power for power in range(9) for factor in (1, 2, 5)]
    step = next((each for each in steps if highest <= 3 * each), steps[-1])
    ceiling = max(step * -(-highest // step), 1)
    room = height - _BOTTOM - _TOP
    lines = [
        Mark(round(height - _BOTTOM - room * value / ceiling, 1), _short(value))
        for value in range(step, ceiling + 1, step)
    ]
    return ceiling, lines


def _short(value: int) -> str:
    """`1,500`, `20k`, `3M`."""
    for unit, name in ((1_000_000, "M"), (1000, "k")):
        if value >= 10 * unit and value % unit == 0:
            return f"{value // unit}{name}"
    return f"{value:,}"


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
