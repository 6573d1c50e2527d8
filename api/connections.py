"""What the clients of one process may hold: so many connections in all and of each address, and so
many bytes."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from typing import Protocol as Shape

from api.limits import FOR_HEALTH, Limits
from api.proxies import is_trusted

# A new connection looks at so many others, at most, for one that may give way.
_LOOKS = 256


class Connection(Shape):
    """What is counted. `waits` while it is its client's turn to send or to read; `recent` if a
    request of it was answered since somebody last looked."""

    recent: bool

    @property
    def waits(self) -> bool: ...

    def give_way(self) -> None:
        """Closes at once."""


_Line = OrderedDict[Connection, None]


class Connections:
    """Where there are too many, the one that has waited longest for its client gives way to the
    new one: who holds connections and sends nothing pushes out himself, and who asks gets in.

    Only where all are having requests carried out is there none to give way. Then the new one
    may ask for nothing but the process's health, and so may a few more; among these, too, the
    oldest gives way.
    """

    def __init__(self, limits: Limits) -> None:
        self.most = limits.connections
        self._most_per_address = limits.connections_per_address
        self._trusted = limits.trusted_proxies
        self._all: _Line = OrderedDict()
        self._of: dict[str, _Line] = {}
        self._for_health: _Line = OrderedDict()

    def __len__(self) -> int:
        return len(self._all) + len(self._for_health)

    def add(self, connection: Connection, address: str) -> bool:
        """Whether it may ask for everything; if not, only for health. Give it back by `remove`."""
        ours = self._of.get(address, _Line())
        if self._is_full(ours, address):
            admitted = self._made_room(ours)
        else:
            admitted = len(self._all) < self.most or self._made_room(self._all)
        if admitted:
            self._all[connection] = None
            self._of.setdefault(address, ours)[connection] = None
        else:
            self._add_for_health(connection)
        return admitted

    def _is_full(self, ours: _Line, address: str) -> bool:
        """All come from a proxy's address; whom it lets in, it has to bound itself."""
        most = self._most_per_address
        return 0 < most <= len(ours) and not is_trusted(address, self._trusted)

    def remove(self, connection: Connection, address: str) -> None:
        """Safe to repeat."""
        self._for_health.pop(connection, None)
        self._all.pop(connection, None)
        ours = self._of.get(address)
        if ours is not None:
            ours.pop(connection, None)
            if not ours:
                del self._of[address]

    def _add_for_health(self, connection: Connection) -> None:
        self._for_health[connection] = None
        if len(self._for_health) > FOR_HEALTH:
            next(iter(self._for_health)).give_way()

    def _made_room(self, line: _Line) -> bool:
        """As a clock's hand goes round: who was of use since it came by last is passed over once,
        who is being served each time."""
        for _ in range(min(len(line), _LOOKS)):
            oldest = next(iter(line))
            if oldest.waits and not oldest.recent:
                oldest.give_way()
                return True
            oldest.recent = False
            line.move_to_end(oldest)
        return False


class Budget:
    """So many bytes, of which some are taken; what was taken has to be given back."""

    def __init__(self, size_bytes: int) -> None:
        self.left_bytes = size_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def take(self, wanted_bytes: int) -> bool:
        """All of them, or none and False."""
        if wanted_bytes > self.left_bytes:
            return False
        self.left_bytes -= wanted_bytes
        return True

    async def wait_for(self, wanted_bytes: int) -> None:
        """Takes them when it is the caller's turn and they are there, which more than the whole
        budget never is."""
        if not self._waiting and self.take(wanted_bytes):
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            self.give_back(0 if turn.cancelled() else wanted_bytes)
            raise

    def give_back(self, taken_bytes: int) -> None:
        self.left_bytes += taken_bytes
        while self._waiting:
            wanted_bytes, turn = self._waiting[0]
            if not turn.cancelled():
                if not self.take(wanted_bytes):
                    return
                turn.set_result(None)
            self._waiting.popleft()
