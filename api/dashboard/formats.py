"""How values look on a page. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from api.dashboard.zones import Zone
from scheduler.masks import masked_url
from scheduler.texts import visible
from scheduler.times import format_iso8601

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_WHOLE_UNITS = {86_400_000: "day", 3_600_000: "hour", 60_000: "minute", 1000: "second"}
_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
# Moments that are nearer have seconds.
_TO_THE_SECOND_MS = 120_000
_NOTHING = "–"  # noqa: RUF001 - an en dash, as tables have it

_HOST = re.compile(r"[^/?#]*")
_LOOPBACK = re.compile(r"(?:localhost|127\.[\d.]+|\[::1\])(?::\d+)?$")

# How the messages of an attempt without an answer begin.
_NO_ANSWERS = (
    ("Timeout", "timeout"),
    ("Connection attempt timed out", "timeout"),
    ("Connection refused", "refused"),
    ("Could not resolve", "no host"),
    ("Host not found", "no host"),
    ("Destination not allowed", "not allowed"),
    ("Connection reset", "reset"),
    ("Connection closed", "closed"),
    ("TLS", "TLS"),
    ("Worker lost", "lost"),
    ("Expired", "expired"),
)


class Typed(str):
    """A text that a field has, and hands on unchanged."""

    __slots__ = ()


def shown(value: object) -> object:
    """A value as a page shows it: plain text without characters that turn its direction."""
    return visible(value) if type(value) is str else value


def moment(ms: float | None, zone: Zone) -> str:
    """`2026-11-20 08:00:00`, to the second; the rest is in its title."""
    return _time(ms, zone, 19)


def exact(ms: float | None, zone: Zone) -> str:
    """`2026-11-20 08:00:00.000`."""
    return _time(ms, zone, 23)


def clock(ms: float | None, zone: Zone) -> str:
    """`08:00`."""
    return _NOTHING if ms is None else f"{zone.local(ms):%H:%M}"


def near(ms: float, now_ms: float, zone: Zone) -> str:
    """`08:00`; of another day `2026-11-21 08:00`; within two minutes `08:00:07`."""
    text, now = zone.text(ms), zone.text(now_ms)
    if text[:10] != now[:10]:
        return text[:16].replace("T", " ")
    return text[11:19] if abs(ms - now_ms) < _TO_THE_SECOND_MS else text[11:16]


def _time(ms: float | None, zone: Zone, characters: int) -> str:
    if ms is None:
        return _NOTHING
    iso, text = format_iso8601(int(ms)), zone.text(ms)[:characters].replace("T", " ")
    # Without a `datetime`, which says the same: a live update may have a hundred of these.
    return Markup('<time title="{}">{}</time>').format(iso, text)


def lateness(ms: float | None) -> str:
    """A quantile of lateness: the bound of the bucket that it lies in."""
    return _NOTHING if ms is None else f"≤ {duration(max(ms, 1))}"


def late(ms: float | None) -> str:
    """Of one request: `+3 ms`."""
    return _NOTHING if ms is None else f"+{duration(ms)}"


def ago(ms: float, now_ms: float) -> str:
    """`12 s`, for a past moment."""
    return duration(max(0, now_ms - ms) // 1000 * 1000)


def number(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:,.0f}"


def signed(value: int) -> str:
    """`+12`, `−3`; a dash where nothing moved, so that what did is seen in a long table."""  # noqa: RUF002
    return f"{value:+,}".replace("-", "\u2212") if value else _NOTHING


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


def per(most: int, per_ms: int | None) -> str:
    """A lane's limit: `20 per hour`, `20 per 5 min`, `2 at a time`."""
    if per_ms is None:
        return f"{most:,} at a time"
    return f"{most:,} per {_WHOLE_UNITS.get(per_ms) or duration(per_ms)}"


def roughly(ms: float) -> str:
    """A long time in its largest unit, such as `9 days`: no more is known of it."""
    for unit_ms, word in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute")):
        if ms >= unit_ms:
            count = round(ms / unit_ms)
            return f"{count} {word}" + ("s" if count != 1 else "")
    return "a minute"


def until(ms: float, now_ms: float) -> str:
    """`in 4 min 3 s`, `now`, or for an overdue schedule `12 s ago`."""
    left_ms = ms - now_ms
    if abs(left_ms) < 1000:
        return "now"
    whole_ms = abs(left_ms) // 1000 * 1000
    return f"in {duration(whole_ms)}" if left_ms > 0 else f"{duration(whole_ms)} ago"


def soon(ms: float, now_ms: float) -> str:
    """The same in one unit, for a narrow column: `in 4 min`, `now`, `12 s ago`."""
    left = until(ms, now_ms).split(" ")
    if len(left) == 1:
        return left[0]
    return " ".join(left[:3]) if left[0] == "in" else " ".join([*left[:2], "ago"])


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


def url(text: str) -> str:
    """One without its secrets. What all of them begin with steps back, and on a phone goes."""
    scheme, slashes, rest = masked_url(text).partition("://")
    return Markup('<span class="scheme">{}</span>{}').format(scheme + slashes, visible(rest))


def place(text: str) -> tuple[str, str]:
    """The same as its path, which tells more in a list, and its host. A scheme is shown where a
    request leaves the machine unencrypted."""
    scheme, _, rest = masked_url(text).partition("://")
    found = _HOST.match(rest)
    host = found[0] if found else ""
    path, shown = rest[len(host) :] or "/", host
    if scheme == "http" and not _LOOPBACK.match(host):
        shown = f"http://{host}"
    return visible(path), visible(shown)


def status(value: str) -> str:
    """A state in its colour; the word is there for those who do not see it."""
    return Markup('<span class="status {0}">{0}</span>').format(escape(value))


def dot(value: str) -> str:
    """The same for long lists: the normal status is quiet."""
    if value == "failed":
        return status(value)
    return Markup(
        '<span class="dot {0}" title="{0}"><span class="unseen">{0}</span></span>'
    ).format(escape(value))


def no_answer(error_message: str) -> str:
    """Why there was none, in a word or two, for a narrow column."""
    found = (words for begins, words in _NO_ANSWERS if error_message.startswith(begins))
    return next(found, "none" if error_message else _NOTHING)


def _in_zone(render: Callable[..., str]) -> Any:
    """A filter that shows times as the page's viewer wants them."""

    @pass_context
    def in_zone(context: Context, ms: Any) -> str:
        return render(ms, context["zone"])

    return in_zone


_TIMES = (moment, exact, clock)
_SPANS = (lateness, late, ago, duration, roughly, until, soon)
_OTHERS = (number, signed, share, size, url, place, status, dot, no_answer)
# By the name that templates have for each.
FILTERS: dict[str, Any] = {
    "as_typed": Typed,
    **{each.__name__: _in_zone(each) for each in _TIMES},
    **{each.__name__: each for each in (*_SPANS, *_OTHERS)},
}
