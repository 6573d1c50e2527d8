"""Draws a day as an SVG: a panel for each question, its hours from left to right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.day.look import Hour
from benchmarks.peers.chart import OPENING, STYLE, text
from benchmarks.support.rounds import short

MIB = 2**20
_COLUMNS, _WIDTH, _HEIGHT, _MARGIN, _LABEL = 3, 300, 138, 16, 84
_TOP, _PLOT, _LINE = 34, 72, 14
_COLOURS = ("#1a7f64", "#8250df", "#bc4c00")
_AXIS = "#8c959f"


class Panel(NamedTuple):
    """Series by name; one of no name has its title alone. Titles of up to 22 letters have room."""

    title: str
    series: dict[str, Callable[[Hour], float]]


PANELS = (
    Panel(
        "requests in the hour",
        {"sent": lambda e: sum(e.came.values()), "refused": lambda e: e.refused},
    ),
    Panel("lateness, ms", {"p99": lambda e: e.p99_ms, "p50": lambda e: e.p50_ms}),
    Panel(
        "API and worker, MiB",
        {name: lambda e, n=name: e.rss[n] / MIB for name in ("API", "worker")},
    ),
    Panel(
        "store's memory, MiB",
        {"RSS": lambda e: e.rss["store"] / MIB, "used": lambda e: e.used_bytes / MIB},
    ),
    Panel("append-only file, MiB", {"": lambda e: e.aof_bytes / MIB}),
    Panel(
        "descriptors",
        {name: lambda e, n=name: e.descriptors[n] for name in ("API", "worker", "store")},
    ),
    Panel(
        "schedules, thousand",
        {"stored": lambda e: e.kinds["s"] / 1000, "waiting": lambda e: e.waiting / 1000},
    ),
    Panel("log entries, thousand", {"": lambda e: e.logged / 1000}),
    Panel("all other keys", {"": lambda e: sum(e.kinds.values()) - e.kinds["s"]}),
)


def draw(hours: Sequence[Hour], foot: str) -> str:
    """Of a day's hours, without what was counted before it. `foot`: where and when."""
    rows = -(-len(PANELS) // _COLUMNS)
    width, height = 2 * _MARGIN + _COLUMNS * _WIDTH, rows * _HEIGHT + 40
    parts = [
        OPENING.format(width=width, height=height, label="A day of Postdate, hour by hour"),
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}" rx="8"/>',
    ]
    for index, panel in enumerate(PANELS):
        row, column = divmod(index, _COLUMNS)
        parts += _panel(panel, hours, _MARGIN + column * _WIDTH, row * _HEIGHT)
    parts.append(text(_MARGIN, height - 16, "note", foot))
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, hours: Sequence[Hour], x: int, y: int) -> list[str]:
    bottom, end = y + _TOP + _PLOT, x + _WIDTH - _LABEL - 16
    values = {name: [of(each) for each in hours] for name, of in panel.series.items()}
    most = max(max(each) for each in values.values()) or 1
    step = (end - x) / max(1, len(hours) - 1)
    parts = [
        text(x, y + 24, "title", f"{panel.title}: up to {short(most)}"),
        f'<path d="M{x} {bottom}H{end}" stroke="{_AXIS}" stroke-width="0.5"/>',
        *(_clock(x + step * at, bottom, at, len(hours)) for at in _quarters(len(hours))),
    ]
    last_y = float(y)
    # The labels of the last values, from the highest down, keep a line's distance.
    for number, (name, series) in enumerate(
        sorted(values.items(), key=lambda item: item[1][-1], reverse=True)
    ):
        colour = _COLOURS[number]
        path = " ".join(
            f"{x + step * at:.1f},{bottom - value / most * _PLOT:.1f}"
            for at, value in enumerate(series)
        )
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        )
        last_y = max(last_y + _LINE, bottom - series[-1] / most * _PLOT + 4)
        said = f"{short(series[-1])} {name}".strip()
        style = f'style="fill: {colour}"'
        parts.append(f'<text x="{end + 6}" y="{last_y:.0f}" {style}>{said}</text>')
    return parts


def _quarters(count: int) -> list[int]:
    return sorted({count * part // 4 for part in range(4)})


def _clock(x: float, bottom: int, hour: int, count: int) -> str:
    return text(round(x) - 6, bottom + 16, "note", f"{hour * 24 // count}:00")
