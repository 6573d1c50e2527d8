"""How values look on a page. Pure."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from scheduler.times import format_iso8601

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_NOTHING = "–"  # noqa: RUF001 - an en dash, as tables have it


def moment(ms: float | None) -> str:
    """`2026-11-20 08:00:00`, UTC, to the second; the rest is in its title."""
    return _time(ms, 19)


def exact(ms: float | None) -> str:
    """`2026-11-20 08:00:00.000`, UTC."""
    return _time(ms, 23)


def day(ms: float) -> str:
    """`2026-11-20`."""
    return format_iso8601(int(ms))[:10]


def _time(ms: float | None, characters: int) -> str:
    if ms is None:
        return _NOTHING
    iso = format_iso8601(int(ms))
    shown = iso[:characters].replace("T", " ")
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(iso, shown)


def field_time(ms: int) -> str:
    """What an `<input type=datetime-local>` has as its value."""
    return format_iso8601(ms).removesuffix("Z")


def number(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:,.0f}"


def signed(value: int) -> str:
    return f"{value:+,}".replace("-", "\u2212") if value else "0"


def duration(ms: float | None) -> str:
    """`12 ms`, `3.4 s`, `2 min 5 s`, `4 d 3 h`: two units at most."""
    if ms is None:
        return _NOTHING
    if ms < 0:
        return "\u2212" + duration(-ms)
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s".replace(".0 s", " s")
    for (large_ms, large), (small_ms, small) in pairwise(_UNITS):
        if ms >= large_ms:
            rest = int(ms % large_ms // small_ms)
            return f"{int(ms // large_ms)} {large}" + (f" {rest} {small}" if rest else "")
    return f"{ms:.0f} ms"


def until(ms: float, now_ms: float) -> str:
    """`in 4 min 3 s`, `now`, or for what is overdue `12 s ago`."""
    left_ms = ms - now_ms
    if abs(left_ms) < 1000:
        return "now"
    whole_ms = abs(left_ms) // 1000 * 1000
    return f"in {duration(whole_ms)}" if left_ms > 0 else f"{duration(whole_ms)} ago"


def share(part: int, whole: int) -> str:
    """A percentage that says 100 % only if it is all of it."""
    if not whole:
        return _NOTHING
    percent = 100 * part / whole
    return f"{min(percent, 99.9):.1f} %" if part < whole else "100 %"


def size(count: int) -> str:
    for unit, name in _BYTES:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def status(value: str) -> str:
    """A state in its colour; the word is there for those who do not see it."""
    return Markup('<span class="status {0}">{0}</span>').format(escape(value))


FILTERS: dict[str, Any] = {
    "moment": moment,
    "exact": exact,
    "day": day,
    "field_time": field_time,
    "number": number,
    "signed": signed,
    "duration": duration,
    "until": until,
    "share": share,
    "size": size,
    "status": status,
}
