"""Draws recorded figures over commits as an SVG, readable on light and on dark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.peers.chart import OPENING, STYLE, text
from benchmarks.support.rounds import are_noise, short

# By name: the order of tables and pictures. Rates are better higher, all else lower.
FIGURES = {
    "burst_per_second": "sent a second in a burst",
    "burst_worker_us": "worker CPU a fire in a burst, us",
    "burst_store_us": "store CPU a fire in a burst, us",
    **{
        f"late_{rate}_{name}": title.format(f"{rate:,}")
        for rate in (500, 2000)
        for name, title in (
            ("p50_ms", "late at {}/s, p50, ms"),
            ("p99_ms", "late at {}/s, p99, ms"),
            ("worker_cores", "worker CPU at {}/s, cores"),
        )
    },
    **{
        f"{kind}_{name}": f"{title}{how}{unit}"
        for kind, how in (("single", " one by one"), ("bulk", " in bulk"))
        for name, title, unit in (
            ("per_second", "created a second", ""),
            ("api_us", "API CPU a create", ", us"),
            ("store_us", "store CPU a create", ", us"),
        )
    },
    **{
        f"store_{name}_us": f"store alone: {name}, us"
        for name in ("create", "claim", "ack", "page of the log", "page of one URL", "statistics")
    },
}
_COLUMNS, _WIDTH, _HEIGHT, _MARGIN, _LABEL = 3, 300, 128, 16, 62
_TOP, _PLOT, _FAR = 34, 66, 3
_COLOURS = ("#1a7f64", "#8250df", "#bc4c00", "#0969da")
_BESIDE = "#8c959f"
# A hollow dot is filled with the paper.
_PAPER = """circle.paper { fill: #ffffff; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) { circle.paper { fill: #0d1117 } }
"""


def draw(lines: Sequence[dict[str, Any]]) -> str:
    """A panel for each figure: the medians of each machine's commits, oldest first, each with the
    range of its rounds; hollow where that is noise. Grey: the peer that was measured beside."""
    machines = list(dict.fromkeys(line["machine"] for line in lines))
    rows = -(-len(FIGURES) // _COLUMNS)
    width, foot = 2 * _MARGIN + _COLUMNS * _WIDTH, rows * _HEIGHT + 24
    height = foot + 20 * (len(machines) + 1)
    parts = [
        OPENING.format(width=width, height=height, label="Figures of Postdate over commits"),
        f"<style>{STYLE}{_PAPER}</style>",
        f'<rect class="paper" width="{width}" height="{height}" rx="8"/>',
    ]
    for index, name in enumerate(FIGURES):
        row, column = divmod(index, _COLUMNS)
        x, y = _MARGIN + column * _WIDTH, row * _HEIGHT
        parts += _panel(name, lines, machines, x, y)
    parts.append(text(_MARGIN, foot, "note", _foot(lines)))
    for number, machine in enumerate(machines):
        y = foot + 20 * (number + 1)
        parts.append(_circle(_MARGIN + 5, y - 4, _colour(number)))
        parts.append(text(_MARGIN + 16, y, "note", machine))
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    name: str, lines: Sequence[dict[str, Any]], machines: list[str], x: int, y: int
) -> list[str]:
    step = (_WIDTH - _LABEL - 24) / max(1, len(lines) - 1)
    shown = [(x + 4 + at * step, line) for at, line in enumerate(lines) if name in line["figures"]]
    bottom, end = y + _TOP + _PLOT, x + _WIDTH - _LABEL - 16
    parts = [
        text(x, y + 24, "title", FIGURES[name]),
        f'<path d="M{x} {bottom}H{end}" stroke="{_BESIDE}" stroke-width="0.5"/>',
    ]
    if not shown:
        return parts
    ours = max(line["figures"][name][2] for _, line in shown)
    beside = [
        (place, each[name])
        for place, line in shown
        for each in line["beside"].values()
        if each.get(name, 0) and each[name] <= _FAR * ours  # further off it would flatten ours
    ]
    most = max(ours, *(value for _, value in beside), 0) or 1

    def at_y(value: float) -> float:
        return bottom - value / most * _PLOT

    parts += [_circle(place, at_y(value), _BESIDE) for place, value in beside]
    for number, machine in enumerate(machines):
        own = [(at, line["figures"][name]) for at, line in shown if line["machine"] == machine]
        parts += _series(own, at_y, _colour(number))
    last = shown[-1][1]["figures"][name][0]
    parts.append(text(end + 6, round(at_y(last)) + 4, "", short(last)))
    return parts


def _series(
    own: list[tuple[float, list[float]]], at_y: Callable[[float], float], colour: str
) -> list[str]:
    """A line through the medians; of each its range, and a dot that is hollow for noise."""
    path = " ".join(f"{x:.1f},{at_y(figure[0]):.1f}" for x, figure in own)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>']
    for x, (median, least, most) in own:
        ends = f"M{x:.1f} {at_y(least):.1f}V{at_y(most):.1f}"
        parts.append(f'<path d="{ends}" stroke="{colour}" opacity="0.5"/>')
        parts.append(_circle(x, at_y(median), colour, hollow=are_noise((least, most))))
    return parts


def _circle(x: float, y: float, colour: str, *, hollow: bool = False) -> str:
    paint = f'class="paper" stroke="{colour}"' if hollow else f'fill="{colour}"'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" {paint}/>'


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _foot(lines: Sequence[dict[str, Any]]) -> str:
    if not lines:
        return "Nothing is recorded yet."
    commits = list(dict.fromkeys(line["commit"] for line in lines))
    beside = sorted({name for line in lines for name in line["beside"]})
    grey = f"; grey: {', '.join(beside)}" if beside else ""
    return (
        f"{len(commits)} commits, {commits[0]} to {commits[-1]}; medians and ranges of the rounds, "
        f"hollow where they are noise{grey}"
    )
