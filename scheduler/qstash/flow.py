"""What QStash's flow control says of a lane: how many messages run at a time, and how many start in
a period. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec.structs import replace

from scheduler.durations import parse_duration
from scheduler.lane_settings import (
    LONGEST_PER_MS,
    MOST_PARALLEL,
    MOST_RATE,
    PARALLELISM,
    RATE,
    SHORTEST_PER_MS,
    LaneSettings,
)

_PART = re.compile(r"\s*(parallelism|rate|period)\s*=\s*([0-9a-z]{1,32})\s*")
_DIGITS = re.compile(r"[0-9]{1,9}")


class FlowValue(NamedTuple):
    """None: no limit of this kind. The period is one second if none is given."""

    parallelism: int | None = None
    rate: int | None = None
    period_ms: int = 1000

    def limits(self, before: LaneSettings) -> LaneSettings:
        """The lane's settings when a message has come with this: pinned limits stay."""
        after, unpinned = before, set[str]()
        if not before.is_pinned(PARALLELISM):
            after = replace(after, parallelism=self.parallelism)
            unpinned |= {PARALLELISM} if self.parallelism else set()
        if not before.is_pinned(RATE):
            after = self._with_rate(after)
            unpinned |= {RATE} if self.rate else set()
        return replace(after, unpinned=frozenset(unpinned))

    def pinned(self, before: LaneSettings) -> LaneSettings:
        """The lane's settings with these limits pinned. Those that are not given stay."""
        after, unpinned = before, before.unpinned
        if self.parallelism:
            after, unpinned = replace(after, parallelism=self.parallelism), unpinned - {PARALLELISM}
        if self.rate:
            after, unpinned = self._with_rate(after), unpinned - {RATE}
        return replace(after, unpinned=unpinned)

    def _with_rate(self, settings: LaneSettings) -> LaneSettings:
        """As many may come at once as in a period: a period of QStash begins so."""
        if self.rate is None:
            return replace(settings, rate=None, per_ms=None, burst=None)
        burst = self.rate if self.rate > 1 else None
        return replace(settings, rate=self.rate, per_ms=self.period_ms, burst=burst)


def flow_value(text: str) -> FlowValue:
    """Of `parallelism=2, rate=10, period=1m`; each part may be missing. Raises ValueError."""
    given: dict[str, str] = {}
    for part in filter(str.strip, text.split(",", maxsplit=8)):
        found = _PART.fullmatch(part)
        if found is None or found[1] in given:
            raise ValueError("It must be such as parallelism=2, rate=10, period=1m.")
        given[found[1]] = found[2]
    return flow_of(given)


def flow_of(given: dict[str, str]) -> FlowValue:
    """Of texts by name. Raises ValueError."""
    parallelism = _count("parallelism", given, MOST_PARALLEL)
    rate = _count("rate", given, MOST_RATE)
    return FlowValue(parallelism, rate, _period_ms(given.get("period", "1")))


def of_queue(before: LaneSettings) -> LaneSettings:
    """The settings of a queue's lane when a message comes: one at a time, if nothing is set."""
    return before if before.is_set else replace(before, parallelism=1)


def _count(name: str, given: dict[str, str], most: int) -> int | None:
    if name not in given:
        return None
    text = given[name]
    if _DIGITS.fullmatch(text) is None or not 1 <= int(text) <= most:
        raise ValueError(f"{name} must be from 1 to {most:,}.")
    return int(text)


def _period_ms(text: str) -> int:
    try:
        ms = parse_duration(f"{text}s" if _DIGITS.fullmatch(text) else text)
    except ValueError:
        ms = 0
    if not SHORTEST_PER_MS <= ms <= LONGEST_PER_MS:
        raise ValueError("period must be from 1s to 1d.")
    return ms
