"""The way to the store by its URL: one server, a cluster, sentinels or a Unix socket. redis-py
finds the servers, and does not repeat by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from redis import exceptions
from redis.asyncio import Connection, ConnectionPool, RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from scheduler.errors import OutcomeUnknown, StoreMisconfigured, StoreUnavailable
from scheduler.store.server.dial import Dial
from scheduler.store.server.failures import meant, never_sent
from scheduler.store.server.line import REPLY_TIMEOUT_S, Argument, Key, Lines, OwnLines, packed
from scheduler.store.server.routing import Routes
from scheduler.store.server.sentinels import Sentinels

_CONNECT_TIMEOUT_S = 2.0
_UNKNOWN_OPTION = re.compile(r"^.* got an unexpected keyword argument (\S+)$")


class Single:
    """The way to one server, wherever it is at the moment: all commands go over one line, and what
    must reach the same server over lines of its own."""

    routed = False

    def __init__(self, dial: Dial, sentinels: Sentinels | None = None) -> None:
        self.dial = dial
        self._sentinels = sentinels
        self._lines = Lines(dial)
        self._own = OwnLines(dial)
        if sentinels is not None:
            sentinels.moved = self._leave

    @property
    def choosing(self) -> bool:
        """Whether another server may become the primary at this moment."""
        return self._sentinels is not None and self._sentinels.choosing

    async def replies(
        self, commands: Sequence[Sequence[Argument]], key: Key = "", *, whole: bool = False
    ) -> list[Any]:
        """Errors of the server among them as values."""
        with never_sent():
            if self._sentinels is not None:
                await self._sentinels.settled()
            line = await self._lines.open()
            replies = line.call(packed(commands), len(commands))
        try:
            return await replies
        finally:
            del replies  # which has the error that leads to this frame

    async def anywhere(self, words: Sequence[Argument]) -> list[Any]:
        return await self.replies([words])

    async def names(self) -> list[str]:
        return [""]

    async def of(self, name: str, words: Sequence[Argument]) -> list[Any]:
        return await self.replies([words])

    async def own_lines(self, key: str) -> OwnLines:
        if self._sentinels is not None:
            await self._sentinels.settled()
        return self._own

    def heard(self, key: Key, error: Exception) -> None:
        """Takes in an error: the server may be no primary any more."""
        if isinstance(error, exceptions.ReadOnlyError):
            self._lines.renew()
        if self._sentinels and isinstance(meant(error), StoreUnavailable | OutcomeUnknown):
            self._sentinels.look_soon()

    async def aclose(self) -> None:
        self._lines.close()
        self._own.close()
        if self._sentinels is not None:
            await self._sentinels.aclose()

    def _leave(self) -> None:
        self._lines.renew()
        self._own.renew()


def connect(url: str) -> Single | Routes:
    """The way to a store; makes no connection yet. Raises StoreMisconfigured for a bad URL."""
    options: dict[str, Any] = {
        "protocol": 2,
        "socket_timeout": REPLY_TIMEOUT_S,
        "socket_connect_timeout": _CONNECT_TIMEOUT_S,
        "retry": Retry(NoBackoff(), 0),
        "driver_info": None,
    }
    try:
        if "+cluster://" in url:
            return _through_nodes(url, options)
        if url.startswith("redis+sentinel://"):
            return _through_sentinels(url, options)
        # Connects to nothing, but refuses an option that there is not.
        pool = ConnectionPool.from_url(url, **options)
        return Single(Dial(pool.make_connection()))  # type: ignore[no-untyped-call]
    except (ValueError, TypeError, exceptions.RedisClusterException) as error:
        text = _UNKNOWN_OPTION.sub(r"it has no option \1", str(error)).rstrip(".")
        raise StoreMisconfigured(f"The store's URL cannot be used: {text}.") from None


def _through_nodes(url: str, options: dict[str, Any]) -> Routes:
    """`redis+cluster://[user:password@]host[:6379][,host…]`, or `rediss+`: any of its nodes, which
    tell of the others; of several, one may be away at the start."""
    parts = urlsplit(url.replace("+cluster", "", 1))
    credentials, at, hosts = parts.netloc.rpartition("@")
    first, *others = hosts.split(",")
    if others:
        named = [urlsplit(f"//{host}") for host in others]
        options["startup_nodes"] = [
            ClusterNode(each.hostname or "", each.port or 6379) for each in named
        ]
    whole = parts._replace(netloc=credentials + at + first).geturl()
    return Routes(RedisCluster.from_url(whole, **options))


def _through_sentinels(url: str, options: dict[str, Any]) -> Single:
    """`redis+sentinel://[user:password@]host[:26379][,host…]/service[/db]`."""
    parts = urlsplit(url)
    hosts = [host.rpartition(":") for host in parts.netloc.rpartition("@")[2].split(",")]
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise ValueError("a sentinel URL names its service after the hosts")
    addresses = [(host or port, int(port) if host else 26379) for host, _, port in hosts]
    credentials: dict[str, Any] = {
        name: unquote(value)
        for name, value in (("username", parts.username), ("password", parts.password))
        if value
    }
    sentinels = Sentinels(
        service, [Connection(host=host, port=port, **options) for host, port in addresses]
    )
    to = Connection(db=int(db or 0), **options, **credentials)
    return Single(Dial(to, sentinels), sentinels)
