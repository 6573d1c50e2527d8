"""Scripts and commands sent to the store: by hash, in order, once or until they are answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import chain
from typing import Any, TypeVar

import structlog
from redis import exceptions

from scheduler.errors import (
    OutcomeUnknown,
    StoreError,
    StoreFull,
    StoreUnavailable,
    Unreadable,
    anew,
)
from scheduler.runtime.one_at_a_time import OneAtATime
from scheduler.store import keys
from scheduler.store.secrecy import NOTE, Secrecy
from scheduler.store.server.connection import Single
from scheduler.store.server.failures import meant, never_sent, translated
from scheduler.store.server.line import Argument, Line, packed
from scheduler.store.server.routing import Routes
from scheduler.store.server.scripts import Call, Script
from scheduler.store.server.writes import note_write

T = TypeVar("T")
Way = Single | Routes
Command = Sequence[Argument]
_READ = Script("read")
_TOUCH = Script("touch")
_log = structlog.get_logger(__name__)

_REPLICAS_KNOWN_S = 1.0
_REPLICAS_TIMEOUT_MS = 1000
_PAUSES_S = (0.0, 0.05, 0.2, 0.5)
# A lost connection is known at once and worth a repeat. If the store hangs, each attempt takes the
# reply's time limit: callers get an error then, instead of half a minute's wait.
_PATIENCE_S = 4.0


class Replicated:
    """A connection of the caller's own to the server that has `key`. If another server takes over
    between a script and the question to the replicas, it breaks: the replicas of the next server
    must not answer that question."""

    def __init__(self, line: Line, key: str, replicas: int, way: Way) -> None:
        self._line = line
        self.address = line.address
        self._key = key
        self._replicas = replicas
        self._way = way

    async def run(self, script: Script, arguments: Sequence[Argument]) -> Any:
        """A script's reply. Raises OutcomeUnknown if the reply was lost: it may have run."""
        return await script.run(self._one, self._key, arguments)

    async def _one(self, _: str, words: Sequence[Argument]) -> Any:
        [reply] = await self._replies([words])
        return reply

    async def enough_replicas(self) -> None:
        """Raises StoreUnavailable if too few are connected."""
        [role] = await self._replies([("ROLE",)])
        if role[0] != b"master" or len(role[2]) < self._replicas:
            raise StoreUnavailable("Too few replicas of the store are connected")

    async def replicated(self) -> None:
        """Returns once enough replicas have all that was written so far. Any failure raises
        OutcomeUnknown, never StoreUnavailable: the script before it was run."""
        # WAIT counts only writes of its own connection, and a repeated script may have written
        # nothing: a replica that has this write has the earlier ones.
        source, _ = _TOUCH.source_and_sha1
        commands = [
            ("EVAL", source, 1, keys.waited(self._key)),
            ("WAIT", self._replicas, _REPLICAS_TIMEOUT_MS),
        ]
        try:
            _, reached = await self._replies(commands)
        except StoreError as error:
            raise OutcomeUnknown("The replicas could not be asked") from error
        if reached < self._replicas:
            raise OutcomeUnknown("Too few replicas confirmed the write")
        _refuse_while_choosing(self._way)

    async def _replies(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        with translated(but=exceptions.NoScriptError):
            try:
                if not self._line.is_open:
                    raise exceptions.ConnectionError("Connection closed by server.")
                replies = await self._line.call(packed(commands), len(commands))
                for reply in replies:
                    if isinstance(reply, Exception):
                        raise anew(reply)
            except exceptions.ReadOnlyError as error:
                # It was the primary. Connections to it are useless now.
                self._line.close()
                self._way.heard(self._key, error)
                raise
            except (exceptions.RedisError, OSError) as error:
                self._way.heard(self._key, error)
                raise
            return replies


class Server:
    """Runs scripts and commands over its `way` to the store. Raises nothing but StoreErrors.
    `secrecy` seals and opens what must not be stored in clear."""

    def __init__(self, way: Way, *, wait_replicas: int = 0, secrecy: Secrecy | None = None) -> None:
        self.way = way
        # Whether there are several servers, of which one may be away while others are not.
        self.routed = way.routed
        self.secrecy = secrecy or Secrecy()
        self.wait_replicas = wait_replicas
        self._refusing = False
        self.reads_made = 0
        self.reads_failed = 0
        self._enough_until_s: dict[object, float] = {}
        self._long_scripts = OneAtATime()

    async def run(self, script: Script, key: str, arguments: Sequence[Argument]) -> Any:
        """A script's reply. `key`: a prefix from `keys.py` (its shard's or account's), or a key.
        Raises OutcomeUnknown if the reply was lost: it may have run. An owner's write goes by
        `write`: that notes that the current call has written something."""
        await self._note_key_once()
        return await script.run(self._one, key, arguments)

    async def run_each(self, script: Script, calls: Sequence[Call]) -> list[Any]:
        """The replies to several calls of a script, in one round trip; if `routed`, of one key
        only. The StoreErrors of those that failed are among them, of all if the connection broke.
        Raises nothing."""
        try:
            await self._note_key_once()
            with translated():
                replies = await script.run_each(partial(self._all, calls[0][0]), calls)
        except StoreError as error:
            replies = [anew(error) for _ in calls]
        failed = sum(isinstance(reply, StoreError) for reply in replies)
        script.errors += failed
        if failed < len(replies):
            note_write()
        return replies

    async def call(self, name: str, key: str | bytes, *words: Argument) -> Any:
        """The reply of a command that writes. Raises OutcomeUnknown if the reply was lost."""
        reply = await self._one(key, (name, key, *words))
        note_write()
        return reply

    async def _note_key_once(self) -> None:
        """Sealed data must not reach the store before the note of its key."""
        if self.secrecy.has_sealed and not self.secrecy.is_noted:
            await self.note_key()

    async def note_key(self) -> None:
        """Notes that something may be sealed with this process's first key. Safe to repeat."""
        await self._one(keys.META, ("HSETNX", keys.META, NOTE + self.secrecy.key_ids[0], ""))
        self.secrecy.is_noted = True

    async def look_up(self, script: Script, key: str, arguments: Sequence[Argument]) -> Any:
        """The reply of a script that only reads or counts, `repeated`. Raises StoreUnavailable
        where replies get lost: nothing was done that its caller was asked for."""
        with never_sent():
            return await self.repeated(lambda: self.run(script, key, arguments))

    async def write(self, script: Script, key: str, arguments: Sequence[Argument]) -> Any:
        """Runs a script whose effect replicas must have, because the caller relies on it. Raises
        StoreUnavailable, with nothing done, if too few replicas are connected."""
        if not self.wait_replicas:
            reply = await self.run(script, key, arguments)
            note_write()
            _refuse_while_choosing(self.way)
            return reply
        async with self.apart(key) as apart:
            await self._enough_replicas(apart)
            reply = await apart.run(script, arguments)
            note_write()
            await apart.replicated()
            return reply

    def long_script(self, shard: str, account: str) -> AbstractAsyncContextManager[None]:
        """Around a script that takes a millisecond or more: this process sends one at a time to a
        server, or to a shard where there are several servers; accounts of it take turns."""
        return self._long_scripts.turn(shard if self.routed else "", account)

    async def write_until_answered(
        self, script: Script, key: str, arguments: Sequence[Argument]
    ) -> Any:
        """`write`, `repeated`: for a script that is safe to repeat."""
        return await self.repeated(lambda: self.write(script, key, arguments))

    @asynccontextmanager
    async def apart(self, key: str) -> AsyncIterator[Replicated]:
        """A connection of the caller's own to the server that has the key."""
        lines = await self.way.own_lines(key)
        await self._note_key_once()
        try:
            async with lines.one() as line:
                yield Replicated(line, key, self.wait_replicas, self.way)
        except StoreUnavailable as error:
            # It cannot be reached, or is no primary with replicas: another node may have the key.
            self.way.heard(key, error)
            raise

    async def _enough_replicas(self, apart: Replicated) -> None:
        """Asks a server at most once a second: `replicated` notices a replica that is lost
        meanwhile. Logs once that there are too few."""
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
        """The replies of commands that only read, in one round trip, repeated if it is lost. The
        second word of each is its key. With `at_once`, a shard's or account's prefix, all are read
        at one moment. With `damaged`, Unreadable is the value for a key of another type."""

        async def ask() -> list[Any]:
            if not at_once:
                return _sound(await self.way.replies(commands), damaged)
            transaction = [("MULTI",), *commands, ("EXEC",)]
            replies = await self.way.replies(transaction, at_once, whole=True)
            try:
                return _sound(_sound(replies)[-1], damaged)
            except StoreFull:
                words = flat((len(each), *each) for each in commands)
                return _sound(await self.run(_READ, at_once, words), damaged)

        return await self._read(ask) if commands else []

    async def read(self, *words: Argument) -> Any:
        [reply] = await self.reads([words])
        return reply

    async def ask(self, *words: Argument) -> Any:
        """The reply of any of the servers to a command that has no key and is safe to repeat."""
        [reply] = _sound(await self._read(lambda: self.way.anywhere(words)))
        return reply

    async def info(self, section: str) -> dict[str, str]:
        return _info(await self.ask("INFO", section))

    async def infos(self, section: str = "default") -> dict[str, dict[str, str]]:
        """A section of INFO of each server, by its name; a single server has none."""
        return {name: _info(await self._of(name, "INFO", section)) for name in await self._names()}

    async def keys(self, pattern: str, most: int) -> AsyncIterator[list[bytes]]:
        """The names of all keys that match a pattern, up to `most` at a time. One that exists from
        the beginning to the end comes, maybe twice."""
        for name in await self._names():
            words = ("MATCH", pattern, "COUNT", most)
            look = partial(self._of, name, "SCAN")
            async for piece in _walked(look, words, most):
                yield piece

    async def members(self, scan: str, key: str, most: int) -> AsyncIterator[list[bytes]]:
        """The members of a sorted set (ZSCAN) or the fields of a hash (HSCAN), in the same way."""
        look = partial(self.read, scan, key)
        async for piece in _walked(look, ("COUNT", most), 2 * most):
            yield piece[::2]

    async def _names(self) -> list[str]:
        with translated():
            return await self.way.names()

    async def _of(self, name: str, *words: Argument) -> Any:
        [reply] = _sound(await self._read(lambda: self.way.of(name, words)))
        return reply

    async def _read(self, ask: Callable[[], Awaitable[list[Any]]]) -> list[Any]:
        """Raises StoreUnavailable where replies get lost: a read changes nothing."""
        self.reads_made += 1
        began_s = time.monotonic()
        try:
            with translated():
                return await ask()
        except StoreError as error:  # nothing else is the store's fault
            self.reads_failed += 1
            if not isinstance(error, OutcomeUnknown):
                raise
            if time.monotonic() - began_s > _PATIENCE_S:
                raise StoreUnavailable("The store does not answer") from error
        with never_sent():  # or sent, which is as good
            return await ask()

    async def repeated(self, call: Callable[[], Awaitable[T]]) -> T:
        """The result of `call`, which must be safe to repeat: it is repeated for a few seconds
        while its reply gets lost. Raises OutcomeUnknown if it was sent at least once and never
        answered, StoreUnavailable if it certainly was never sent."""
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

    async def aclose(self) -> None:
        await self.way.aclose()

    async def _all(self, key: str, commands: Sequence[Command]) -> list[Any]:
        replies = await self.way.replies(commands, key, whole=True)
        for place, reply in enumerate(replies):
            if isinstance(reply, Exception) and not isinstance(reply, exceptions.NoScriptError):
                self.way.heard(key, reply)
                replies[place] = meant(reply)
        return replies

    async def _one(self, key: str | bytes, words: Sequence[Argument]) -> Any:
        # A prefix stands for all that its shard has.
        whole = keys.is_prefix(key)
        with translated(but=exceptions.NoScriptError):
            [reply] = await self.way.replies([words], key, whole=whole)
            if isinstance(reply, Exception):
                self.way.heard(key, reply)
                raise anew(reply)
            return reply


def _refuse_while_choosing(way: Way) -> None:
    """The next primary may lack what this one has written, whichever replica confirmed it."""
    if way.choosing:
        raise OutcomeUnknown("The store's sentinels are choosing another primary")


async def _walked(
    look: Callable[..., Awaitable[Any]], words: Sequence[Argument], most: int
) -> AsyncIterator[list[bytes]]:
    """The finds of any kind of SCAN, in pieces."""
    cursor, found = b"0", []
    while True:
        cursor, more = await look(cursor, *words)
        found += more
        while len(found) >= most or (found and cursor == b"0"):
            yield found[:most]
            del found[:most]
        if cursor == b"0":
            return


def _info(text: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in text.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


def pairs(reply: Sequence[bytes]) -> dict[bytes, bytes]:
    """What HGETALL and CONFIG GET reply."""
    return dict(zip(reply[::2], reply[1::2], strict=True))


def _sound(replies: list[Any], damaged: bool = False) -> list[Any]:
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
