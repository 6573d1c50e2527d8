"""The pool: connections that are kept, and how new ones are made."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import sys
from collections.abc import Callable

import truststore

from scheduler.targets import Origin
from worker.outcome import Failure, connect_failure
from worker.wire import Route, Wire

# Below the 5 s after which Node, uvicorn and Apache hang up by default: a kept connection that
# dies as it is written to costs a second attempt.
IDLE_LIMIT_S = 4.0
SWEEP_S = 1.0
MAX_IDLE_PER_ROUTE = 1024
MAX_IDLE = 4096
# How long one address may take before the next is tried beside it (RFC 8305, section 5).
NEXT_ADDRESS_AFTER_S = 0.25
_OUT_OF_FILES = frozenset({errno.EMFILE, errno.ENFILE})


class ConnectFailed(Exception):
    """None of the addresses gave a connection; `failure` is the most telling reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.value)
        self.failure = failure


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

    __slots__ = ("_pool",)

    def __init__(self, pool: Pool, route: Route, max_body_bytes: int) -> None:
        super().__init__(route, max_body_bytes, pool.forget)
        self._pool = pool

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._pool.opened(self.route.origin)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._pool.closed(self.route.origin)


class Pool:
    """Kept connections by origin and checked address, last in first out, and new ones.

    How many may be in use is not for the pool to say; it calls `opened` and `closed` for each.
    Caps on kept ones: what is over them is closed instead of kept.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        max_body_bytes: int,
        ssl_context: ssl.SSLContext | None = None,
        *,
        opened: Callable[[Origin], None],
        closed: Callable[[Origin], None],
    ) -> None:
        self._loop = loop
        self._max_body_bytes = max_body_bytes
        self._ssl_context = ssl_context
        self.opened = opened
        self.closed = closed
        # Dicts as ordered sets: the last one out, the oldest first, any one removed, at no cost.
        # By origin, then by address.
        self._idle: dict[Origin, dict[str, dict[Wire, None]]] = {}
        self._idle_count = 0
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def idle_count(self) -> int:
        return self._idle_count

    def take(self, origin: Origin, addresses: tuple[str, ...]) -> Wire | None:
        """The kept connection to any of the addresses that was used last; None if there is none."""
        routes = self._idle.get(origin)
        if routes is None:
            return None
        for address in addresses:
            wires = routes.get(address)
            while wires:
                wire, _ = wires.popitem()
                self._idle_count -= 1
                if wire.is_open:
                    return wire
        return None

    def keep(self, wire: Wire) -> None:
        """Give back a connection that is ready for another exchange."""
        origin, address = wire.route
        routes = self._idle.get(origin)
        if routes is None:
            routes = self._idle[origin] = {}
        wires = routes.get(address)
        if wires is None:
            wires = routes[address] = {}
        if self._closed or len(wires) >= MAX_IDLE_PER_ROUTE or self._idle_count >= MAX_IDLE:
            wire.abort()
            return
        wire.idle_since_s = self._loop.time()
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

    async def connect(self, origin: Origin, addresses: tuple[str, ...]) -> Wire:
        """A new connection to the first address that gives one. Raises ConnectFailed.

        Without a limit of its own: the fire's deadline cancels it.
        """
        failures: list[Failure] = []
        attempts: set[asyncio.Task[Wire]] = set()
        waiting = list(addresses)
        if len(waiting) == 1:
            return await self._connect_one(Route(origin, waiting[0]))
        try:
            while waiting or attempts:
                if waiting:
                    attempts.add(self._attempt(Route(origin, waiting.pop(0))))
                wire = await self._first_of(attempts, failures, bool(waiting))
                if wire is not None:
                    return wire
        finally:
            for attempt in attempts:
                _drop(attempt)
        raise ConnectFailed(_most_telling(failures))

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
        if self._sweeper is not None:
            self._sweeper.cancel()

    def _attempt(self, route: Route) -> asyncio.Task[Wire]:
        return self._loop.create_task(self._connect_one(route))

    async def _first_of(
        self, attempts: set[asyncio.Task[Wire]], failures: list[Failure], more: bool
    ) -> Wire | None:
        """Wait until an attempt ends, or it is time for the next address: then None."""
        limit = NEXT_ADDRESS_AFTER_S if more else None
        done, _ = await asyncio.wait(attempts, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        for attempt in done:
            attempts.discard(attempt)
            error = attempt.exception()
            if error is None:
                return attempt.result()
            if not isinstance(error, ConnectFailed):
                raise error
            failures.append(error.failure)
        return None

    async def _connect_one(self, route: Route) -> Wire:
        try:
            return await self._open(route)
        except OSError as error:
            if error.errno not in _OUT_OF_FILES or not self._idle_count:
                raise ConnectFailed(connect_failure(error)) from error
        self.close_idle()  # kept connections are a luxury
        await asyncio.sleep(0)  # the loop closes their sockets in its next round
        try:
            return await self._open(route)
        except OSError as error:
            raise ConnectFailed(connect_failure(error)) from error

    async def _open(self, route: Route) -> Wire:
        tls = route.origin.scheme == "https"
        _, wire = await self._loop.create_connection(
            lambda: _CountedWire(self, route, self._max_body_bytes),
            route.address,
            route.origin.port,
            ssl=self._tls() if tls else None,
            server_hostname=route.origin.host if tls else None,
            flags=socket.AI_NUMERICHOST,
        )
        return wire

    def _tls(self) -> ssl.SSLContext:
        if self._ssl_context is None:
            self._ssl_context = system_ssl_context()
        return self._ssl_context

    def _sweep(self) -> None:
        """Close what has been idle too long, once a second; each dict has its oldest first."""
        self._sweeper = None
        limit = self._loop.time() - IDLE_LIMIT_S
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


def _drop(attempt: asyncio.Task[Wire]) -> None:
    """Give up an attempt; should it have won at the same moment, its connection is closed."""
    attempt.add_done_callback(_close_late)
    attempt.cancel()


def _close_late(attempt: asyncio.Task[Wire]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().abort()


def _most_telling(failures: list[Failure]) -> Failure:
    """Of a host without IPv6 and a refusal over IPv4, the refusal is what its owner needs."""
    telling = [failure for failure in failures if failure is not Failure.UNREACHABLE]
    return telling[0] if telling else Failure.UNREACHABLE
