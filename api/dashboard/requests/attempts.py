"""The attempts of one request, each with its phases as bars."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.errors import TooManyScans
from scheduler.models import LogEntry, LogStatus, Phases
from scheduler.store import Store
from scheduler.store.log.logs import LogQuery

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
_MADE = (LogStatus.RETRYING, LogStatus.COMPLETED, LogStatus.FAILED)


class Bar(NamedTuple):
    """A phase: `x` and `width` in percent of the whole; `kind` is its class, `broke` if failed."""

    name: str
    kind: str
    x: float
    width: float
    ms: int


class Attempt(NamedTuple):
    entry: LogEntry
    bars: list[Bar]


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


async def read_attempts(store: Store, account_id: str, schedule_id: str) -> list[Attempt] | None:
    """In order; None if the account searches too much to look for them now."""
    query = LogQuery(_MADE, descending=False, schedule_id=schedule_id)
    try:
        page = await store.logs.page(account_id, query)
    except TooManyScans:
        return None
    # One that is stopped ends as its last attempt did: that is one attempt with two entries.
    last = {each.attempt: each for each in page.entries}
    return [Attempt(each, waterfall(each.phases, each.status_code)) for each in last.values()]
