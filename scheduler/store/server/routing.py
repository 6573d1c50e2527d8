"""The ways to a cluster's nodes: a line to each, and which of them has what slot.

redis-py reads which node has what, and is asked for nothing else. Its own way with a redirection
sends ASKING over one connection of a pool and the command over another, and closes all of them,
whoever waits there, at every fifth one; and while it asks a node that hangs, everybody waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import structlog
from redis import exceptions
from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from scheduler.errors import StoreError, StoreUnavailable, anew
from scheduler.store import keys
from scheduler.store.server.failures import never_sent, translated
from scheduler.store.server.line import Argument, Lines, OwnLines, packed

__all__ = ["Cluster", "Routes"]

# How often one command follows a slot that has moved.
_REDIRECTIONS = 3
_REFRESH_EVERY_S = 0.25
_log = structlog.get_logger(__name__)

# What may tell of a slot that has moved, or of a node that is gone.
_ASTRAY = (
    StoreError,
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.AskError,
    exceptions.ClusterDownError,
)
# Commands of one key, which stands behind their name.
_KEYED = {"DECR", "DEL", "EXISTS", "GET", "HGET", "HGETALL", "HMGET", "SET"}
_KEYED |= {"ZCARD", "ZRANGE", "ZSCAN"}
# What any node can be asked.
_OF_ANY_NODE = {"CONFIG GET", "INFO", "TIME"}

Asked = tuple[str | bytes, Sequence[Argument]]


class Cluster(RedisCluster):
    """redis-py's client of a cluster; what has one key goes by its routes."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.routes = Routes(self)

    async def execute_command(self, *words: Any, **options: Any) -> Any:
        if "target_nodes" in options or words[0] not in _KEYED | _OF_ANY_NODE:
            await self.initialize()
            return await super().execute_command(*words, **options)
        if words[0] in _KEYED:
            [reply] = await self.routes.replies([(words[1], words)])
        else:
            reply = await self.routes.anywhere((*words[0].split(), *words[1:]))
        if isinstance(reply, Exception):
            raise anew(reply)
        options.pop("keys", None)
        prepared = self.response_callbacks.get(words[0])
        return prepared(reply, **options) if prepared else reply

    async def aclose(self) -> None:
        await self.routes.until_still()
        await super().aclose()
        # It leaves the nodes open if only the routes have read which there are.
        await self.nodes_manager.aclose()
        await self.nodes_manager.aclose("startup_nodes")


