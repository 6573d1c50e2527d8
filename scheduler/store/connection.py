"""How the store is reached: one server, a cluster, sentinels or a Unix socket, by URL.

Retries of the client are off: it repeats commands after a lost reply, INCR too. Here every script
is safe to repeat, and its caller decides. `translated` is the one place where the client's
exceptions become the store's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import NoBackoff

from scheduler.errors import (
    OutcomeUnknown,
    StoreError,
    StoreMisconfigured,
    StoreRefused,
    StoreUnavailable,
)
from scheduler.store.line import REPLY_TIMEOUT_S

# Redis and RedisCluster share the commands used here, but no base class that types them.
Client = Any

# Who comes when all connections are busy waits for one. The cluster's and the sentinels' clients
# cannot wait, they refuse: these may have as many as could be asked for.
_CONNECTIONS = 128
_CONNECTIONS_WITHOUT_WAITING = 8192
_CONNECT_TIMEOUT_S = 2.0
# What a server says of its own state and not of the command: it may do it yet. The client makes
# types of some of these, and drops the word then.
_NOT_NOW = ("OOM ", "MISCONF ", "NOREPLICAS ", "BUSY ", "UNBLOCKED ")
_NOT_NOW_TYPES = (
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,
    exceptions.MasterDownError,
    exceptions.ClusterDownError,
    exceptions.TryAgainError,
)

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
    }
    try:
        if "+cluster://" in url:
            plain = url.replace("+cluster", "", 1)
            most = _CONNECTIONS_WITHOUT_WAITING
            return RedisCluster.from_url(plain, max_connections=most, **options)
        if url.startswith("redis+sentinel://"):
            return _through_sentinels(url, options)
        pool = _Pool.from_url(url, max_connections=_CONNECTIONS, timeout=REPLY_TIMEOUT_S, **options)
        # Connects to nothing, but refuses an option that there is not.
        pool.make_connection()  # type: ignore[no-untyped-call]
        return Redis.from_pool(pool)
    except (ValueError, TypeError, exceptions.RedisClusterException) as error:
        text = _UNKNOWN_OPTION.sub(r"it has no option \1", str(error)).rstrip(".")
        raise StoreMisconfigured(f"The store's URL cannot be used: {text}.") from None


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
    return sentinel.master_for(service, db=int(db or 0), **options)


@contextmanager
def translated(but: type[Exception] | tuple[()] = ()) -> Iterator[None]:
    """Turns what the client and the event loop raise into the store's errors, all but `but`.

    StoreUnavailable: certainly not done. OutcomeUnknown: the reply was lost on its way.
    StoreMisconfigured, StoreRefused: no repeat can help, for all commands or for this one.
    """
    try:
        yield
    except but:
        raise
    except Exception as error:
        meaning = _meaning(error)
        if meaning is None:
            raise
        raise meaning from error


def _meaning(error: Exception) -> StoreError | None:
    if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError):
        return StoreMisconfigured(f"The store refuses us: {error}")
    if isinstance(error, exceptions.ResponseError):
        return _refusal(error)
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError):
        if _says_wrong_password(error):
            return StoreMisconfigured(f"The store refuses us: {error}")
        if _never_connected(error):
            return StoreUnavailable("The store cannot be reached")
        return OutcomeUnknown("The store's answer was lost")
    if isinstance(error, exceptions.RedisClusterException):
        return _no_cluster(error)
    if isinstance(error, exceptions.RedisError):
        return StoreUnavailable("The store cannot be used right now")
    if isinstance(error, RuntimeError | AttributeError):
        # uvloop's word for a connection that was reset while nobody used it comes before a byte is
        # written. redis-py's cluster client stumbles over connections that it closed itself.
        if "handler is closed" in str(error):
            return StoreUnavailable("The store's connection was gone")
        return OutcomeUnknown("The store's client stumbled")
    return None


@contextmanager
def never_sent() -> Iterator[None]:
    """Around what makes a connection: whatever goes wrong here, no command was sent."""
    try:
        with translated():
            yield
    except OutcomeUnknown as error:
        raise StoreUnavailable("The store cannot be reached") from error


def _refusal(error: exceptions.ResponseError) -> StoreError:
    text = f"{error} "
    if isinstance(error, _NOT_NOW_TYPES) or text.startswith(_NOT_NOW):
        return StoreUnavailable("The store is full or not writable")
    if "OOM command not allowed" in text or "used memory > 'maxmemory'" in text:
        return StoreUnavailable("The store is full or not writable")
    return StoreRefused(f"The store refused a command: {error}")


def _no_cluster(error: exceptions.RedisClusterException) -> StoreError:
    """The cluster's client asks the nodes for their slots first; why that failed is its cause."""
    if "Cluster mode is not enabled" in str(error):
        return StoreMisconfigured("The store is no Redis Cluster: its URL begins with redis://")
    if error.__cause__ is not None and _says_wrong_password(error.__cause__):
        return StoreMisconfigured(f"The store refuses us: {error.__cause__}")
    return StoreUnavailable("The store cannot be reached")


def _says_wrong_password(error: BaseException) -> bool:
    """redis-py wraps a failed AUTH in a ConnectionError, which would be retried in silence."""
    if isinstance(error.__cause__, exceptions.AuthenticationError):
        return True
    text = str(error)
    return any(sign in text for sign in ("WRONGPASS", "NOAUTH", "invalid username-password"))


def _never_connected(error: BaseException | None) -> bool:
    """Whether the request cannot have been sent, because no connection came about."""
    if isinstance(error, exceptions.MaxConnectionsError | exceptions.BusyLoadingError):
        return True
    text = str(error)
    if text == "No connection available.":
        return True
    return text.startswith(("Error ", "Timeout connecting")) and "connecting to" in text
