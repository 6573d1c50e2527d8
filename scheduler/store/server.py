"""Scripts and commands sent to the store: by hash, in order, once or until they are answered.

A script is declared beside the noun that it belongs to: `_CLAIM = Script("claims/claim")` stands
for `claims/claim.lua`. In a script `--@include x` stands for `x.inc.lua`, and `K.WAITING` for that
constant of `keys.py` (`R.` for `rollups.py`), so that a name is spelt in one place.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from redis import exceptions

from scheduler import rollups
from scheduler.errors import OutcomeUnknown, StoreError, StoreUnavailable
from scheduler.store import keys
from scheduler.store.connection import Client
from scheduler.store.failures import never_sent, translated
from scheduler.store.line import Argument, Lines, packed
from scheduler.store.routes import Cluster, Routes

T = TypeVar("T")

__all__ = ["Argument", "Script", "Server", "flat"]

_FOLDER = Path(__file__).parent
_INCLUDE = re.compile(r"^--@include (\S+)\n", re.MULTILINE)
_CONSTANT = re.compile(r"\b([KR])\.([A-Z_]+)\b")
_MODULES: dict[str, ModuleType] = {"K": keys, "R": rollups}
_SHEBANG = re.compile(r"\A#!lua[^\n]*\n")

_REPLICAS_TIMEOUT_MS = 1000
_REPLICAS_KNOWN_S = 1.0
_PAUSES_S = (0.0, 0.05, 0.2, 0.5)
# A lost connection is known at once and is worth a repeat. A store that hangs lets each attempt
# wait for the reply's time limit: then the caller is told, instead of kept for half a minute.
_PATIENCE_S = 4.0


class Script:
    """A Lua file by its path below this folder, without `.lua`."""

    def __init__(self, path: str) -> None:
        self.path = path

    def source_and_sha1(self, *, plain_lua: bool = False) -> tuple[str, str]:
        """As the server gets it; `plain_lua` leaves out the `#!lua` line."""
        return _source_and_sha1(self.path, plain_lua)


_TOUCH = Script("touch")


class Server:
    """Runs scripts and reads. What it raises is a StoreError, always.

    `routed`: there is more than one server behind it, and one may be away while others are not.
    `plain_lua` is for a server that does not know the `#!lua` line.
    """

    def __init__(self, client: Client, *, wait_replicas: int = 0, plain_lua: bool = False) -> None:
        self._client = client
        self.wait_replicas = wait_replicas
        self._enough_until_s = 0.0
        self._plain_lua = plain_lua
        self._routes: Routes | None = client.routes if isinstance(client, Cluster) else None
        self.routed = self._routes is not None
        # fakeredis has no connections
        direct = not self.routed and not plain_lua
        self._lines = Lines(client.connection_pool.make_connection) if direct else None

    async def run(self, script: Script, key: str, arguments: Sequence[Argument]) -> Any:
        """A script's reply. `key`: a prefix from `keys.py` (its shard's or account's), or a key.

        Raises OutcomeUnknown if the reply was lost: it may have run.
        """
        source, sha1 = script.source_and_sha1(plain_lua=self._plain_lua)
        try:
            return await self._one(key, ("EVALSHA", sha1, 1, key, *arguments))
        except exceptions.NoScriptError:
            return await self._one(key, ("EVAL", source, 1, key, *arguments))

    async def write(self, script: Script, key: str, arguments: Sequence[Argument]) -> Any:
        """Runs a script whose effect the caller will rely on, so that replicas must have it.

        Raises StoreUnavailable, with nothing done, if too few replicas are connected.
        """
        if self.wait_replicas:
            await self._enough_replicas()
        reply = await self.run(script, key, arguments)
        await self.replicated(key)
        return reply

    async def reads(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        """The replies of commands that only read, in one round trip; asked again if one is lost."""
        if not commands:
            return []
        try:
            return await self._read(commands)
        except OutcomeUnknown:
            return await self._read(commands)

    async def _read(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        with translated():
            if self._routes is not None:
                # What only reads has its key behind its name.
                asked = [(str(words[1]), words) for words in commands]
                replies = await self._routes.replies(asked)
            elif self._lines is not None:
                replies = await self._sent(packed(commands), len(commands))
            else:
                return await self._pipeline(commands)
            for reply in replies:
                if isinstance(reply, Exception):
                    raise reply
            return replies

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

    async def _enough_replicas(self) -> None:
        """Asked at most once a second: one that is lost meanwhile shows in `replicated`."""
        if time.monotonic() < self._enough_until_s:
            return
        with translated():
            role = await self._client.execute_command("ROLE")
        if len(role[2]) < self.wait_replicas:
            raise StoreUnavailable("Too few replicas of the store are connected")
        self._enough_until_s = time.monotonic() + _REPLICAS_KNOWN_S

    async def replicated(self, key: str) -> None:
        """Returns once as many replicas as were asked for have all that was written so far.

        WAIT speaks of the writes of its own connection, so it comes behind a write of its own:
        replicas apply one stream, and what has the later write has the earlier ones. Whatever
        goes wrong here, the script before it was run: OutcomeUnknown, never StoreUnavailable.
        """
        if not self.wait_replicas:
            return
        source, _ = _TOUCH.source_and_sha1(plain_lua=self._plain_lua)
        try:
            with translated():
                async with self._client.pipeline(transaction=False) as pipe:
                    pipe.eval(source, 1, key + keys.WAITED)
                    pipe.wait(self.wait_replicas, _REPLICAS_TIMEOUT_MS)
                    _, reached = await pipe.execute()
        except StoreError as error:
            raise OutcomeUnknown("The replicas could not be asked") from error
        if reached < self.wait_replicas:
            raise OutcomeUnknown("Too few replicas confirmed the write")

    async def aclose(self) -> None:
        if self._lines is not None:
            self._lines.close()
        if self._routes is not None:
            await self._routes.aclose()

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
                raise reply
            return reply

    async def _sent(self, commands: bytes, count: int) -> list[Any]:
        assert self._lines is not None
        with never_sent():
            line = await self._lines.open()
            replies = line.call(commands, count)
        return await replies

    async def _pipeline(self, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipe:
            for words in commands:
                pipe.execute_command(*words)
            replies: list[Any] = await pipe.execute()
            return replies


def flat(items: Iterable[tuple[Argument, ...]]) -> list[Argument]:
    return list(chain.from_iterable(items))


@cache
def _source_and_sha1(path: str, plain_lua: bool) -> tuple[str, str]:
    source = _with_includes((_FOLDER / f"{path}.lua").read_text())
    source = _CONSTANT.sub(_spelt, source)
    if plain_lua:
        source = _SHEBANG.sub("", source)
    return source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


def _with_includes(source: str) -> str:
    return _INCLUDE.sub(
        lambda match: _with_includes((_FOLDER / f"{match[1]}.inc.lua").read_text()), source
    )


def _spelt(match: re.Match[str]) -> str:
    value = getattr(_MODULES[match[1]], match[2])
    return f"'{value}'" if isinstance(value, str) else str(value)
