"""What each part of `Schedules` and of `Claims` needs."""

from __future__ import annotations

from scheduler.store.retention import Retention
from scheduler.store.server import Server
from scheduler.store.server.clock import StoreClock


class Part:
    """What a store does with schedules, by the script that does it."""

    def __init__(self, server: Server, clock: StoreClock, retention: Retention) -> None:
        self._server = server
        self._secrecy = server.secrecy
        self._clock = clock
        self._retention = retention