class Routes:
    """Sends each command to the node that has its key, over that node's line.

    Which node that is, is read anew in the background whenever one fails or a slot has moved, so
    that the shards of other nodes go on meanwhile.
    """

    def __init__(self, client: RedisCluster) -> None:
        self._client = client
        self._nodes = client.nodes_manager
        self._lines: dict[str, Lines] = {}
        self._own: dict[str, OwnLines] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._failed: set[str] = set()
        self._again_s = 0.0

    async def replies(self, asked: Sequence[Asked], *, whole: bool = False) -> list[Any]:
        """The replies to commands, each with a key of its own slot; errors of the servers among
        them as values. Raises a StoreError, or what redis-py raises if a reply was lost.

        While a slot moves to another node key by key, the node that it leaves answers ASK to
        whoever names a key that it does not have (any more): a command of one key is then right
        at the other node. `whole` is for scripts that are given a prefix, and find the keys of a
        shard from it, and for what is read at one moment: those must have all of them, so their
        ASK is the reply, and what has moved is asked anew as a whole.
        """
        await self._known()
        found: list[Any] = [None] * len(asked)
        left: Iterable[int] = range(len(asked))
        for _ in range(_REDIRECTIONS):
            await self._by_node(asked, found, left)
            moved = [place for place in left if type(found[place]) is exceptions.MovedError]
            if not moved:
                break
            for place in moved:
                await self._nodes.move_slot(found[place])
            self._doubt()
            left = range(len(asked)) if whole else moved
        if not whole:
            await self._follow(asked, found)
        return found

    async def anywhere(self, words: Sequence[Argument]) -> Any:
        """The reply of the first primary that answers; those that failed of late come last."""
        await self._known()
        failure: Exception = StoreUnavailable("The cluster has no primary")
        for node in sorted(
            self._client.get_primaries(), key=lambda each: each.name in self._failed
        ):
            try:
                [reply] = await self._sent(node.host, int(node.port), [words])
            except (StoreError, exceptions.ConnectionError, exceptions.TimeoutError) as error:
                failure = anew(error)
            else:
                return reply
        raise anew(failure)

    async def own_lines(self, key: str) -> OwnLines:
        """Those to the node that has a key. Raises StoreUnavailable."""
        await self._known()
        with never_sent():
            node = self._nodes.get_node_from_slot(keys.slot_of(key))
        if node.name not in self._own:
            make = partial(self._connection, node.host, int(node.port))
            self._own[node.name] = OwnLines(make)
        return self._own[node.name]

    def heard(self, key: str, error: Exception) -> None:
        """What came back over a line of one's own: is something not where it was?"""
        if isinstance(error, _ASTRAY):
            with contextlib.suppress(StoreError), never_sent():
                self._doubt(self._nodes.get_node_from_slot(keys.slot_of(key)).name)

    def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
        for lines in self._lines.values():
            lines.close()
        for own in self._own.values():
            own.close()

    async def until_still(self) -> None:
        """After `close`: a connection that the nodes are asked over may only just be there."""
        if self._refreshing is not None:
            await asyncio.wait([self._refreshing])

    async def _known(self) -> None:
        with never_sent():
            if not self._nodes.slots_cache:
                # Not the client's own: that fails if the first of the nodes is away.
                await self._nodes.initialize()

    async def _by_node(
        self, asked: Sequence[Asked], found: list[Any], places: Iterable[int]
    ) -> None:
        groups: dict[str, tuple[ClusterNode, list[int]]] = {}
        for place in places:
            with never_sent():
                node = self._nodes.get_node_from_slot(keys.slot_of(asked[place][0]))
            groups.setdefault(node.name, (node, []))[1].append(place)
        await _all([self._fill(asked, found, *group) for group in groups.values()])

    async def _fill(
        self, asked: Sequence[Asked], found: list[Any], node: ClusterNode, places: list[int]
    ) -> None:
        commands = [asked[place][1] for place in places]
        replies = await self._sent(node.host, int(node.port), commands)
        for place, reply in zip(places, replies, strict=True):
            found[place] = reply
            if isinstance(reply, exceptions.ClusterDownError):
                self._doubt(node.name)

    async def _follow(self, asked: Sequence[Asked], found: list[Any]) -> None:
        """Asks the nodes that slots are moving to for what has moved already."""
        asks = [place for place, reply in enumerate(found) if type(reply) is exceptions.AskError]

        async def ask(place: int) -> None:
            to = found[place]
            _, found[place] = await self._sent(to.host, to.port, [("ASKING",), asked[place][1]])

        await _all([ask(place) for place in asks])

    async def _sent(self, host: str, port: int, commands: Sequence[Sequence[Argument]]) -> Any:
        name = f"{host}:{port}"
        lines = self._lines.get(name)
        if lines is None:
            lines = self._lines[name] = Lines(partial(self._connection, host, port))
        try:
            with never_sent():
                line = await lines.open()
                replies = line.call(packed(commands), len(commands))
            try:
                answered: list[Any] = await replies
            finally:
                del replies  # as in `Server._sent`
        except (StoreError, exceptions.ConnectionError, exceptions.TimeoutError):
            self._failed.add(name)
            self._doubt(name)
            raise
        self._failed.discard(name)
        return answered

    def _connection(self, host: str, port: int) -> AbstractConnection:
        node = ClusterNode(host, port, **self._nodes.connection_kwargs)
        options = {**node.connection_kwargs, "retry": Retry(NoBackoff(), 0)}
        return node.connection_class(**options)

    def _doubt(self, failed: str | None = None) -> None:
        """Something is not where it was: asks the nodes, all but the one that failed."""
        busy = self._refreshing is not None and not self._refreshing.done()
        if busy or time.monotonic() < self._again_s:
            return
        self._again_s = time.monotonic() + _REFRESH_EVERY_S
        self._refreshing = asyncio.create_task(self._refresh(failed))

    async def _refresh(self, failed: str | None) -> None:
        try:
            with translated():
                await self._nodes.initialize(last_failed_node_name=failed)
        except StoreError as error:
            # Whoever fails next has it read again.
            _log.debug("the cluster's nodes cannot be asked", error=str(error))
            return
        for name in self._lines.keys() - self._nodes.nodes_cache.keys():
            self._lines.pop(name).close()
        for name in self._own.keys() - self._nodes.nodes_cache.keys():
            self._own.pop(name).close()


async def _all(calls: list[Any]) -> None:
    """Side by side; one alone needs no task of its own."""
    if len(calls) == 1:
        await calls[0]
    elif calls:
        await asyncio.gather(*calls)
