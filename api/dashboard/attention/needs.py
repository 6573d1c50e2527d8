"""What Overview and System list under Needs attention: lines, the worst first, each with its act.
Also the levels of figures, and the memory of the store's servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from api.dashboard.formats import roughly
from api.dashboard.shared import Shared
from scheduler.rollups import DAY_MS
from scheduler.store import Store
from scheduler.store.operators.filling import Sample, full_in_ms
from scheduler.store.operators.system import ServerStatus

# Lines that are shown; the rest unfolds. So many of one kind are one line, which unfolds too.
MOST_SHOWN = 8
_FOLDED_FROM = 3
# From where on a server's memory is a warning, and an alarm.
_FULL_SHARES = (0.75, 0.9)
# The same of credits or memory that last only so long at the present rate.
_ENDS_IN_MS = (7 * DAY_MS, DAY_MS)
_SERVERS_GOOD_FOR_S, _HISTORY_GOOD_FOR_S = 1.0, 60.0
# Kinds of lines that say so.
NOTHING_STARTS = frozenset(("hold", "workers", "suspended", "paused"))
# Of lines that are as bad as each other, the wider ones come first.
_ORDER = (
    *("hold", "workers", "store", "shard", "suspended", "paused", "overdue", "credits", "stored"),
    *("blocked", "target", "rule", "account", "callbacks", "lane", "late"),
)


class Act(NamedTuple):
    """A form with one button. `operators`: only they may press it."""

    words: str
    path: str
    fields: Mapping[str, str] = {}
    operators: bool = False


class Need(NamedTuple):
    """A line: `words`, a `name` that a user chose, and the `rest`; `times` with what happened, or
    will, at each (ms). `opens` is what the link to `address` says. `folded` stand below it, and
    `more` of its kind at `address` alone."""

    kind: str
    level: str
    words: str
    name: str = ""
    rest: str = ""
    times: Sequence[tuple[str, float]] = ()
    address: str = ""
    opens: str = "Show"
    act: Act | None = None
    folded: Sequence[Need] = ()
    more: int = 0


class Attention(NamedTuple):
    """As it was at `at_ms`. `unread` names what could not be read then."""

    needs: list[Need]
    unread: list[str]
    at_ms: int

    @property
    def first(self) -> list[Need]:
        return self.needs[:MOST_SHOWN]

    @property
    def rest(self) -> list[Need]:
        return self.needs[MOST_SHOWN:]

    @property
    def is_well(self) -> bool:
        return not self.needs and not self.unread


class Meter(NamedTuple):
    """The memory of a server: how full it is, and for how long its room lasts at the rate at which
    it fills; None if it does not. `level`: '', 'warning' or 'alarm'."""

    server: ServerStatus
    percent: float
    full_in_ms: float | None
    level: str


def level(value: float, bounds: tuple[float, float]) -> str:
    """'' where a figure is as it should be, else 'warning' or 'alarm'."""
    warning, alarm = bounds
    return "alarm" if value >= alarm else "warning" if value >= warning else ""


def ends_level(left_ms: float | None) -> str:
    """How bad it is that something ends in so long; '' if it is not soon, or has no end."""
    return "" if left_ms is None else level(-left_ms, (-_ENDS_IN_MS[0], -_ENDS_IN_MS[1]))


def worst(*levels: str) -> str:
    # "alarm" comes before "warning".
    return min((each for each in levels if each), default="")


def in_order(needs: Sequence[Need]) -> list[Need]:
    return sorted(needs, key=lambda each: (each.level, _ORDER.index(each.kind)))


def folded(needs: Sequence[Need], words: str, address: str, total: int = 0) -> list[Need]:
    """These lines; or if they are many, one line, which unfolds into the first of them. Pure."""
    total = max(total, len(needs))
    if not needs or total < _FOLDED_FROM:
        return [*needs]
    kind, levels = needs[0].kind, worst(*(each.level for each in needs))
    shown, first = needs[:MOST_SHOWN], [each.times[0] for each in needs if each.times]
    times = [min(first, key=lambda each: each[1])] if first else []
    more = total - len(shown)
    return [Need(kind, levels, words, times=times, address=address, folded=shown, more=more)]


def at_this_rate(words: str, left_ms: float | None) -> str:
    """`, enough for 9 days at this rate`."""
    return "" if left_ms is None else f", {words} {roughly(left_ms)} at this rate"


async def meters_of(store: Store, shared: Shared) -> list[Meter]:
    history = await shared.get("filling", _HISTORY_GOOD_FOR_S, store.filling.history)
    servers = await shared.get("servers", _SERVERS_GOOD_FOR_S, store.system.servers)
    now_ms = store.clock.now_ms()
    return [meter_of(each, history.get(each.name, []), now_ms) for each in servers]


def meter_of(server: ServerStatus, history: Sequence[Sample], now_ms: int) -> Meter:
    """Pure."""
    if not server.most_bytes:
        return Meter(server, 0.0, None, "")
    percent = min(100.0, 100 * server.used_bytes / server.most_bytes)
    left_ms = full_in_ms(history, Sample(now_ms, server.used_bytes), server.most_bytes)
    how = worst(level(percent / 100, _FULL_SHARES), ends_level(left_ms))
    return Meter(server, round(percent, 1), left_ms, how)
