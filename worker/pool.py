"""The pool: connections that are kept, and how new ones are made."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
import truststore

from scheduler.elapsed import elapsed_s
from scheduler.targets import Origin
from worker.handshakes import Handshakes, Unexamined, Unread
from worker.outcome import connect_failure
from worker.phases import Marks
from worker.race import ConnectFailed, OutOfSockets, Race
from worker.ration import Ration, bound_reading
from worker.shares import Shares
from worker.sockets import budget
from worker.wire import Route, Wire

# Below the 5 s after which Node, uvicorn and Apache hang up by default: a kept connection that
# dies as it is written to costs a second attempt.
IDLE_LIMIT_S = 4.0
SWEEP_S = 1.0
# Older than that it gets only where nobody swept.
_STALE_S = IDLE_LIMIT_S + 2 * SWEEP_S
MAX_IDLE_PER_ROUTE = 1024
MAX_IDLE = 4096
_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_TELL_EVERY_S = 60.0
_log = structlog.get_logger(__name__)


def system_ssl_context() -> ssl.SSLContext:
    """TLS that trusts what the system trusts.

    On Linux truststore reads the whole trust store again for every connection, 20 ms each; there
    OpenSSL's own context, loaded once, trusts the same files.
    """
    paths = ssl.get_default_verify_paths()
    if sys.platform == "linux" and (paths.cafile or paths.capath):
        return ssl.create_default_context()
    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _CountedWire(Wire):
    """A wire whose pool hears of its beginning and of its end, whoever ends it."""

    __slots__ = ("_pool", "_weight")

    def __init__(self, pool: Pool, route: Route, max_body_bytes: int, keep_bytes: int) -> None:
        super().__init__(route, max_body_bytes, pool.ration, pool.forget, keep_bytes)
        self._pool = pool
        self._weight = ("", 0)

    def weigh(self, account_id: str, weight: int) -> None:
        """What its handshake takes up of the account's share, until it ends."""
        self._weight = (account_id, weight)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        bound_reading(transport)
        self._pool.note_opened(self.route.origin)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._pool.note_closed(self.route.origin)
        self._pool.give_back(*self._weight)


