"""The attempts of one request, each with its phases as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from api.dashboard.requests.attempt_line import AttemptLine, attempt_line
from scheduler.errors import TooManyScans
from scheduler.models import LogEntry, LogStatus, Phases
from scheduler.store import Store
from scheduler.store.log.logs import LogQuery
from scheduler.times import format_iso8601

# The phases of an exchange: field, name, and the class of the bar.
_PHASES = (
    ("resolve_ms", "Resolve", "way"),
    ("connect_ms", "Connect", "way"),
    ("tls_ms", "TLS", "way"),
    ("first_byte_ms", "First byte", "wait"),
    ("last_byte_ms", "Last byte", "read"),
)
# In percent: something is seen of whatever there is.
_LEAST_WIDTH = 1.0
_ENDED = (LogStatus.COMPLETED, LogStatus.FAILED)
_MADE = (LogStatus.RETRYING, *_ENDED)


class Bar(NamedTuple):
    """A phase: `x` and `width` in percent of the whole; `kind` is its class, `broke` if failed."""

    name: str
    kind: str
    x: float
    width: float
    ms: int


class Attempt(NamedTuple):
    """`before` says how long it had been waited for; `headers` are those of Postdate's own."""

    entry: LogEntry
    bars: list[Bar]
    before: str
    headers: dict[str, str]


def waterfall(phases: Phases | None, status_code: int) -> list[Bar]:
    """Without an answer (`status_code` 0) the last phase is the one that failed."""
    if phases is None:
        return []
    found = ((name, kind, getattr(phases, field)) for field, name, kind in _PHASES)
    parts = [(name, kind, ms) for name, kind, ms in found if ms is not None]
    whole_ms = max(1, sum(ms for _, _, ms in parts))
    bars, begun_ms = [], 0
    for name, kind, ms in parts:
        width = max(_LEAST_WIDTH, 100 * ms / whole_ms)
        x = min(100 * begun_ms / whole_ms, 100 - width)
        bars.append(Bar(name, kind, round(x, 2), round(width, 2), ms))
        begun_ms += ms
    if status_code == 0:
        bars[-1] = bars[-1]._replace(kind="broke")
    return bars


async def read_attempts(
    store: Store, account_id: str, schedule_id: str, next_ms: int | None
) -> dict[str, Any]:
    """`attempts` in order and their `line`, on to the next one (`next_ms`) if there is any. Both
    are None if the account searches too much to look for them now."""
    query = LogQuery(_MADE, descending=False, schedule_id=schedule_id)
    try:
        page = await store.logs.page(account_id, query)
    except TooManyScans:
        return {"attempts": None, "line": None}
    made: dict[int, LogEntry] = {}
    stopped_ms = None
    for each in page.entries:
        # One that is stopped ends as its last attempt did: that is one attempt with two entries.
        if each.attempt in made:
            stopped_ms, at_ms = each.at_ms, made[each.attempt].at_ms
            each = msgspec.structs.replace(each, at_ms=at_ms)
        made[each.attempt] = each
    entries = list(made.values())
    line = attempt_line(entries, stopped_ms=stopped_ms, next_ms=next_ms)
    return {"attempts": _attempts(entries, line) if line else [], "line": line}


def line_of_one(entry: LogEntry) -> AttemptLine | None:
    """Of a request that ended with its first attempt."""
    return attempt_line([entry]) if entry.status in _ENDED and entry.attempt == 1 else None


def _attempts(entries: Sequence[LogEntry], line: AttemptLine) -> list[Attempt]:
    return [
        Attempt(each, waterfall(each.phases, each.status_code), gap.words, _headers(each))
        for each, gap in zip(entries, line.gaps, strict=False)
    ]


def _headers(entry: LogEntry) -> dict[str, str]:
    """Those in which attempts of a request may differ, apart from moment and signature."""
    found = {
        "Postdate-Attempt": str(entry.attempt),
        "Postdate-Trigger-At": format_iso8601(entry.scheduled_at_ms),
    }
    return found | ({"Postdate-Reference": entry.reference} if entry.reference else {})
