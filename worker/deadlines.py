"""Deadlines of what is in flight: one time limit for all, so one queue and one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import takewhile
from typing import Generic, Protocol, TypeVar


class Timed(Protocol):
    """What has a deadline, by the loop's clock, in seconds."""

    @property
    def deadline_s(self) -> float: ...


T = TypeVar("T", bound=Timed)


class Deadlines(Generic[T]):
    """The entries in flight, first deadline first; `expire` is called with each that ran out.

    Entries must come in the order of their deadlines: one limit for all sees to that. A dict
    keeps that order and forgets an entry at once when it ends, where a deque would keep
    everything behind the slowest one, a million fires in 30 s. Its oldest entry is looked
    for only when the timer fires.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, expire: Callable[[T], None]) -> None:
        self._loop = loop
        self._expire = expire
        self._entries: dict[T, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: T) -> None:
        self._entries[entry] = None
        if self._timer is None:
            self._timer = self._loop.call_at(entry.deadline_s, self._on_timer)

    def discard(self, entry: T) -> None:
        """The entry has ended; harmless if it is not (or no longer) here."""
        self._entries.pop(entry, None)

    def clear(self) -> list[T]:
        """Forget all entries, and return them."""
        left = list(self._entries)
        self._entries.clear()
        self._stop_timer()
        return left

    def _on_timer(self) -> None:
        self._timer = None
        now = self._loop.time()
        # The whole list first: `expire` may add and discard entries.
        late = list(takewhile(lambda entry: entry.deadline_s <= now, self._entries))
        for entry in late:
            if self._entries.pop(entry, _MISSING) is None:
                self._expire(entry)
        self._rearm()

    def _rearm(self) -> None:
        oldest = next(iter(self._entries), None)
        if oldest is not None and self._timer is None:
            self._timer = self._loop.call_at(oldest.deadline_s, self._on_timer)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


_MISSING = object()