class Pool:
    """Kept connections by origin and checked address, last in first out, and new ones.

    How many may be in use is not for the pool to say; it calls `opened` and `closed` for each.
    Caps on kept ones: what is over them is closed instead of kept, and so is one where a new
    connection would be over this process's sockets. `limit_s` is what a fire has in all.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limit_s: float,
        max_body_bytes: int,
        ssl_context: ssl.SSLContext | None = None,
        *,
        keep_bytes: int = 0,
        opened: Callable[[Origin], None],
        closed: Callable[[Origin], None],
    ) -> None:
        self._loop = loop
        self._limit_s = limit_s
        self._max_body_bytes = max_body_bytes
        self._keep_bytes = keep_bytes
        self.ration = Ration(loop)
        self._handshakes = Handshakes(loop)
        self._ssl_context = ssl_context
        self._opened = opened
        self._closed_one = closed
        self._budget = budget()
        self._spares = Shares(self._budget.spares)
        self._sockets = 0  # those of attempts and of connections
        self._told_s = -_TELL_EVERY_S
        # Dicts as ordered sets: the last one out, the oldest first, any one removed, at no cost.
        # By origin, then by address.
        self._idle: dict[Origin, dict[str, dict[Wire, None]]] = {}
        self._idle_count = 0
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def idle_count(self) -> int:
        return self._idle_count

    @property
    def sockets(self) -> int:
        """Of connections, and of attempts at one."""
        return self._sockets

    def take(self, origin: Origin, addresses: tuple[str, ...]) -> Wire | None:
        """The kept connection to any of the addresses that was used last; None if there is none."""
        routes = self._idle.get(origin)
        if not routes:
            return None
        for address in addresses:
            wires = routes.get(address)
            while wires:
                wire, _ = wires.popitem()
                self._idle_count -= 1
                if not wire.is_open:
                    continue
                # Who swept had no time for it while the machine slept; the other end had.
                if elapsed_s() - wire.idle_since_s < _STALE_S:
                    return wire
                wire.abort()
        return None

    def keep(self, wire: Wire) -> None:
        """Give back a connection that is ready for another exchange."""
        origin, address = wire.route
        try:
            wires = self._idle[origin][address]
        except KeyError:
            wires = self._idle.setdefault(origin, {}).setdefault(address, {})
        if self._closed or len(wires) >= MAX_IDLE_PER_ROUTE or self._idle_count >= MAX_IDLE:
            wire.abort()
            return
        wire.idle_since_s = elapsed_s()
        wires[wire] = None
        self._idle_count += 1
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    def drop_idle(self, origin: Origin) -> bool:
        """Close a kept connection to an origin, if there is one."""
        for wires in self._idle.get(origin, {}).values():
            while wires:
                wire = next(iter(wires))
                del wires[wire]
                self._idle_count -= 1
                if wire.is_open:
                    wire.abort()
                    return True
        return False

    async def connect(
        self, origin: Origin, addresses: tuple[str, ...], account_id: str, marks: Marks
    ) -> Wire:
        """A new connection to the first address that gives one. Raises ConnectFailed, or
        OutOfSockets.

        Without a limit of its own: the fire's deadline cancels it. `marks` tell how far it came: of
        several addresses, with the one that was tried last, or that gave the connection.
        """
        marks.connect_s = time.monotonic()
        if len(addresses) == 1:
            return await self._connect_one(Route(origin, addresses[0]), account_id, marks)

        def attempt(address: str) -> Coroutine[Any, Any, Wire]:
            return self._connect_one(Route(origin, address), account_id, marks)

        return await Race(attempt, addresses, self._limit_s, self._spares, account_id).run()

    def note_opened(self, origin: Origin) -> None:
        self._sockets += 1
        self._opened(origin)

    def note_closed(self, origin: Origin) -> None:
        self._sockets -= 1
        self._closed_one(origin)

    def give_back(self, account_id: str, weight: int) -> None:
        self._handshakes.give_back(account_id, weight)

    def forget(self, wire: Wire) -> None:
        """A kept connection ended by itself."""
        wires = self._idle.get(wire.route.origin, {}).get(wire.route.address)
        if wires is not None and wire in wires:
            del wires[wire]
            self._idle_count -= 1

    def close_idle(self) -> None:
        """Close all kept connections."""
        idle, self._idle = self._idle, {}
        for routes in idle.values():
            for wires in routes.values():
                for wire in wires:
                    wire.abort()
        self._idle_count = 0

    def close(self) -> None:
        """Close all kept connections, and keep none from now on."""
        self._closed = True
        self.close_idle()
        self._handshakes.close()
        if self._sweeper is not None:
            self._sweeper.cancel()

    async def _connect_one(self, route: Route, account_id: str, marks: Marks) -> Wire:
        if self._sockets >= self._budget.sockets and self._idle_count:
            any(self.drop_idle(origin) for origin in list(self._idle))
        try:
            return await self._open(route, account_id, marks)
        except OSError as error:
            if error.errno not in _OUT_OF_FILES:
                raise ConnectFailed(connect_failure(error)) from error
        self.close_idle()  # kept connections are a luxury
        await asyncio.sleep(0)  # the loop closes their sockets in its next round
        try:
            return await self._open(route, account_id, marks)
        except OSError as error:
            if error.errno not in _OUT_OF_FILES:
                raise ConnectFailed(connect_failure(error)) from error
            self._tell(error)
            raise OutOfSockets from error

    async def _open(self, route: Route, account_id: str, marks: Marks) -> Wire:
        wire = _CountedWire(self, route, self._max_body_bytes, self._keep_bytes)
        is_tls = route.origin.scheme == "https"
        self._sockets += 1
        marks.tls_s = None
        try:
            transport, _ = await self._loop.create_connection(
                Unread if is_tls else lambda: wire,
                route.address,
                route.origin.port,
                flags=socket.AI_NUMERICHOST,
            )
            if is_tls:
                context, host = self._tls(), route.origin.host
                marks.tls_s = connected_s = time.monotonic()
                weight = await self._handshakes.secure(transport, wire, context, host, account_id)
                wire.weigh(account_id, weight)
                marks.tls_s = connected_s
        finally:
            self._sockets -= 1
        return wire

    def _tell(self, error: OSError) -> None:
        now_s = self._loop.time()
        if now_s - self._told_s >= _TELL_EVERY_S:
            self._told_s = now_s
            _log.warning("no sockets left; fires are put off", error=str(error))

    def _tls(self) -> ssl.SSLContext:
        if self._ssl_context is None:
            self._ssl_context = system_ssl_context()
            self._ssl_context.sslobject_class = Unexamined
        return self._ssl_context

    def _sweep(self) -> None:
        """Close what has been idle too long, once a second; each dict has its oldest first."""
        self._sweeper = None
        limit = elapsed_s() - IDLE_LIMIT_S
        for origin, routes in list(self._idle.items()):
            for address, wires in list(routes.items()):
                self._sweep_route(wires, limit)
                if not wires:
                    del routes[address]
            if not routes:
                del self._idle[origin]
        if self._idle_count:
            self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    def _sweep_route(self, wires: dict[Wire, None], limit: float) -> None:
        for wire in list(wires):
            if wire.idle_since_s > limit:
                return
            del wires[wire]
            self._idle_count -= 1
            wire.abort()
