"""The ways to a cluster's nodes: a line to each. redis-py only reads which node has what slot: it
would send ASKING over one connection of a pool and the command over another, close all of them at
every fifth redirection, and keep all callers waiting while it asks a node that hangs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from typing import Any, cast

import structlog
from redis import exceptions
from redis.asyncio import RedisCluster
from redis.asyncio.cluster import ClusterNode

from scheduler.errors import StoreError, StoreUnavailable, anew
from scheduler.store import keys
from scheduler.store.server.dial import Dial
from scheduler.store.server.failures import never_sent, translated
from scheduler.store.server.line import Argument, Key, Lines, OwnLines, packed

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
Asked = tuple[Key, Sequence[Argument]]


class Routes:
    """Sends each command to the node that has its key, over that node's line. After a failure or a
    move, the nodes are asked in the background for their slots; the shards of other nodes go on."""

    routed = True
    choosing = False

    def __init__(self, client: RedisCluster) -> None:
        self._client = client
        self._nodes = client.nodes_manager
        self._lines: dict[str, tuple[Lines, OwnLines]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._failed: set[str] = set()
        self._again_s = 0.0

    async def replies(
        self, commands: Sequence[Sequence[Argument]], key: Key = "", *, whole: bool = False
    ) -> list[Any]:
        """The replies to commands, about `key` or each about its second word; errors of the servers
        among them as values. Raises a StoreError, or redis-py's error if a reply was lost.
        While a slot moves, the node that it leaves answers ASK for a key that is gone: a command of
        one key follows it to the other node. `whole` is for commands that need all keys of a shard,
        scripts and reads at one moment: an ASK is their reply, and all go again to a moved slot."""
        asked = [(key or cast("Key", words[1]), words) for words in commands]
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

    async def anywhere(self, words: Sequence[Argument]) -> list[Any]:
        """The reply of the first primary that answers; those that failed of late come last."""
        failure: Exception = StoreUnavailable("The cluster has no primary")
        for name in sorted(await self.names(), key=lambda each: each in self._failed):
            try:
                return await self.of(name, words)
            except (StoreError, exceptions.ConnectionError, exceptions.TimeoutError) as error:
                failure = anew(error)
        raise anew(failure)

    async def names(self) -> list[str]:
        """Of the primaries."""
        await self._known()
        return [node.name for node in self._client.get_primaries()]

    async def of(self, name: str, words: Sequence[Argument]) -> list[Any]:
        host, _, port = name.rpartition(":")
        replies: list[Any] = await self._sent(host, int(port), [words])
        return replies

    async def own_lines(self, key: str) -> OwnLines:
        """Those to the node that has a key. Raises StoreUnavailable."""
        await self._known()
        with never_sent():
            node = self._nodes.get_node_from_slot(keys.slot_of(key))
        return self._to(node.host, int(node.port))[1]

    def heard(self, key: Key, error: Exception) -> None:
        """Takes in an error: it may tell that a slot has moved or a node is gone."""
        if isinstance(error, _ASTRAY):
            with contextlib.suppress(StoreError), never_sent():
                self._doubt(self._nodes.get_node_from_slot(keys.slot_of(key)).name)

    async def aclose(self) -> None:
        for name in list(self._lines):
            self._close(name)
        if self._refreshing is not None:
            self._refreshing.cancel()
            # A connection that the nodes are asked over may only just be there.
            await asyncio.wait([self._refreshing])
        await self._client.aclose()
        # It leaves the nodes open if only these routes have read which there are.
        await self._nodes.aclose()
        await self._nodes.aclose("startup_nodes")

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
        """Sends commands that got an ASK to the nodes that their slots are moving to."""
        asks = [place for place, reply in enumerate(found) if type(reply) is exceptions.AskError]

        async def ask(place: int) -> None:
            to = found[place]
            _, found[place] = await self._sent(to.host, to.port, [("ASKING",), asked[place][1]])

        await _all([ask(place) for place in asks])

    async def _sent(self, host: str, port: int, commands: Sequence[Sequence[Argument]]) -> Any:
        name = f"{host}:{port}"
        lines, _ = self._lines.get(name) or self._to(host, port)
        try:
            with never_sent():
                line = await lines.open()
                replies = line.call(packed(commands), len(commands))
            try:
                answered: list[Any] = await replies
            finally:
                del replies  # as in `Single.replies`
        except (StoreError, exceptions.ConnectionError, exceptions.TimeoutError):
            self._failed.add(name)
            self._doubt(name)
            raise
        self._failed.discard(name)
        return answered

    def _to(self, host: str, port: int) -> tuple[Lines, OwnLines]:
        name = f"{host}:{port}"
        if name not in self._lines:
            node = ClusterNode(host, port, **self._nodes.connection_kwargs)
            dial = Dial(node.connection_class(**node.connection_kwargs))
            self._lines[name] = Lines(dial), OwnLines(dial)
        return self._lines[name]

    def _close(self, name: str) -> None:
        for lines in self._lines.pop(name):
            lines.close()

    def _doubt(self, failed: str | None = None) -> None:
        """Asks the nodes where slots are now, all but the one that failed."""
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
            # The next failing call has it read again.
            _log.debug("the cluster's nodes cannot be asked", error=str(error))
            return
        for name in self._lines.keys() - self._nodes.nodes_cache.keys():
            self._close(name)


async def _all(calls: list[Any]) -> None:
    """Side by side; one alone needs no task of its own."""
    if len(calls) == 1:
        await calls[0]
    elif calls:
        await asyncio.gather(*calls)
