"""Arithmetic of the statistics: which rollups a period needs, and what lateness counts as.

A day's rollup has its hours, an hour's its minutes, a minute's its seconds. A period is covered by
the fewest of them; parts of a second at either end are read from the log. Seconds are kept for
`SECONDS_KEPT_MS`: before that, parts of a minute are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

SECOND_MS = 1000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
SECONDS_KEPT_MS = 2 * DAY_MS

# A rollup's name, the width of its buckets and of all of them together, from coarse to fine.
_LEVELS = (("day", HOUR_MS, DAY_MS), ("hour", MINUTE_MS, HOUR_MS), ("minute", SECOND_MS, MINUTE_MS))

# What a rollup's bucket sums, by a letter; of a histogram, with its bucket. The field with the
# number of the bucket has all of these, as a msgpack map.
COMPLETED, FAILED, RESPONSE_TIME, LATENESS, RESPONSE = "c", "f", "t", "b", "r"
# Created schedules by the hour, and so credits spent: in a field of its own, behind the number.
CREATED = "s"

# Upper bounds (ms, inclusive) of the lateness histogram's buckets; one more catches the rest.
LATENESS_BOUNDS_MS = (
    *(0, 1, 2, 5, 10, 20, 50, 100, 250, 1000, 5000),
    *(60_000, 120_000, 300_000, 900_000, 1_800_000, 3_600_000),
)

# Response times: no bucket is wider than half its values, so quantiles are exact to a quarter.
RESPONSE_BOUNDS_MS = (
    *(1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700),
    *(1000, 1500, 2000, 3000, 5000, 7000, 10_000, 15_000, 20_000, 30_000, 60_000),
)

# The buckets of the two histograms, by the names that a rollup has them by.
RESPONSES = tuple(f"{RESPONSE}{bucket}" for bucket in range(len(RESPONSE_BOUNDS_MS) + 1))
# A number keeps its bound for as long as rollups are kept: those of 2, 5, 15 and 30 min came last.
LATENESSES = tuple(f"{LATENESS}{bucket}" for bucket in (*range(12), 14, 15, 16, 17, 12, 13))


class Usage(msgspec.Struct, frozen=True):
    """Executions counted over a period: `from_ms` inclusive, `to_ms` exclusive."""

    completed: int
    failed: int
    total_response_time_ms: int
    from_ms: int
    to_ms: int

    @property
    def executed(self) -> int:
        return self.completed + self.failed

    @property
    def average_response_time_ms(self) -> float:
        return self.total_response_time_ms / self.executed if self.executed else 0.0


class Range(NamedTuple):
    """Buckets `first` to `last` of one rollup, such as `hour:495412`."""

    rollup: str
    first: int
    last: int


class Cover(NamedTuple):
    """What to sum for a period: ranges of rollups, and stretches of the log `[from, to)` in ms."""

    ranges: list[Range]
    stretches: list[tuple[int, int]]


def cover(from_ms: int, to_ms: int, now_ms: int) -> Cover:
    """Covers `[from_ms, to_ms)` exactly, each moment once."""
    result = Cover([], [])
    if from_ms < to_ms:
        _descend(from_ms, to_ms, now_ms, 0, result)
    return result


def _descend(from_ms: int, to_ms: int, now_ms: int, level: int, result: Cover) -> None:
    """Covers a stretch with whole buckets of this level, and both ends with finer ones."""
    if level == len(_LEVELS):
        result.stretches.append((from_ms, to_ms))
        return
    name, width, span = _LEVELS[level]
    first, end = -(-from_ms // width) * width, to_ms // width * width
    gone = name == "minute" and from_ms < now_ms - SECONDS_KEPT_MS
    if first >= end or gone:
        _descend(from_ms, to_ms, now_ms, level + 1, result)
        return
    if from_ms < first:
        _descend(from_ms, first, now_ms, level + 1, result)
    result.ranges.extend(_ranges(name, width, span, first, end))
    if end < to_ms:
        _descend(end, to_ms, now_ms, level + 1, result)


def _ranges(name: str, width: int, span: int, first: int, end: int) -> list[Range]:
    """The buckets of `[first, end)`, split where one rollup ends and the next begins."""
    ranges = []
    while first < end:
        number = first // span
        stop = min(end, (number + 1) * span)
        ranges.append(Range(f"{name}:{number}", first % span // width, (stop - 1) % span // width))
        first = stop
    return ranges


def ranges_of(name: str, from_ms: int, to_ms: int) -> list[Range]:
    """The buckets of one level, `day` or `hour`, from the edge of one to the edge of another."""
    [(width, span)] = [(width, span) for level, width, span in _LEVELS if level == name]
    return _ranges(name, width, span, from_ms, to_ms)


def lateness_quantile_ms(histogram: Sequence[int], share: float) -> int | None:
    """The upper bound of the bucket that the quantile lies in."""
    found = _bucket_of_quantile(histogram, share, LATENESS_BOUNDS_MS)
    return None if found is None else found[1]


def around(from_ms: int, to_ms: int, first_ms: int, now_ms: int) -> tuple[Cover, Cover]:
    """Buckets to add, and log entries to take away, for a stretch that begins before the log: whole
    buckets, less the entries after its end. If the log begins later still, the end rounds down to a
    bucket as the beginning does: adjacent periods share nothing and leave out nothing."""
    gone = from_ms < now_ms - SECONDS_KEPT_MS
    name, width, span = _LEVELS[1] if gone else _LEVELS[2]
    begin, end = from_ms // width * width, to_ms // width * width
    if to_ms < first_ms or end == to_ms:
        return Cover(_ranges(name, width, span, begin, end), []), Cover([], [])
    whole = end + width
    return Cover(_ranges(name, width, span, begin, whole), []), Cover([], [(to_ms, whole)])


def response_quantile_ms(histogram: Sequence[int], share: float) -> float | None:
    """The quantile of response times, as if each bucket's were spread evenly in it."""
    found = _bucket_of_quantile(histogram, share, RESPONSE_BOUNDS_MS)
    if found is None:
        return None
    below_ms, bound_ms, part = found
    return below_ms + (bound_ms - below_ms) * part


