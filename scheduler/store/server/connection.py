"""How the store is reached: one server, a cluster, sentinels or a Unix socket, by URL.

Retries of the client are off: it repeats commands after a lost reply, INCR too. Here every script
is safe to repeat, and its caller decides.
"""

from __future__ import annotations

import re
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from redis import DriverInfo, exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from scheduler.errors import StoreMisconfigured
from scheduler.store.server.client import Client
from scheduler.store.server.line import REPLY_TIMEOUT_S
from scheduler.store.server.routing import Cluster

# Who comes when all connections are busy waits for one. The cluster's and the sentinels' clients
# cannot wait, they refuse: these may have as many as could be asked for.
_CONNECTIONS = 128
_CONNECTIONS_WITHOUT_WAITING = 8192
_CONNECT_TIMEOUT_S = 2.0
# What connections call themselves in CLIENT LIST: by itself each would look up what is installed,
# which takes far longer than all else that it does before it connects.
_DRIVER = DriverInfo()
_UNKNOWN_OPTION = re.compile(r"^.* got an unexpected keyword argument (\S+)$")


class _Pool(BlockingConnectionPool):
    """A pool that sees when a connection was reset while nobody used it: redis-py looks for an
    orderly end only, and would send a command that fails."""

    async def ensure_connection(self, connection: AbstractConnection) -> None:
        reader = connection._reader
        if reader is not None and reader.exception() is not None:
            await connection.disconnect(nowait=True)
        await super().ensure_connection(connection)


def connect(url: str) -> Client:
    """A client for the URL; no connection is made yet. Raises StoreMisconfigured for a bad URL."""
    options: dict[str, Any] = {
        "protocol": 2,
        "socket_timeout": REPLY_TIMEOUT_S,
        "socket_connect_timeout": _CONNECT_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),
        "driver_info": _DRIVER,
    }
    try:
        if "+cluster://" in url:
            return _through_nodes(url, options)
        if url.startswith("redis+sentinel://"):
            return _through_sentinels(url, options)
        pool = _Pool.from_url(url, max_connections=_CONNECTIONS, timeout=REPLY_TIMEOUT_S, **options)
        # Connects to nothing, but refuses an option that there is not.
        pool.make_connection()  # type: ignore[no-untyped-call]
        return cast("Client", Redis.from_pool(pool))
    except (ValueError, TypeError, exceptions.RedisClusterException) as error:
        text = _UNKNOWN_OPTION.sub(r"it has no option \1", str(error)).rstrip(".")
        raise StoreMisconfigured(f"The store's URL cannot be used: {text}.") from None


def _through_nodes(url: str, options: dict[str, Any]) -> Client:
    """`redis+cluster://[user:password@]host[:6379][,host…]`, or `rediss+`: any of its nodes, which
    tell of the others; of several, one may be away at the start."""
    parts = urlsplit(url.replace("+cluster", "", 1))
    credentials, at, hosts = parts.netloc.rpartition("@")
    first, *others = hosts.split(",")
    options["max_connections"] = _CONNECTIONS_WITHOUT_WAITING
    if others:
        named = [urlsplit(f"//{host}") for host in others]
        options["startup_nodes"] = [
            ClusterNode(each.hostname or "", each.port or 6379) for each in named
        ]
    whole = parts._replace(netloc=credentials + at + first).geturl()
    return cast("Client", Cluster.from_url(whole, **options))


def _through_sentinels(url: str, options: dict[str, Any]) -> Client:
    """`redis+sentinel://[user:password@]host[:26379][,host…]/service[/db]`."""
    parts = urlsplit(url)
    hosts = [host.rpartition(":") for host in parts.netloc.rpartition("@")[2].split(",")]
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("a sentinel URL names its service after the hosts")
    addresses = [(host or port, int(port) if host else 26379) for host, _, port in hosts]
    credentials = {
        name: unquote(value)
        for name, value in (("username", parts.username), ("password", parts.password))
        if value
    }
    sentinel = Sentinel(addresses, sentinel_kwargs=dict(options), **options)  # type: ignore[no-untyped-call]
    options |= credentials
    options["max_connections"] = _CONNECTIONS_WITHOUT_WAITING
    return cast("Client", sentinel.master_for(service, db=int(db or 0), **options))
