"""Decides which fire may open a connection to an origin now, and queues the others."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from scheduler.target.targets import Origin
from worker.send.origin_queue import OriginQueue

if TYPE_CHECKING:
    from worker.send.fire import Fire

# Thousands due at once at a cold target would overflow its accept queue (100 to 511 places with
# most servers), which costs a second, or cost a millisecond of TLS handshake each, though the first
# answers free connections for the rest.
MAX_OPENINGS = 64


class ConnectionSlots:
    """At most `most_connections` to one origin, opening ones included, and at most 64 of them
    opening at a time; other origins do not notice.

    A connection belongs to one account until it ends. Entries that were `resent` go first. Then a
    place goes to the queued account that has the fewest connections, round-robin among equals, and
    to its oldest entry. For an account without one, room is made at once, else after `PATIENCE_S`:
    of idle connections, and of freed ones of an account that has at least two more; an account's
    only one goes after `TURN_S`. With each `ended` and each `closed`, ask `next_to_open`.
    """

    def __init__(self, most_connections: int) -> None:
        self._most = most_connections
        self._queues: defaultdict[Origin, OriginQueue] = defaultdict(OriginQueue)
        self.queued = 0
        """How many stand in any queue, ended ones included."""

    def admit(self, origin: Origin, entry: Fire) -> bool:
        """True: go and open one, and call `ended` after it. False: it stands in the queue."""
        queue = self._queues[origin]
        if self._has_room(queue) and not queue:
            self._begin(queue, entry)
            return True
        queue.add(entry)
        self.queued += 1
        return False

    def hold(self, origin: Origin, entry: Fire) -> bool:
        """For want of a local port an admitted entry goes back to its queue, ahead of its account's
        others, and nothing is admitted until `release`. True: that is to be called after a while;
        False: it is already to be."""
        queue = self._queues[origin]
        queue.put_back(entry)
        self.queued += 1
        queue.hope_s = time.monotonic()
        was_held, queue.is_held = queue.is_held, True
        return not was_held

    def release(self, origin: Origin) -> None:
        """Admit entries again; then ask `next_to_open`."""
        queue = self._queues.get(origin)
        if queue is not None:
            queue.is_held = False

    def opened(self, origin: Origin, account_id: str) -> None:
        """A connection was made; `closed` is to follow, however it ends."""
        queue = self._queues[origin]  # a new one, if it was given up at the same moment
        queue.open += 1
        queue.count(account_id, 1)
        queue.hope_s = time.monotonic()

    def ended(self, origin: Origin, account_id: str) -> None:
        """The admitted fire has its connection, or will not get one."""
        queue = self._queues[origin]
        queue.opening -= 1
        queue.count(account_id, -1)
        self._forget_empty(origin, queue)

    def closed(self, origin: Origin, account_id: str) -> None:
        queue = self._queues[origin]
        queue.open -= 1
        queue.count(account_id, -1)
        queue.leaving = max(0, queue.leaving - 1)
        self._forget_empty(origin, queue)

    def next_to_open(self, origin: Origin) -> Fire | None:
        """Who is admitted now, if there is room and anybody waits."""
        queue = self._queues.get(origin)
        while queue and self._has_room(queue):
            entry = queue.pop()
            self.queued -= 1
            if not entry.is_over:
                self._begin(queue, entry)
                return entry
            self._forget_empty(origin, queue)
        return None

    def is_due(self, origin: Origin, account_id: str, opened_s: float) -> bool:
        """Whether a connection of the account, made at that time, that came free is to be closed,
        so that the next in the queue gets its place."""
        queue = self._queues.get(origin)
        if queue is None or self._coming(queue) > 0 or self._lacks(queue) <= 0:
            return False
        return queue.is_due(account_id, opened_s, time.monotonic())

    def next_to_reuse(self, origin: Origin, account_id: str) -> Fire | None:
        """What goes next over a connection of the account that came free; None if nothing may."""
        queue = self._queues.get(origin)
        if queue is None:
            return None
        while (entry := queue.pop_to_reuse(account_id)) is not None:
            self.queued -= 1
            if not entry.is_over:
                return entry
        return None

    def must_make_room(self, origin: Origin) -> bool:
        """Whether the queue is longer than the places that are free or about to be."""
        queue = self._queues.get(origin)
        return queue is not None and self._lacks(queue) > 0

    def is_urgent(self, origin: Origin) -> bool:
        """Whether idle connections are to be closed for that at once."""
        queue = self._queues[origin]
        return queue.is_urgent(time.monotonic(), self._coming(queue) > 0)

    def connections(self, origin: Origin, account_id: str) -> int:
        """Of an account, those that are being opened too."""
        return self._queues[origin].connections[account_id]

    def makes_room(self, origin: Origin) -> None:
        """A connection was aborted for that; its `closed` is to follow."""
        self._queues[origin].leaving += 1

    def pop_hopeless(self, origin: Origin, now_s: float) -> list[Fire]:
        """Removes the entries that were queued for their whole time limit, if no account had a
        connection to their target in all that time: their target is the cause."""
        queue = self._queues.get(origin)
        if queue is None or queue.open:
            return []
        gone = queue.pop_late(now_s)
        self.queued -= len(gone)
        self._forget_empty(origin, queue)
        return gone

    @property
    def unbegun(self) -> int:
        """How many are queued and have not begun yet."""
        return self.queued - sum(len(queue.again) for queue in self._queues.values())

    def pop_unbegun(self) -> list[Fire]:
        """All those leave their queues."""
        left: list[Fire] = []
        for origin, queue in list(self._queues.items()):
            left += queue.pop_late(math.inf)
            self._forget_empty(origin, queue)
        self.queued -= len(left)
        return left

    def clear(self) -> None:
        self.pop_unbegun()
        for queue in self._queues.values():
            queue.again.clear()
        self.queued = 0

    def _begin(self, queue: OriginQueue, entry: Fire) -> None:
        queue.opening += 1
        queue.count(entry.account_id, 1)

    def _has_room(self, queue: OriginQueue) -> bool:
        if queue.is_held or queue.opening >= MAX_OPENINGS:
            return False
        return queue.opening + queue.open < self._most

    def _coming(self, queue: OriginQueue) -> int:
        """How many places are free, or about to be."""
        return self._most - queue.opening - queue.open + queue.leaving

    def _lacks(self, queue: OriginQueue) -> int:
        """How many more those in the queue could use at once."""
        if queue.is_held:
            return 0
        return min(len(queue), MAX_OPENINGS - queue.opening) - max(0, self._coming(queue))

    def _forget_empty(self, origin: Origin, queue: OriginQueue) -> None:
        if not (queue.opening or queue.open or queue):
            del self._queues[origin]
