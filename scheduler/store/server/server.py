"""Scripts and commands sent to the store: by hash, in order, once or until they are answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import structlog
from redis import exceptions
from redis.asyncio import Redis

from scheduler.errors import OutcomeUnknown, StoreError, StoreUnavailable, Unreadable, anew
from scheduler.store import keys
from scheduler.store.secrecy import NOTE, Secrecy
from scheduler.store.server.apart import Apart
from scheduler.store.server.client import Client
from scheduler.store.server.failures import meant, never_sent, translated
from scheduler.store.server.line import Argument, Lines, OwnLines, packed
from scheduler.store.server.routing import Cluster, Routes
from scheduler.store.server.scripts import Script

T = TypeVar("T")
Command = Sequence[Argument]
_log = structlog.get_logger(__name__)

__all__ = ["Argument", "Script", "Server", "flat"]


_REPLICAS_KNOWN_S = 1.0
_PAUSES_S = (0.0, 0.05, 0.2, 0.5)
# A lost connection is known at once and is worth a repeat. A store that hangs lets each attempt
# wait for the reply's time limit: then the caller is told, instead of kept for half a minute.
_PATIENCE_S = 4.0


class Server:
    """Runs scripts and reads. What it raises is a StoreError, always.

    `routed`: there is more than one server behind it, and one may be away while others are not.
    `secrecy` seals what must not lie there in clear, for whoever sends it and reads it.
    """

    def __init__(
        self,
        client: Client,
        *,
        wait_replicas: int = 0,
        secrecy: Secrecy | None = None,
    ) -> None:
        self._client = client
        self.secrecy = secrecy or Secrecy()
        self.wait_replicas = wait_replicas
        self._refusing = False
        self.reads_made = 0
        self.reads_failed = 0
        self._enough_until_s: dict[object, float] = {}
        given: object = client
        self._routes: Routes | None = given.routes if isinstance(given, Cluster) else None
        self.routed = self._routes is not None
        make = given.connection_pool.make_connection if isinstance(given, Redis) else None
        self._lines = Lines(make) if make else None
        self._own = OwnLines(make) if make else None

    async def run(self, script: Script, key: str, arguments: Sequence[Argument]) -> Any:
        """A script's reply. `key`: a prefix from `keys.py` (its shard's or account's), or a key.

        Raises OutcomeUnknown if the reply was lost: it may have run.
        """
        script.calls += 1
        try:
            await self._note_key_once()
            return await self._run(script, key, arguments)
        except StoreError:
            script.errors += 1
            raise

    async def _run(self, script: Script, key: str, arguments: Sequence[Argument]) -> Any:
        source, sha1 = script.source_and_sha1()
        try:
            return await self._one(key, ("EVALSHA", sha1, 1, key, *arguments))
        except exceptions.NoScriptError:
            return await self._one(key, ("EVAL", source, 1, key, *arguments))

    async def _note_key_once(self) -> None:
        """Nothing that was sealed reaches the store before the note of its key."""
        if self.secrecy.has_sealed and not self.secrecy.is_noted:
            await self.note_key()

    async def note_key(self) -> None:
        """Notes that something may be sealed with this process's first key. Safe to repeat."""
        with translated():
            await self._client.hsetnx(
                keys.META, NOTE + self.secrecy.key_ids[0], self.secrecy.trial()
            )
        self.secrecy.is_noted = True

    async def write(self, script: Script, key: str, arguments: Sequence[Argument]) -> Any:
        """Runs a script whose effect the caller will rely on, so that replicas must have it.

        Raises StoreUnavailable, with nothing done, if too few replicas are connected.
        """
        if not self.wait_replicas:
            return await self.run(script, key, arguments)
        async with self.apart(key) as apart:
            await self._enough_replicas(apart)
            reply = await apart.run(script, arguments)
            await apart.replicated()
            return reply

    @asynccontextmanager
    async def apart(self, key: str) -> AsyncIterator[Apart]:
        """A connection of the caller's own to the server that has the key."""
        lines = self._own if self._routes is None else await self._routes.own_lines(key)
        assert lines is not None
        await self._note_key_once()
        async with lines.one() as line:
            yield Apart(line, key, self.wait_replicas, partial(self._heard, key))

    async def _enough_replicas(self, apart: Apart) -> None:
        """A server is asked at most once a second: a replica that is lost meanwhile shows in
        `replicated`. That there are too few is told once."""
        now_s = time.monotonic()
        if now_s >= self._enough_until_s.get(apart.address, 0.0):
            try:
                await apart.enough_replicas()
            except StoreUnavailable as error:
                if not self._refusing:
                    _log.warning("writes are refused", reason=str(error))
                self._refusing = True
                raise
            self._refusing = False
            self._enough_until_s[apart.address] = now_s + _REPLICAS_KNOWN_S

    async def reads(
        self, commands: Sequence[Command], *, at_once: str = "", damaged: bool = False
    ) -> list[Any]:
        """The replies of commands that only read, in one round trip; asked again if one is lost.

        With `at_once`, the prefix of a shard or account, all are read at one moment. With
        `damaged`, the reply of a command whose key is of another type is Unreadable, as a value.
        """
        if not commands:
            return []
        self.reads_made += 1
        began_s = time.monotonic()
        try:
            return await self._read(commands, at_once, damaged)
        except OutcomeUnknown:
            self.reads_failed += 1
            if time.monotonic() - began_s > _PATIENCE_S:
                raise
            return await self._read(commands, at_once, damaged)
        except StoreError:
            self.reads_failed += 1
            raise

    async def _read(self, commands: Sequence[Command], key: str, damaged: bool) -> list[Any]:
        if not key:
            return _sound(await self._replies(commands, key), damaged)
        replies = await self._replies([("MULTI",), *commands, ("EXEC",)], key)
        return _sound(_sound(replies, False)[-1], damaged)

    async def _replies(self, commands: Sequence[Command], key: str) -> list[Any]:
        with translated():
            if self._routes is not None:
                # What only reads has its key behind its name.
                asked = [(key or str(words[1]), words) for words in commands]
                return await self._routes.replies(asked, whole=bool(key))
            if self._lines is not None:
                return await self._sent(packed(commands), len(commands))
            return await self._pipeline(commands)

    async def repeated(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of `call`, which is repeated while its reply gets lost, for a few seconds.

        Raises OutcomeUnknown if it was sent at least once and never answered, StoreUnavailable if
        it certainly never was. `call` must be safe to repeat.
        """
        maybe_done = False
        began_s = time.monotonic()
        for pause_s in _PAUSES_S:
            try:
                return await call()
            except OutcomeUnknown:
                maybe_done = True
                if time.monotonic() - began_s > _PATIENCE_S:
                    raise
            except StoreUnavailable:
                if not maybe_done:
                    raise
            await asyncio.sleep(pause_s)
        try:
            return await call()
        except StoreUnavailable as error:
            if maybe_done:
                raise OutcomeUnknown("The store's answer was lost") from error
            raise

    def close(self) -> None:
        for each in (self._lines, self._own, self._routes):
            if each is not None:
                each.close()

    def _heard(self, key: str, error: Exception) -> None:
        if self._routes is not None:
            self._routes.heard(key, error)

    async def _one(self, key: str, words: Sequence[Argument]) -> Any:
        """`key`: as in `run`; a prefix stands for all that its shard has."""
        with translated(but=exceptions.NoScriptError):
            if self._routes is not None:
                asked = [(key, words)]
                [reply] = await self._routes.replies(asked, whole=key.endswith(":"))
            elif self._lines is not None:
                [reply] = await self._sent(packed([words]), 1)
            else:
                return await self._client.execute_command(*words)
            if isinstance(reply, Exception):
                if isinstance(reply, exceptions.ReadOnlyError) and self._lines is not None:
                    # It leads to what was the primary; the next one is looked up anew.
                    self._lines.renew()
                raise anew(reply)
            return reply

    async def _sent(self, commands: bytes, count: int) -> list[Any]:
        assert self._lines is not None
        with never_sent():
            line = await self._lines.open()
            replies = line.call(commands, count)
        try:
            return await replies
        finally:
            del replies  # which has the error that leads to this frame

    async def _pipeline(self, commands: Sequence[Command]) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipe:
            for name, *words in commands:
                # The client does not know a name in bytes, and leaves the reply as it is.
                pipe.execute_command(str(name).encode(), *words)
            replies: list[Any] = await pipe.execute(raise_on_error=False)
            return replies


def _sound(replies: list[Any], damaged: bool) -> list[Any]:
    """Raises the first error among replies; if `damaged`, leaves Unreadable there as a value."""
    for place, reply in enumerate(replies):
        if isinstance(reply, Exception):
            error = meant(reply)
            if not (damaged and isinstance(error, Unreadable)):
                raise anew(error)
            replies[place] = error
    return replies


def flat(items: Iterable[tuple[Argument, ...]]) -> list[Argument]:
    return list(chain.from_iterable(items))