def _bucket_of_quantile(
    histogram: Sequence[int], share: float, bounds_ms: Sequence[int]
) -> tuple[int, int, float] | None:
    """The bounds of the quantile's bucket, and behind what part of its counts it lies; the last
    bound twice for values beyond it. None for an empty one."""
    left = share * sum(histogram)
    if left <= 0:
        return None
    below_ms = 0
    for bound_ms, count in zip(bounds_ms, histogram, strict=False):
        if left <= count:
            return below_ms, bound_ms, left / count
        left -= count
        below_ms = bound_ms
    return below_ms, below_ms, 0.0


def sums_of(packed: bytes | None) -> dict[str, int]:
    """What a bucket sums, by name. What is damaged counts as none."""
    try:
        sums: Any = msgspec.msgpack.decode(packed or b"\x80")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    if type(sums) is not dict:
        return {}
    return {name: value for name, value in sums.items() if type(value) is int and value > 0}


def buckets_of(responses_ms: Iterable[int], latenesses_ms: Iterable[int]) -> dict[str, int]:
    """What executions count in of both histograms, by the names in a rollup."""
    found: dict[str, int] = {}
    for values_ms, bounds_ms, names in (
        (responses_ms, RESPONSE_BOUNDS_MS, RESPONSES),
        (latenesses_ms, LATENESS_BOUNDS_MS, LATENESSES),
    ):
        for value_ms, count in Counter(values_ms).items():  # in a burst many are the same
            name = names[bisect_left(bounds_ms, value_ms)]
            found[name] = found.get(name, 0) + count
    return found


def kept_from(now_ms: int, retention_ms: int) -> int:
    """The first moment that log and statistics still speak of: a whole minute, in both alike."""
    return (now_ms - retention_ms) // MINUTE_MS * MINUTE_MS
