"""The largest number of starts in a window of time, and of exchanges at once. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def most_within(moments_ms: Iterable[float], window_ms: float) -> int:
    """The largest number in any window of that length, whose end does not belong to it."""
    found = sorted(moments_ms)
    begin = most = 0
    for end, at_ms in enumerate(found):
        while at_ms - found[begin] >= window_ms:
            begin += 1
        most = max(most, end - begin + 1)
    return most


def most_at_once(spans_ms: Iterable[tuple[float, float]]) -> int:
    """The largest number under way at one moment. One that begins when another ends follows it."""
    edges = sorted(edge for begin, end in spans_ms for edge in ((begin, 1), (end, -1)))
    now = most = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    return most
