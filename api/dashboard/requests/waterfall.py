"""The phases of an exchange as bars, each where it began and as wide as it took. Pure."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.models import Outcome

# Names by field, and what each is to a reader: the way there, the wait, the answer.
_PARTS = (
    ("resolve_ms", "Resolve", "way"),
    ("connect_ms", "Connect", "way"),
    ("tls_ms", "TLS", "way"),
    ("first_byte_ms", "First byte", "wait"),
    ("last_byte_ms", "Last byte", "read"),
)
# In percent: something is seen of whatever there is.
_LEAST_WIDTH = 1.0


class Bar(NamedTuple):
    """`x` and `width` are parts of the whole in percent; `kind` is how it looks, `broke` where no
    answer came of it."""

    name: str
    kind: str
    x: float
    width: float
    ms: int


def waterfall(outcome: Outcome | None) -> list[Bar]:
    """A bar for each phase that is known; none, if none is."""
    if outcome is None or outcome.phases is None:
        return []
    told = ((name, kind, getattr(outcome.phases, field)) for field, name, kind in _PARTS)
    parts = [(name, kind, ms) for name, kind, ms in told if ms is not None]
    whole_ms = max(1, sum(ms for _, _, ms in parts))
    bars, begun_ms = [], 0
    for name, kind, ms in parts:
        width = max(_LEAST_WIDTH, 100 * ms / whole_ms)
        x = min(100 * begun_ms / whole_ms, 100 - width)
        bars.append(Bar(name, kind, round(x, 2), round(width, 2), ms))
        begun_ms += ms
    if outcome.status_code == 0:
        bars[-1] = bars[-1]._replace(kind="broke")
    return bars
