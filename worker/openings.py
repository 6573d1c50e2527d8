"""Openings: who may open a connection to an origin now, and who waits in line for one."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from scheduler.targets import Origin
from worker.line import Line

if TYPE_CHECKING:
    from worker.fire import Fire

# Thousands due at once at a cold target would overflow its accept queue (100 to 511 places with
# most servers), which costs a second, or cost a millisecond of TLS handshake each, though the first
# answers free connections for the rest.
MAX_OPENINGS = 64


class Openings:
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
        self._lines: defaultdict[Origin, Line] = defaultdict(Line)
        self.in_line = 0
        """How many stand in any line, ended ones included."""

    def admit(self, origin: Origin, entry: Fire) -> bool:
        """True: go and open one, and call `ended` after it. False: it stands in line."""
        line = self._lines[origin]
        if self._has_room(line) and not line:
            self._begin(line, entry)
            return True
        line.add(entry)
        self.in_line += 1
        return False

    def hold(self, origin: Origin, entry: Fire) -> bool:
        """For want of a local port an admitted entry goes back to its line, ahead of its account's
        others, and nothing is admitted until `release`. True: that is to be called after a while;
        False: it is already to be."""
        line = self._lines[origin]
        line.put_back(entry)
        self.in_line += 1
        line.hope_s = time.monotonic()
        was_held, line.is_held = line.is_held, True
        return not was_held

    def release(self, origin: Origin) -> None:
        """Admit entries again; then ask `next_to_open`."""
        line = self._lines.get(origin)
        if line is not None:
            line.is_held = False

    def opened(self, origin: Origin, account_id: str) -> None:
        """A connection was made; `closed` is to follow, however it ends."""
        line = self._lines[origin]  # a new one, if it was given up at the same moment
        line.open += 1
        line.count(account_id, 1)
        line.hope_s = time.monotonic()

    def ended(self, origin: Origin, account_id: str) -> None:
        """The admitted fire has its connection, or will not get one."""
        line = self._lines[origin]
        line.opening -= 1
        line.count(account_id, -1)
        self._forget_empty(origin, line)

    def closed(self, origin: Origin, account_id: str) -> None:
        line = self._lines[origin]
        line.open -= 1
        line.count(account_id, -1)
        line.leaving = max(0, line.leaving - 1)
        self._forget_empty(origin, line)

    def next_to_open(self, origin: Origin) -> Fire | None:
        """Who is admitted now, if there is room and anybody waits."""
        line = self._lines.get(origin)
        while line and self._has_room(line):
            entry = line.pop()
            self.in_line -= 1
            if not entry.is_over:
                self._begin(line, entry)
                return entry
            self._forget_empty(origin, line)
        return None

    def is_due(self, origin: Origin, account_id: str, opened_s: float) -> bool:
        """Whether a connection of the account, made at that time, that came free is to be closed,
        so that the next in line gets its place."""
        line = self._lines.get(origin)
        if line is None or self._coming(line) > 0 or self._lacks(line) <= 0:
            return False
        return line.is_due(account_id, opened_s, time.monotonic())

    def next_to_reuse(self, origin: Origin, account_id: str) -> Fire | None:
        """What goes next over a connection of the account that came free; None if nothing may."""
        line = self._lines.get(origin)
        if line is None:
            return None
        while (entry := line.pop_to_reuse(account_id)) is not None:
            self.in_line -= 1
            if not entry.is_over:
                return entry
        return None

    def must_make_room(self, origin: Origin) -> bool:
        """Whether the line is longer than the places that are free or about to be."""
        line = self._lines.get(origin)
        return line is not None and self._lacks(line) > 0

    def is_urgent(self, origin: Origin) -> bool:
        """Whether idle connections are to be closed for that at once."""
        line = self._lines[origin]
        return line.is_urgent(time.monotonic(), self._coming(line) > 0)

    def connections(self, origin: Origin, account_id: str) -> int:
        """Of an account, those that are being opened too."""
        return self._lines[origin].connections[account_id]

    def makes_room(self, origin: Origin) -> None:
        """A connection was aborted for that; its `closed` is to follow."""
        self._lines[origin].leaving += 1

    def pop_hopeless(self, origin: Origin, since_s: float) -> list[Fire]:
        """Those in line since then to whose target there was no connection in all that time, for
        anybody: it is not us whom they wait for."""
        line = self._lines.get(origin)
        if line is None or line.open or line.hope_s > since_s:
            return []
        gone = line.pop_until(since_s)
        self.in_line -= len(gone)
        self._forget_empty(origin, line)
        return gone

    @property
    def unbegun(self) -> int:
        """How many stand in a line whose turn has not come yet."""
        return self.in_line - sum(len(line.again) for line in self._lines.values())

    def pop_unbegun(self) -> list[Fire]:
        """All those leave their lines."""
        left: list[Fire] = []
        for origin, line in list(self._lines.items()):
            left += line.pop_until(math.inf)
            self._forget_empty(origin, line)
        self.in_line -= len(left)
        return left

    def clear(self) -> None:
        self.pop_unbegun()
        for line in self._lines.values():
            line.again.clear()
        self.in_line = 0

    def _begin(self, line: Line, entry: Fire) -> None:
        line.opening += 1
        line.count(entry.account_id, 1)

    def _has_room(self, line: Line) -> bool:
        if line.is_held or line.opening >= MAX_OPENINGS:
            return False
        return line.opening + line.open < self._most

    def _coming(self, line: Line) -> int:
        """How many places are free, or about to be."""
        return self._most - line.opening - line.open + line.leaving

    def _lacks(self, line: Line) -> int:
        """How many more those in line could use at once."""
        if line.is_held:
            return 0
        return min(len(line), MAX_OPENINGS - line.opening) - max(0, self._coming(line))

    def _forget_empty(self, origin: Origin, line: Line) -> None:
        if not (line.opening or line.open or line):
            del self._lines[origin]
