"""redis-py's own client, for tests that look behind a store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Connection, ConnectionPool, Redis

from scheduler.store import Store


class _Passing(ConnectionPool):
    """Keeps no connection."""

    async def release(self, connection: Any) -> None:
        await super().release(connection)
        await connection.disconnect()


def redis_of(store: Store) -> Any:
    """A client of the one server that has a store, or of the fakeredis."""
    way: Any = store.server.way
    if hasattr(way, "client"):
        return way.client
    return _made(way, _Passing)


@asynccontextmanager
async def keeping(store: Store) -> AsyncIterator[None]:
    """Within it `redis_of` the store keeps its connections, for tests that ask thousands of times:
    each costs more than most commands."""
    way: Any = store.server.way
    async with _made(way, ConnectionPool) as way.client:
        yield
    del way.client


def _made(way: Any, kind: type[ConnectionPool]) -> Any:
    to = way.dial.to
    where = {"host": to.host, "port": to.port} if isinstance(to, Connection) else {"path": to.path}
    who = {"db": to.db, "username": to.username, "password": to.password, "protocol": 2}
    return Redis.from_pool(kind(type(to), driver_info=None, **where, **who))
