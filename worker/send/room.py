"""Room at an origin whose connections are all taken: kept ones of other accounts are closed."""

from __future__ import annotations

import asyncio
from functools import partial

from scheduler.target.targets import Origin
from worker.send.connection_slots import ConnectionSlots
from worker.send.origin_queue import PATIENCE_S
from worker.send.pool import Pool
from worker.send.wire import Wire


class RoomMaker:
    """For the fires that are queued in `slots`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, slots: ConnectionSlots, pool: Pool) -> None:
        self._loop = loop
        self._slots = slots
        self._pool = pool
        self._crowded: set[Origin] = set()  # where room may have to be made in a moment

    def make(self, origin: Origin) -> None:
        """Now, or in a moment."""
        connections = partial(self._slots.connections, origin)
        while self._slots.must_make_room(origin):
            if not self._slots.is_urgent(origin):
                self._make_later(origin)
                return
            if not self._pool.drop_idle(origin, connections):
                return
            self._slots.makes_room(origin)

    def _make_later(self, origin: Origin) -> None:
        def make() -> None:
            self._crowded.discard(origin)
            self.make(origin)

        if origin not in self._crowded and self._pool.has_idle(origin):
            self._crowded.add(origin)
            self._loop.call_later(PATIENCE_S, make)

    def retire(self, wire: Wire) -> None:
        """A connection has had its last exchange. A target that said that it closes it may do so,
        unless the place is needed."""
        origin = wire.route.origin
        is_wanted = self._slots.must_make_room(origin)
        if wire.closes_first and not is_wanted:
            self._pool.keep(wire)
            return
        wire.abort()
        if is_wanted:
            self._slots.makes_room(origin)
