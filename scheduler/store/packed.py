"""Connections that pack their commands with hiredis.

redis-py does so when it is not asynchronous; its asynchronous connections join each argument in
Python, which was half of what an ack cost here (256 outcomes are 2,560 arguments).
"""

from __future__ import annotations

from typing import Any

import hiredis
from redis.asyncio.connection import (
    AbstractConnection,
    Connection,
    ConnectionPool,
    SSLConnection,
    UnixDomainSocketConnection,
)


class _Packed(AbstractConnection):
    def pack_command(self, *args: Any) -> list[bytes]:
        name = args[0]
        if isinstance(name, str) and " " in name:
            args = (*name.split(), *args[1:])
        return [hiredis.pack_command(args)]


class PackedConnection(_Packed, Connection):
    """Over TCP."""


class PackedSSLConnection(_Packed, SSLConnection):
    """Over TLS."""


class PackedUnixConnection(_Packed, UnixDomainSocketConnection):
    """Over a Unix socket."""


_PACKED: dict[type[AbstractConnection], type[AbstractConnection]] = {
    Connection: PackedConnection,
    SSLConnection: PackedSSLConnection,
    UnixDomainSocketConnection: PackedUnixConnection,
}


def pack_with_hiredis(pool: ConnectionPool) -> ConnectionPool:
    """The same pool, whose connections will pack so."""
    pool.connection_class = _PACKED.get(pool.connection_class, pool.connection_class)
    return pool


def packs_with_hiredis(pool: object) -> bool:
    return isinstance(pool, ConnectionPool) and issubclass(pool.connection_class, _Packed)
