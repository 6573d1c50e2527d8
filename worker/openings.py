"""Openings: who may open a connection to an origin now, and who waits in line for one."""

from __future__ import annotations

import math
import time
from typing import Generic

from scheduler.targets import Origin
from worker.line import Line, T

# Thousands due at once at a cold target would overflow its accept queue (100 to 511 places with
# most servers), and who falls out of it is late by a second; or cost a TLS handshake each, a
# millisecond of everybody's time, where the first answers free connections for the rest.
MAX_OPENINGS = 64


class _Place(Generic[T]):
    """One origin: how many connections it has, and who waits for one."""

    def __init__(self) -> None:
        self.opening = 0
        self.open = 0
        self.leaving = 0  # of the open ones: closed to make room, and not gone yet
        self.hope_s = -math.inf  # when a connection was made, or was not for want of a port
        self.is_held = False
        self.line: Line[T] = Line()


class Openings(Generic[T]):
    """At most `most_connections` to one origin, opening ones included, and at most 64 of them
    opening at a time; other origins do not notice.

    A connection belongs to one account until it ends. An entry in line goes on when a place comes
    free, or a connection of its account that it may use. Entries that were `resent` go first. Then
    a place goes to the account in line that has the fewest connections, by turns among equals, and
    to that account's oldest entry. If that account has no connection, room is made for it at once,
    else after `PATIENCE_S`. For that, idle connections are closed, and those that come free of an
    account that has at least two more. Of an account with a single one it is closed after `TURN_S`
    for one that has none. A line moves on with each `ended` and each `closed`: then ask
    `next_to_open`.
    """

    def __init__(self, most_connections: int) -> None:
        self._most = most_connections
        self._places: dict[Origin, _Place[T]] = {}
        self.in_line = 0
        """How many stand in any line, ended ones included."""

    def admit(self, origin: Origin, entry: T) -> bool:
        """True: go and open one, and call `ended` after it. False: it stands in line."""
        place = self._place(origin)
        if self._has_room(place) and not place.line:
            self._begin(place, entry)
            return True
        place.line.add(entry)
        self.in_line += 1
        return False

    def hold(self, origin: Origin, entry: T) -> bool:
        """For want of a local port an admitted entry goes back to its line, ahead of its account's
        others, and nothing is admitted until `release`. True: that is to be called after a while;
        False: it is already to be."""
        place = self._place(origin)
        place.line.put_back(entry)
        self.in_line += 1
        place.hope_s = time.monotonic()
        was_held, place.is_held = place.is_held, True
        return not was_held

    def release(self, origin: Origin) -> None:
        """Admit entries again; then ask `next_to_open`."""
        place = self._places.get(origin)
        if place is not None:
            place.is_held = False

    def opened(self, origin: Origin, account_id: str) -> None:
        """A connection was made; `closed` is to follow, however it ends."""
        place = self._place(origin)  # a new one, if it was given up at the same moment
        place.open += 1
        place.line.count(account_id, 1)
        place.hope_s = time.monotonic()

    def ended(self, origin: Origin, account_id: str) -> None:
        """What was admitted has its connection, or will not have one."""
        place = self._places[origin]
        place.opening -= 1
        place.line.count(account_id, -1)
        self._forget_empty(origin, place)

    def closed(self, origin: Origin, account_id: str) -> None:
        place = self._places[origin]
        place.open -= 1
        place.line.count(account_id, -1)
        place.leaving = max(0, place.leaving - 1)
        self._forget_empty(origin, place)

    def next_to_open(self, origin: Origin) -> T | None:
        """Who is admitted now, if there is room and anybody waits."""
        place = self._places.get(origin)
        while place is not None and place.line and self._has_room(place):
            entry = place.line.pop()
            self.in_line -= 1
            if not entry.is_over:
                self._begin(place, entry)
                return entry
            self._forget_empty(origin, place)
        return None

    def is_due(self, origin: Origin, account_id: str, opened_s: float) -> bool:
        """Whether a connection of the account, made at that time, that came free is to be closed,
        so that the next in line gets its place."""
        place = self._places.get(origin)
        if place is None or self._coming(place) > 0 or self._lacks(place) <= 0:
            return False
        return place.line.is_due(account_id, opened_s, time.monotonic())

    def next_to_reuse(self, origin: Origin, account_id: str) -> T | None:
        """What goes next over a connection of the account that came free; None if nothing may."""
        place = self._places.get(origin)
        if place is None:
            return None
        while (entry := place.line.pop_to_reuse(account_id)) is not None:
            self.in_line -= 1
            if not entry.is_over:
                return entry
        return None

    def must_make_room(self, origin: Origin) -> bool:
        """Whether the line is longer than the places that are free or about to be."""
        place = self._places.get(origin)
        return place is not None and self._lacks(place) > 0

    def is_urgent(self, origin: Origin) -> bool:
        """Whether idle connections are to be closed for that at once."""
        place = self._places[origin]
        return place.line.is_urgent(time.monotonic(), self._coming(place) > 0)

    def connections(self, origin: Origin, account_id: str) -> int:
        """Of an account, those that are being opened too."""
        return self._places[origin].line.connections(account_id)

    def makes_room(self, origin: Origin) -> None:
        """A connection was aborted for that; its `closed` is to follow."""
        self._places[origin].leaving += 1

    def pop_hopeless(self, origin: Origin, since_s: float) -> list[T]:
        """Those in line since then to whose target there was no connection in all that time, for
        anybody: it is not us whom they wait for."""
        place = self._places.get(origin)
        if place is None or place.open or place.hope_s > since_s:
            return []
        gone = place.line.pop_until(since_s)
        self.in_line -= len(gone)
        self._forget_empty(origin, place)
        return gone

    @property
    def unbegun(self) -> int:
        """How many stand in a line whose turn has not come yet."""
        return self.in_line - sum(len(place.line.again) for place in self._places.values())

    def pop_unbegun(self) -> list[T]:
        """All those leave their lines."""
        left: list[T] = []
        for origin, place in list(self._places.items()):
            left += place.line.pop_until(math.inf)
            self._forget_empty(origin, place)
        self.in_line -= len(left)
        return left

    def clear(self) -> None:
        """Dissolve all lines."""
        self.pop_unbegun()
        for place in self._places.values():
            place.line.again.clear()
        self.in_line = 0

    def _place(self, origin: Origin) -> _Place[T]:
        place = self._places.get(origin)
        if place is None:
            place = self._places[origin] = _Place()
        return place

    def _begin(self, place: _Place[T], entry: T) -> None:
        place.opening += 1
        place.line.count(entry.account_id, 1)

    def _has_room(self, place: _Place[T]) -> bool:
        if place.is_held or place.opening >= MAX_OPENINGS:
            return False
        return place.opening + place.open < self._most

    def _coming(self, place: _Place[T]) -> int:
        """How many places are free, or about to be."""
        return self._most - place.opening - place.open + place.leaving

    def _lacks(self, place: _Place[T]) -> int:
        """How many more those in line could use at once."""
        if place.is_held:
            return 0
        return min(len(place.line), MAX_OPENINGS - place.opening) - max(0, self._coming(place))

    def _forget_empty(self, origin: Origin, place: _Place[T]) -> None:
        if not (place.opening or place.open or place.line):
            del self._places[origin]
