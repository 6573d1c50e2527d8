"""The pool: connections that are kept."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from scheduler.runtime.elapsed import elapsed_s
from scheduler.target.targets import Origin
from worker.send.wire import Route, Wire

# Node, uvicorn and Apache hang up after 5 s by default, which may cost a second attempt.
IDLE_LIMIT_S = 4.0
SWEEP_S = 1.0
# Older ones are there only after a pause of this process.
_STALE_S = IDLE_LIMIT_S + 2 * SWEEP_S
MAX_IDLE = 4096
# How long a target has to close a connection, if it said that it would.
CLOSE_LIMIT_S = 1.0
# So many idle ones a second are closed with a FIN, which keeps a local port busy for a minute.
_MOST_FINS = 100
_CLOSING = ("", "")


class Pool:
    """Kept connections by account, origin and checked address, last in first out; and those that
    their targets are to close, for a second.

    Over `MAX_IDLE` of both the one that was kept longest is closed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # Ordered sets. By origin, then by address and account, the last one to be kept at the end.
        self._idle: dict[Origin, dict[tuple[str, str], dict[Wire, None]]] = {}
        self._kept: OrderedDict[Wire, None] = OrderedDict()  # all of them, the oldest first
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def idle_count(self) -> int:
        """Of connections that are kept for another exchange."""
        return sum(not wire.closes_first for wire in self._kept)

    def take(self, origin: Origin, addresses: tuple[str, ...], account_id: str) -> Wire | None:
        """The account's last used connection to any of the addresses; None if there is none."""
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
                if elapsed_s() - wire.idle_since_s < _STALE_S:
                    return wire
                wire.abort()
        return None

    def keep(self, wire: Wire) -> None:
        """Give back a connection that is ready for another exchange, or that the target closes."""
        if self._closed or (wire.closes_first and len(self._kept) >= MAX_IDLE):
            wire.abort()
            return
        route = wire.route
        key = _CLOSING if wire.closes_first else (route.address, route.account_id)
        self._idle.setdefault(route.origin, {}).setdefault(key, {})[wire] = None
        wire.kept_for = key
        self._kept[wire] = None
        wire.idle_since_s = elapsed_s()
        if wire.closes_first:
            wire.idle_since_s -= IDLE_LIMIT_S - CLOSE_LIMIT_S
        if len(self._kept) > MAX_IDLE:
            self.drop_oldest()
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    def has_idle(self, origin: Origin) -> bool:
        return origin in self._idle

    def drop_idle(self, origin: Origin, connections: Callable[[str], int]) -> bool:
        """Close a kept connection to an origin, if there is one: one that the target is to close,
        or the oldest of the account that has the most connections there, in use or not."""
        while routes := self._idle.get(origin):
            route = _CLOSING
            if route not in routes:
                route = max(routes, key=lambda each: connections(each[1]))
            if self._drop(next(iter(routes[route]))):
                return True
        return False

    def drop_oldest(self) -> None:
        if self._kept:
            self._drop(next(iter(self._kept)))

    def drop_all(self, at: Route | None = None) -> bool:
        """Close kept connections, if there are any: all, or those to the route's address and port,
        because another connection to there can have their local ports."""
        there = at and (at.address, at.origin.port)
        wires = [
            each
            for each in self._kept
            if not there or (each.route.address, each.route.origin.port) == there
        ]
        for wire in wires:
            self._drop(wire)
        return bool(wires)

    def forget(self, wire: Wire) -> None:
        """A kept connection ended by itself."""
        if wire in self._kept:
            self._remove(wire)

    def close(self) -> None:
        """Close all kept connections, and keep none from now on."""
        self._closed = True
        self.drop_all()
        if self._sweeper is not None:
            self._sweeper.cancel()

    def _sweep(self) -> None:
        self._sweeper = None
        limit = elapsed_s() - IDLE_LIMIT_S
        fins = _MOST_FINS
        for wire in [each for each in self._kept if each.idle_since_s <= limit]:
            if wire.closes_first or not fins:
                self._drop(wire)
            else:
                fins -= 1
                self._remove(wire)
                wire.hang_up()
        if self._kept:
            self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)

    def _drop(self, wire: Wire) -> bool:
        """Close a kept connection. False: it was closing already."""
        self._remove(wire)
        was_open = wire.is_open
        wire.abort()
        return was_open

    def _remove(self, wire: Wire) -> None:
        del self._kept[wire]
        origin, key = wire.route.origin, wire.kept_for
        routes = self._idle[origin]
        wires = routes[key]
        del wires[wire]
        if not wires:
            del routes[key]
            if not routes:
                del self._idle[origin]
