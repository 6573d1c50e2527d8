"""Openings: who may open a connection to an origin now, and who waits in line for one."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Generic, Protocol, TypeVar

from scheduler.targets import Origin
from worker.turns import OfAccount, Turns

# Thousands due at once at a cold target would overflow its accept queue (100 to 511 places with
# most servers), and who falls out of it is late by a second; or cost a TLS handshake each, a
# millisecond of everybody's time, where the first answers free connections for the rest.
MAX_OPENINGS = 64


class Waiting(OfAccount, Protocol):
    """What stands in line, since `started_s` by the monotonic clock. `is_over`: it no longer
    wants a connection. `needs_fresh`: it may not be given one that was used before. `resent`:
    its turn had come once before."""

    @property
    def started_s(self) -> float: ...
    @property
    def is_over(self) -> bool: ...
    @property
    def needs_fresh(self) -> bool: ...
    @property
    def resent(self) -> bool: ...


T = TypeVar("T", bound=Waiting)


class _Place(Generic[T]):
    """One origin: how many connections it has, and who waits for one."""

    def __init__(self) -> None:
        self.opening = 0
        self.open = 0
        self.leaving = 0  # of the open ones: closed to make room, and not gone yet
        self.opened_s = -math.inf
        self.again: deque[T] = deque()
        self.fresh: Turns[T] = Turns()
        self.any: Turns[T] = Turns()

    @property
    def has_line(self) -> bool:
        return bool(self.again or self.fresh or self.any)

    @property
    def is_fresh_next(self) -> bool:
        """Whether the next in line is one that needs a fresh connection."""
        if self.again:
            return True
        if not self.fresh:
            return False
        return not self.any or self.fresh.first().started_s <= self.any.first().started_s

    def add(self, entry: T) -> None:
        if entry.resent:
            self.again.append(entry)
        else:
            (self.fresh if entry.needs_fresh else self.any).add(entry)

    def pop(self) -> T:
        if self.again:
            return self.again.popleft()
        return (self.fresh if self.is_fresh_next else self.any).pop()


class Openings(Generic[T]):
    """At most `most_connections` to one origin, opening ones included, and at most 64 of them
    opening at a time; other origins do not notice.

    Who waits goes on when a place comes free, or a connection that it may use, whichever is
    first. What has waited longest goes first, but accounts take turns, so that one's thousands at
    a host do not delay another's one; and who had its turn before, and has to go out again, is
    ahead of all. A line moves on with each `ended` and each `closed`: then ask `next_to_open`.
    """

    def __init__(self, most_connections: int) -> None:
        self._most = most_connections
        self._places: dict[Origin, _Place[T]] = {}
        self.in_line = 0
        """How many stand in any line, ended ones included."""

    def admit(self, origin: Origin, entry: T) -> bool:
        """True: go and open one, and call `ended` after it. False: it stands in line."""
        place = self._places.get(origin)
        if place is None:
            place = self._places[origin] = _Place()
        if self._has_room(place) and not place.has_line:
            place.opening += 1
            return True
        place.add(entry)
        self.in_line += 1
        return False

    def opened(self, origin: Origin) -> None:
        """A connection was made; `closed` is to follow, however it ends."""
        place = self._places.get(origin)
        if place is None:  # it was given up at the same moment
            place = self._places[origin] = _Place()
        place.open += 1
        place.opened_s = time.monotonic()

    def ended(self, origin: Origin) -> None:
        """What was admitted has its connection, or will not have one."""
        place = self._places[origin]
        place.opening -= 1
        self._forget_empty(origin, place)

    def closed(self, origin: Origin) -> None:
        place = self._places[origin]
        place.open -= 1
        place.leaving = max(0, place.leaving - 1)
        self._forget_empty(origin, place)

    def next_to_open(self, origin: Origin) -> T | None:
        """Who is admitted now, if there is room and anybody waits."""
        place = self._places.get(origin)
        while place is not None and place.has_line and self._has_room(place):
            entry = place.pop()
            self.in_line -= 1
            if not entry.is_over:
                place.opening += 1
                return entry
            self._forget_empty(origin, place)
        return None

    def next_to_reuse(self, origin: Origin) -> T | None:
        """A used connection came free; returns who is to have it, if it is anybody's turn."""
        place = self._places.get(origin)
        if place is None:
            return None
        if (place.again or place.fresh) and place.is_fresh_next and self._is_full(place):
            return None
        while place.any:
            entry = place.any.pop()
            self.in_line -= 1
            if not entry.is_over:
                return entry
        return None

    def must_make_room(self, origin: Origin) -> bool:
        """Whether somebody waits who is only served once a connection of the origin is closed."""
        place = self._places.get(origin)
        return place is not None and place.has_line and self._is_full(place)

    def makes_room(self, origin: Origin) -> None:
        """A connection was aborted for that; its `closed` is to follow."""
        self._places[origin].leaving += 1

    def pop_hopeless(self, origin: Origin, since_s: float) -> list[T]:
        """Those in line since then to whose target there was no connection in all that time, for
        anybody: it is not us whom they wait for."""
        place = self._places.get(origin)
        if place is None or place.open or place.opened_s > since_s:
            return []

        def is_gone(entry: T) -> bool:
            return entry.started_s <= since_s

        gone = place.fresh.pop_while(is_gone) + place.any.pop_while(is_gone)
        self.in_line -= len(gone)
        self._forget_empty(origin, place)
        return gone

    @property
    def unbegun(self) -> int:
        """How many stand in a line whose turn has not come yet."""
        return self.in_line - sum(len(place.again) for place in self._places.values())

    def pop_unbegun(self) -> list[T]:
        """All those leave their lines."""
        left: list[T] = []
        for origin, place in list(self._places.items()):
            left += place.fresh.pop_all() + place.any.pop_all()
            self._forget_empty(origin, place)
        self.in_line -= len(left)
        return left

    def clear(self) -> None:
        """Dissolve all lines."""
        self.pop_unbegun()
        for place in self._places.values():
            place.again.clear()
        self.in_line = 0

    def _has_room(self, place: _Place[T]) -> bool:
        return place.opening < MAX_OPENINGS and place.opening + place.open < self._most

    def _is_full(self, place: _Place[T]) -> bool:
        return place.opening + place.open - place.leaving >= self._most

    def _forget_empty(self, origin: Origin, place: _Place[T]) -> None:
        if not (place.opening or place.open or place.has_line):
            del self._places[origin]
