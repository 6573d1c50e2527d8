"""Openings: who may open a connection to an origin now, and who waits in line for one."""

from __future__ import annotations

from collections import deque
from typing import Generic, Protocol, TypeVar

from scheduler.targets import Origin

# Thousands due at once at a cold target would overflow its accept queue (100 to 511 places with
# most servers), and who falls out of it is late by a second; or cost a TLS handshake each, a
# millisecond of everybody's time, where the first answers free connections for the rest.
MAX_OPENINGS = 64


class Waiting(Protocol):
    """What stands in line. `is_over`: it no longer wants a connection. `needs_fresh`: it may
    not be given one that was used before."""

    @property
    def is_over(self) -> bool: ...
    @property
    def needs_fresh(self) -> bool: ...


T = TypeVar("T", bound=Waiting)


class Openings(Generic[T]):
    """At most 64 connections are being opened to one origin at a time; other origins do not
    notice. Whoever waits goes on when an attempt ends or a connection comes free, whichever
    is first. There is no cap on connections that are open."""

    def __init__(self) -> None:
        self._opening: dict[Origin, int] = {}
        self._lines: dict[Origin, deque[T]] = {}

    def admit(self, origin: Origin, entry: T) -> bool:
        """True: go and open one, and call `ended` after it. False: it stands in line."""
        count = self._opening.get(origin, 0)
        if count >= MAX_OPENINGS:
            self._lines.setdefault(origin, deque()).append(entry)
            return False
        self._opening[origin] = count + 1
        return True

    def ended(self, origin: Origin) -> T | None:
        """An attempt has ended, well or not; returns who is to open a connection now, if any."""
        following = self._following(origin)
        if following is not None:
            return following
        count = self._opening[origin] - 1
        if count:
            self._opening[origin] = count
        else:
            del self._opening[origin]
        return None

    def claim_free(self, origin: Origin) -> T | None:
        """A used connection came free; returns who is to have it, if anybody waits."""
        if not self._lines:
            return None
        line = self._lines.get(origin)
        if not line or line[0].needs_fresh:
            return None
        return self._following(origin)

    def clear(self) -> None:
        self._lines.clear()

    def _following(self, origin: Origin) -> T | None:
        """The first in line that still wants one."""
        line = self._lines.get(origin)
        while line:
            entry = line.popleft()
            if not line:
                del self._lines[origin]
            if not entry.is_over:
                return entry
        return None
