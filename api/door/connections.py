"""What the clients of one process may hold: connections in all and of each address, and bytes."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from typing import TYPE_CHECKING

from api.door.proxies import is_trusted
from api.limits import FOR_HEALTH, budgets
from scheduler.runtime.settings import Settings

if TYPE_CHECKING:
    from api.door.protocol import Protocol

# A new connection looks at so many others for one that may give way.
_LOOKS = 256

_Line = OrderedDict["Protocol", None]


class Connections:
    """Where there are too many, the one that has waited longest for its client gives way to the
    new one: a client that holds connections and sends nothing pushes out its own.

    Only where requests are carried out on all of them does none give way. Then the new one may
    ask only for the process's health, and so may a few more, of which the oldest gives way.
    """

    def __init__(self, settings: Settings) -> None:
        self.most = settings.max_connections
        self._most_per_address = settings.max_connections_per_address
        self._trusted = settings.trusted_proxies
        self._all: _Line = OrderedDict()
        self._of: dict[str, _Line] = {}
        self._for_health: _Line = OrderedDict()

    def __len__(self) -> int:
        return len(self._all) + len(self._for_health)

    def add(self, connection: Protocol, address: str) -> bool:
        """Whether it may ask for everything; if not, only for health. Give it back by `remove`."""
        ours = self._of.get(address, _Line())
        # All clients of a proxy of ours come from its address.
        is_full = 0 < self._most_per_address <= len(ours)
        if is_full and not is_trusted(address, self._trusted):
            admitted = self._made_room(ours)
        else:
            admitted = len(self._all) < self.most or self._made_room(self._all)
        if admitted:
            self._all[connection] = None
            self._of.setdefault(address, ours)[connection] = None
        else:
            self._for_health[connection] = None
            if len(self._for_health) > FOR_HEALTH:
                next(iter(self._for_health)).give_way()
        return admitted

    def remove(self, connection: Protocol, address: str) -> None:
        """Safe to repeat."""
        self._for_health.pop(connection, None)
        self._all.pop(connection, None)
        ours = self._of.get(address)
        if ours is not None:
            ours.pop(connection, None)
            if not ours:
                del self._of[address]

    def _made_room(self, line: _Line) -> bool:
        """Like a clock's hand: a connection that had an answer since the last look is passed over
        once, one whose request is being carried out each time."""
        for _ in range(min(len(line), _LOOKS)):
            oldest = next(iter(line))
            if oldest.waits and not oldest.recent:
                oldest.give_way()
                return True
            oldest.recent = False
            line.move_to_end(oldest)
        return False


class ByteBudget:
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
        """Takes them in order, when so many are left; waits for ever for more than all."""
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


class ConnectionLimits:
    """What the connections of one process share."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.head_s = settings.head_timeout_ms / 1000
        self.body_grace_s = settings.body_grace_ms / 1000
        self.idle_s = settings.idle_timeout_ms / 1000
        self.connections = Connections(settings)
        self.bodies, self.made = map(ByteBudget, budgets(settings))
        self.rejected = Counter[int]()  # by the status of the answer
