"""The connector: how new connections are made, and what the system lacks for them."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
import truststore

from scheduler.runtime.reminder import Reminder
from scheduler.runtime.settings import Settings
from scheduler.target.targets import Origin
from worker.fair_share import FairShare
from worker.loop_budget import LoopBudget, bound_reading
from worker.send.addresses.happy_eyeballs import HappyEyeballs, OutOfPorts, OutOfSockets
from worker.send.fire import Marks
from worker.send.handshakes import Handshakes, PausedProtocol, Unexamined
from worker.send.outcome import ConnectFailed, connect_failure
from worker.send.pool import Pool
from worker.send.sockets import OUT_OF_FILES, budget, is_out_of_ports
from worker.send.wire import Route, Wire, WireEvents

# How long nothing is tried without a free local port: an attempt looks through all, up to 10 ms.
PORTS_PAUSE_S = 1.0
_MOST_WITHOUT_PORTS = 1024
_TELLS = {
    OutOfSockets: "no sockets left; fires are put off",
    OutOfPorts: "no local ports left for a target; fires wait",
}
_log = structlog.get_logger(__name__)


def system_ssl_context() -> ssl.SSLContext:
    """TLS that trusts what the system trusts. On Linux OpenSSL's own context does, and truststore
    would read the whole trust store again for every connection, 20 ms each."""
    paths = ssl.get_default_verify_paths()
    if sys.platform == "linux" and (paths.cafile or paths.capath):
        return ssl.create_default_context()
    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _CountedWire(Wire):
    """A wire whose connector counts it from its beginning to its end. `weight`: what its handshake
    takes up of its account's share, until it ends."""

    def __init__(self, connector: Connector, route: Route, settings: Settings) -> None:
        most_bytes, keep_bytes = settings.max_response_bytes, settings.keep_answer_bytes
        super().__init__(route, most_bytes, connector.loop_budget, connector.events, keep_bytes)
        self._connector = connector
        self.weight = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        bound_reading(transport)
        self._connector.note_opened(self.route)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connector.note_closed(self.route)
        self._connector.handshakes.give_back(self.route.account_id, self.weight)


class Connector:
    """Makes connections within this process's budget of sockets.

    How many there may be of an origin is not for the connector to say; it calls `opened` and
    `closed` for each, with its origin and account.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pool: Pool,
        settings: Settings,
        ssl_context: ssl.SSLContext | None,
        events: WireEvents,
        *,
        opened: Callable[[Origin, str], None],
        closed: Callable[[Origin, str], None],
    ) -> None:
        self._loop = loop
        self._pool = pool
        self.events = events
        self._settings = settings
        self.loop_budget = LoopBudget(loop)
        self.handshakes = Handshakes(loop)
        self._ssl_context = ssl_context
        self._opened = opened
        self._closed = closed
        self._budget = budget()
        self._spares = FairShare(self._budget.spares)
        self.sockets = 0
        """Of connections, and of attempts at one."""
        self.shortages: dict[type[OutOfSockets], int] = {OutOfSockets: 0, OutOfPorts: 0}
        """How often a connection could not be made for want of one."""
        self._reminders = {OutOfSockets: Reminder(), OutOfPorts: Reminder()}
        # By address and port, until when: those for which no local port was left.
        self._without_ports_s: dict[tuple[str, int], float] = {}

    async def connect(
        self,
        origin: Origin,
        addresses: tuple[str, ...],
        account_id: str,
        marks: Marks,
        limit_s: float,
    ) -> Wire:
        """A new connection of the account's to the first address that gives one. Each of several
        has a part of `limit_s`; the caller enforces the limit. `marks` are of the last address
        tried. Raises ConnectFailed, or OutOfSockets."""
        marks.connect_s = time.monotonic()
        if len(addresses) == 1:
            return await self._connect_one(Route(origin, addresses[0], account_id), marks)

        def attempt(address: str) -> Coroutine[Any, Any, Wire]:
            return self._connect_one(Route(origin, address, account_id), marks)

        shared = (self._spares, account_id, marks.faults)
        return await HappyEyeballs(attempt, addresses, limit_s, *shared).run()

    def note_opened(self, route: Route) -> None:
        self.sockets += 1
        self._opened(route.origin, route.account_id)

    def note_closed(self, route: Route) -> None:
        self.sockets -= 1
        self._closed(route.origin, route.account_id)

    async def _connect_one(self, route: Route, marks: Marks) -> Wire:
        if self.sockets >= self._budget.sockets:
            self._pool.drop_oldest()
        self._expect_port(route)
        has_made_room = False
        while True:
            try:
                return await self._open(route, marks)
            except OSError as error:
                shortage = _shortage(error, route)
                if shortage is None:
                    raise ConnectFailed(*connect_failure(error)) from error
                # Kept connections are a luxury: all go, or those whose local ports would do.
                alike = route if shortage is OutOfPorts else None
                if has_made_room or not self._pool.drop_all(alike):
                    self._note_shortage(shortage, error, route)
                    raise shortage from error
            has_made_room = True
            await asyncio.sleep(0)  # the loop closes their sockets in its next round

    def _expect_port(self, route: Route) -> None:
        """Raises OutOfPorts if there was none for a connection to there just now."""
        there = route.address, route.origin.port
        until_s = self._without_ports_s.get(there)
        if until_s is None:
            return
        if self._loop.time() < until_s:
            self.shortages[OutOfPorts] += 1
            raise OutOfPorts
        del self._without_ports_s[there]

    def _note_shortage(self, shortage: type[OutOfSockets], error: OSError, route: Route) -> None:
        self.shortages[shortage] += 1
        if shortage is OutOfPorts:
            if len(self._without_ports_s) >= _MOST_WITHOUT_PORTS:
                self._without_ports_s.clear()
            self._without_ports_s[route.address, route.origin.port] = (
                self._loop.time() + PORTS_PAUSE_S
            )
        if self._reminders[shortage].is_due():
            _log.warning(_TELLS[shortage], error=str(error))

    async def _open(self, route: Route, marks: Marks) -> Wire:
        account_id = route.account_id
        wire = _CountedWire(self, route, self._settings)
        is_tls = route.origin.scheme == "https"
        self.sockets += 1
        marks.tls_s = None
        try:
            transport, _ = await self._loop.create_connection(
                PausedProtocol if is_tls else lambda: wire,
                route.address,
                route.origin.port,
                flags=socket.AI_NUMERICHOST,
            )
            if is_tls:
                context, host = self._tls(), route.origin.host
                marks.tls_s = connected_s = time.monotonic()
                wire.weight = await self.handshakes.secure(
                    transport, wire, context, host, account_id
                )
                wire.below = transport
                marks.tls_s = connected_s
        finally:
            self.sockets -= 1
        return wire

    def _tls(self) -> ssl.SSLContext:
        if self._ssl_context is None:
            self._ssl_context = system_ssl_context()
            self._ssl_context.sslobject_class = Unexamined
        return self._ssl_context


def _shortage(error: OSError, route: Route) -> type[OutOfSockets] | None:
    """What this process lacks, if that is why it could not connect. A type, because an exception
    that its own frame refers to is a ring."""
    if error.errno in OUT_OF_FILES:
        return OutOfSockets
    return OutOfPorts if is_out_of_ports(error, route.address, route.origin.port) else None
