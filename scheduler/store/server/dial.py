"""Connections to a server: made and introduced as redis-py would, which keeps their sockets to
itself. It says where to go and as whom, and with which TLS."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import Any

from redis import exceptions
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.utils import format_error_message

from scheduler.store.server.line import Argument, Line, packed

Address = tuple[str, int]
_NAMED = ("CLIENT", "SETINFO", "LIB-NAME", "postdate")


class Dial:
    """Opens lines to where `to` leads, a connection of redis-py that is never opened itself. `find`
    is asked for the address before each line, where that may change."""

    def __init__(
        self,
        to: Connection | UnixDomainSocketConnection,
        find: Callable[[], Awaitable[Address]] | None = None,
    ) -> None:
        self.to = to
        self._find = find

    async def __call__(self) -> Line:
        """Raises what redis-py would."""
        if self._find is not None and isinstance(self.to, Connection):
            self.to.host, self.to.port = await self._find()
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
                    _, line = await loop.create_unix_connection(Line, to.path)
                else:
                    _, line = await loop.create_connection(Line, to.host, to.port, ssl=self._tls)
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
