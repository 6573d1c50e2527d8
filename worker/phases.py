"""Phases: how long each part of an exchange took, from moments that were noted on its way. Pure."""

from __future__ import annotations

import msgspec

from scheduler.models import Phases

# What completed on a kept connection in less has nothing to tell that its response time does not.
SLOW_MS = 1000


class Marks(msgspec.Struct):
    """When each part of the way to a new connection began, by the monotonic clock; None if it did
    not. `wait_s`: the connection is there, and the request goes out."""

    resolve_s: float | None = None
    connect_s: float | None = None
    tls_s: float | None = None
    wait_s: float | None = None

    @property
    def begun_s(self) -> float | None:
        begun = (self.resolve_s, self.connect_s, self.tls_s, self.wait_s)
        return next((each for each in begun if each is not None), None)


def phases_of(marks: Marks, heard_s: float | None, total_ms: int, whole: bool) -> Phases | None:
    """What an exchange of so many milliseconds was made of; None if nothing had begun. `heard_s` is
    when an answer in several pieces began, `whole`: all of one came. Each part lasts until the next
    begins, and the last until the end, so they add up to `total_ms`."""
    begun_s = marks.begun_s
    if begun_s is None:
        return None
    starts = (marks.resolve_s, marks.connect_s, marks.tls_s, marks.wait_s, heard_s)
    offsets_ms = [
        None if each is None else max(0, min(round((each - begun_s) * 1000), total_ms))
        for each in starts
    ]
    if whole and heard_s is None:
        offsets_ms[-1] = total_ms
    lengths_ms: list[int | None] = []
    until_ms = total_ms
    for offset_ms in reversed(offsets_ms):
        lengths_ms.append(None if offset_ms is None else max(0, until_ms - offset_ms))
        until_ms = until_ms if offset_ms is None else min(until_ms, offset_ms)
    return Phases(*reversed(lengths_ms))
