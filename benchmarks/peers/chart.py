"""Draws a run as an SVG: four panels of bars, readable on light and on dark."""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

_WIDTH, _PANEL, _GAP, _MARGIN = 880, 410, 28, 16
_LABEL, _VALUE = 84, 118
_ROW, _HEAD, _FOOT = 26, 52, 40
STYLE = """
text { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 14px } .note { fill: #59636e; font-size: 12px }
.ours { fill: #1a7f64; font-weight: 600 } rect.paper { fill: #ffffff }
rect.bar { fill: #afb8c1 } rect.bar.ours { fill: #1a7f64 }
rect.faint { fill: #d8dee4 } rect.faint.ours { fill: #8fd0bd }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .note { fill: #9198a1 } .ours { fill: #4ac5a2 }
  rect.paper { fill: #0d1117 } rect.bar { fill: #656c76 } rect.bar.ours { fill: #2ea583 }
  rect.faint { fill: #3d444d } rect.faint.ours { fill: #1b5e4b }
}
"""
OPENING = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
    'role="img" aria-label="{label}">'
)


class Panel(NamedTuple):
    """One question: the longer bar behind and the figure in front are of the same unit."""

    title: str
    note: str
    front: str
    back: str
    words: Callable[[dict[str, Any]], str]
    logarithmic: bool = False


def draw(results: dict[str, Any]) -> str:
    """The whole picture."""
    systems, rate = results["systems"], results["size"]["rate"]
    panels = (
        Panel(
            "Sent per second",
            "a burst due at one moment, first to last; longer is better",
            "burst_per_second",
            "burst_per_second",
            lambda s: f"{s['burst_per_second']:,.0f}",
        ),
        Panel(
            "Lateness, p50 and p99 in ms",
            f"at {rate} a second, logarithmic; shorter is better",
            "late_p50_ms",
            "late_p99_ms",
            lambda s: f"{_short(s['late_p50_ms'])} | {_short(s['late_p99_ms'])}",
            logarithmic=True,
        ),
        Panel(
            "Stored per second, one by one and in bulk",
            "Postdate over HTTP, peers from their library; longer is better",
            "single_per_second",
            "bulk_per_second",
            _stored,
        ),
        Panel(
            "Bytes in the store",
            "for each request that waits; shorter is better",
            "bytes_each",
            "bytes_each",
            lambda s: f"{s['bytes_each']:,.0f}",
        ),
    )
    panel_height = _HEAD + _ROW * len(systems) + 22
    height = 2 * panel_height + _FOOT
    parts = [
        OPENING.format(width=_WIDTH, height=height, label="Postdate beside its peers"),
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{_WIDTH}" height="{height}" rx="8"/>',
    ]
    for index, panel in enumerate(panels):
        x = _MARGIN + (index % 2) * (_PANEL + _GAP)
        parts += _panel(panel, systems, x, (index // 2) * panel_height)
    parts.append(text(_MARGIN, height - 16, "note", _foot(results)))
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, systems: list[dict[str, Any]], x: int, y: int) -> list[str]:
    parts = [
        text(x, y + 28, "title", panel.title),
        text(x, y + 45, "note", panel.note),
    ]
    scale = _scale(panel, systems)
    for index, system in enumerate(systems):
        top = y + _HEAD + 6 + index * _ROW
        ours = " ours" if system["name"] == "postdate" else ""
        parts.append(text(x, top + 15, ours.strip(), system["title"]))
        if panel.front not in system:
            parts.append(text(x + _LABEL, top + 15, "note", system["needs"]))
            continue
        back = scale(system.get(panel.back, 0))
        front = scale(system[panel.front])
        parts += [
            f'<rect class="{kind}{ours}" x="{x + _LABEL}" y="{top + 3}" '
            f'width="{width:.1f}" height="16" rx="2"/>'
            for kind, width in (("faint", back), ("bar", front))
            if width
        ]
        end = x + _LABEL + max(back, front) + 6
        parts.append(text(round(end), top + 15, ours.strip(), panel.words(system)))
    return parts


def _scale(panel: Panel, systems: list[dict[str, Any]]) -> Callable[[float], float]:
    """Pixels of a figure; the longest of a panel fills it."""
    room = _PANEL - _LABEL - _VALUE
    most = max(s.get(figure, 0) for s in systems for figure in (panel.front, panel.back))
    if not panel.logarithmic:
        return lambda value: value / most * room
    least = 0.1  # ms: smaller values get the shortest bar
    decades = math.log10(most / least)
    return lambda value: max(2.0, math.log10(max(value, least) / least) / decades * room)


def _stored(system: dict[str, Any]) -> str:
    bulk = system.get("bulk_per_second")
    single = f"{system['single_per_second']:,.0f}"
    return f"{single} | {bulk:,.0f}" if bulk else single


def _short(value_ms: float) -> str:
    return f"{value_ms:.1f}" if value_ms < 10 else f"{value_ms:,.0f}"


def _foot(results: dict[str, Any]) -> str:
    machine = results["machine"]
    return (
        f"One worker process each on {machine['cores']} cores shared with store and receiver; "
        f"{machine['store']}, every write on disk before it is answered; {machine['measured']}"
    )


def text(x: int, y: int, kind: str, words: str) -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{named}>{escape(words)}</text>'
