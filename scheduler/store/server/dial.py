"""Opens lines to a server: where it is, as whom, with which TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol

from redis import exceptions
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.utils import format_error_message

from scheduler.store.server.line import Argument, Line, packed

Address = tuple[str, int]
_NAMED = ("CLIENT", "SETINFO", "LIB-NAME", "postdate")


class Finder(Protocol):
    """Knows the primary's address, which may change."""

    primary: Address | None

    async def find(self) -> Address: ...


class Dial:
    """Opens lines as redis-py would, which keeps its sockets to itself. `to` is a connection of it,
    never opened: it says where to go, as whom and with which TLS. A `finder` is asked for the
    address before each line. `line` makes one."""

    def __init__(
        self,
        to: Connection | UnixDomainSocketConnection,
        finder: Finder | None = None,
        *,
        line: Callable[[], Line] = Line,
    ) -> None:
        self.to = to
        self._finder = finder
        self._line = line

    async def __call__(self) -> Line:
        """Raises what redis-py would."""
        if self._finder is None:
            return await self._greeted()
        assert isinstance(self.to, Connection)
        found = self.to.host, self.to.port = await self._finder.find()
        line = await self._greeted()
        if self._finder.primary != found:
            line.close()
            raise exceptions.ConnectionError("Another server has become the primary")
        return line

    async def _greeted(self) -> Line:
        line = await self._connected()
        try:
            replies = await line.call(packed(self._greeting), len(self._greeting))
            for words, reply in zip(self._greeting, replies, strict=True):
                # Redis 7.0 does not know SETINFO, and a user may not be allowed to use it.
                optional = isinstance(reply, exceptions.ResponseError) and words == _NAMED
                if isinstance(reply, Exception) and not optional:
                    raise reply
        except BaseException:
            line.close()
            raise
        return line

    async def _connected(self) -> Line:
        to, loop = self.to, asyncio.get_running_loop()
        try:
            async with asyncio.timeout(to.socket_connect_timeout):
                if isinstance(to, UnixDomainSocketConnection):
                    _, line = await loop.create_unix_connection(self._line, to.path)
                else:
                    _, line = await loop.create_connection(
                        self._line, to.host, to.port, ssl=self._tls
                    )
                    if to.socket_keepalive:
                        line.keep_alive(to.socket_keepalive_options)
        except TimeoutError:
            raise exceptions.TimeoutError("Timeout connecting to server") from None
        except OSError as error:
            where = f"{to.host}:{to.port}" if isinstance(to, Connection) else to.path
            raise exceptions.ConnectionError(format_error_message(where, error)) from error
        return line

    @cached_property
    def _tls(self) -> Any:
        return self.to.ssl_context.get() if isinstance(self.to, SSLConnection) else None

    @cached_property
    def _greeting(self) -> list[tuple[Argument, ...]]:
        to = self.to
        greeting: list[tuple[Argument, ...]] = [_NAMED]
        if to.username or to.password:
            user = (to.username,) if to.username else ()
            greeting.insert(0, ("AUTH", *user, to.password or ""))
        if to.client_name:
            greeting.append(("CLIENT", "SETNAME", to.client_name))
        if to.db:
            greeting.append(("SELECT", to.db))
        return greeting
