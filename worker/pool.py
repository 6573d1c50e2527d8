"""The pool: connections that are kept, and how new ones are made."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import sys
import time
from collections import OrderedDict
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
        self._pool.note_opened(self.route)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._pool.note_closed(self.route)
        self._pool.give_back(*self._weight)


class Pool:
    """Kept connections by account, origin and checked address, last in first out, and new ones.

    How many may be in use is not for the pool to say; it calls `opened` and `closed` for each.
    Over `MAX_IDLE` kept ones, and where a new connection would be over this process's sockets, the
    one that was kept longest is closed. `limit_s` is what a fire has in all.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limit_s: float,
        max_body_bytes: int,
        ssl_context: ssl.SSLContext | None = None,
        *,
        keep_bytes: int = 0,
        opened: Callable[[Origin, str], None],
        closed: Callable[[Origin, str], None],
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
        # Ordered sets. By origin, then by address and account, the last one to be kept at the end.
        self._idle: dict[Origin, dict[tuple[str, str], dict[Wire, None]]] = {}
        self._kept: OrderedDict[Wire, None] = OrderedDict()  # all of them, the oldest first
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def idle_count(self) -> int:
        return len(self._kept)

    @property
    def sockets(self) -> int:
        """Of connections, and of attempts at one."""
        return self._sockets

    def take(self, origin: Origin, addresses: tuple[str, ...], account_id: str) -> Wire | None:
        """The account's kept connection to any of the addresses that was used last; None if there
        is none."""
        routes = self._idle.get(origin)
        if routes is None:
            return None
        for address in addresses:
            wires = routes.get((address, account_id))
            while wires:
                wire = next(reversed(wires))
                self._remove(wire)
                if not wire.is_open:
                    continue
                # Who swept had no time for it while the machine slept; the other end had.
                if elapsed_s() - wire.idle_since_s < _STALE_S:
                    return wire
                wire.abort()
        return None

    def keep(self, wire: Wire) -> None:
        """Give back a connection that is ready for another exchange."""
        if self._closed:
            wire.abort()
            return
        origin, address, account_id = wire.route
        self._idle.setdefault(origin, {}).setdefault((address, account_id), {})[wire] = None
        self._kept[wire] = None
        wire.idle_since_s = elapsed_s()
        if len(self._kept) > MAX_IDLE:
            self._drop(next(iter(self._kept)))
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    def drop_idle(self, origin: Origin) -> bool:
        """Close a kept connection to an origin, if there is one: of those who keep the most."""
        while routes := self._idle.get(origin):
            fullest = max(routes.values(), key=len)
            if self._drop(next(iter(fullest))):
                return True
        return False

    async def connect(
        self, origin: Origin, addresses: tuple[str, ...], account_id: str, marks: Marks
    ) -> Wire:
        """A new connection of the account's to the first address that gives one. Raises
        ConnectFailed, or OutOfSockets.

        Without a limit of its own: the fire's deadline cancels it. `marks` tell how far it came: of
        several addresses, with the one that was tried last, or that gave the connection.
        """
        marks.connect_s = time.monotonic()
        if len(addresses) == 1:
            return await self._connect_one(Route(origin, addresses[0], account_id), marks)

        def attempt(address: str) -> Coroutine[Any, Any, Wire]:
            return self._connect_one(Route(origin, address, account_id), marks)

        return await Race(attempt, addresses, self._limit_s, self._spares, account_id).run()

    def note_opened(self, route: Route) -> None:
        self._sockets += 1
        self._opened(route.origin, route.account_id)

    def note_closed(self, route: Route) -> None:
        self._sockets -= 1
        self._closed_one(route.origin, route.account_id)

    def give_back(self, account_id: str, weight: int) -> None:
        self._handshakes.give_back(account_id, weight)

    def forget(self, wire: Wire) -> None:
        """A kept connection ended by itself."""
        if wire in self._kept:
            self._remove(wire)

    def close_idle(self) -> None:
        """Close all kept connections."""
        for wire in list(self._kept):
            self._drop(wire)

    def close(self) -> None:
        """Close all kept connections, and keep none from now on."""
        self._closed = True
        self.close_idle()
        self._handshakes.close()
        if self._sweeper is not None:
            self._sweeper.cancel()

    async def _connect_one(self, route: Route, marks: Marks) -> Wire:
        if self._sockets >= self._budget.sockets and self._kept:
            self._drop(next(iter(self._kept)))
        try:
            return await self._open(route, marks)
        except OSError as error:
            if error.errno not in _OUT_OF_FILES:
                raise ConnectFailed(connect_failure(error)) from error
        self.close_idle()  # kept connections are a luxury
        await asyncio.sleep(0)  # the loop closes their sockets in its next round
        try:
            return await self._open(route, marks)
        except OSError as error:
            if error.errno not in _OUT_OF_FILES:
                raise ConnectFailed(connect_failure(error)) from error
            self._tell(error)
            raise OutOfSockets from error

    async def _open(self, route: Route, marks: Marks) -> Wire:
        account_id = route.account_id
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
                wire.goes_over(transport)
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
        """Close what has been idle too long, once a second."""
        self._sweeper = None
        limit = elapsed_s() - IDLE_LIMIT_S
        for wire in list(self._kept):
            if wire.idle_since_s > limit:
                break
            self._drop(wire)
        if self._kept:
            self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    def _drop(self, wire: Wire) -> bool:
        """Close a kept connection. False: it was closing already."""
        self._remove(wire)
        was_open = wire.is_open
        wire.abort()
        return was_open

    def _remove(self, wire: Wire) -> None:
        origin, address, account_id = wire.route
        del self._kept[wire]
        routes = self._idle[origin]
        wires = routes[address, account_id]
        del wires[wire]
        if not wires:
            del routes[address, account_id]
            if not routes:
                del self._idle[origin]
