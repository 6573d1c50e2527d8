"""Which keys each running process has, and when one was heard last that seals with a key.

A key may be forgotten once nothing is left that it sealed, and nobody can seal anything more with
it unnoticed. A process says twice a minute what it has. One that could not say so for two minutes
(it was frozen, or the store away) seals nothing until it has: that notes its key again. What it
had sealed before, and sends only now, meets a fence in each shard: scripts that write do nothing
for who seals with a key that is being forgotten, or was. It says what it has, which notes the key,
takes the fence away, and sends it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Iterable
from typing import NamedTuple

import structlog

from scheduler.elapsed import elapsed_s
from scheduler.errors import StoreError, StoreMisconfigured
from scheduler.store import keys
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Script, Server

_SAID_EVERY_S = 30.0
_GOOD_FOR_S = 120.0
# Longer than what it said is good for: what was sealed at the last moment is still on its way.
GONE_AFTER_MS = 180_000
_NOT_TOLD_AFTER_MS = 3_600_000
_GOODBYE_S = 1.0

_KEYRING = Script("operators/keyring")
_FORGET = Script("operators/forget_key")
_FENCE = Script("operators/fence", fenced=False)
_log = structlog.get_logger(__name__)


class Keyring(NamedTuple):
    """Of one process: the ids of its keys, which it seals with the first of, as it said last."""

    process: str
    key_ids: tuple[str, ...]
    heard_ms_ago: int


class Noted(NamedTuple):
    """What the store knows at one moment: the keys that something was sealed with, each with when a
    process that seals with it was heard last (as it is stored; empty: never), and the keyrings of
    those that may be running."""

    keys: dict[str, bytes]
    rings: list[Keyring]

    def lacking(self, key_id: str) -> list[str]:
        """The processes that cannot read what this key seals."""
        return [each.process for each in self.rings if key_id not in each.key_ids]

    def sealing(self, key_id: str) -> list[str]:
        """The processes that seal with it."""
        return [each.process for each in self.rings if each.key_ids[:1] == (key_id,)]


class Keyrings:
    """Says what this process has, for as long as it runs, and reads what others said."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._secrecy: Secrecy = server.secrecy
        self._process = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
        self._saying: asyncio.Task[None] | None = None
        # Whether a key is missing here, as far as the store has told.
        self.lacks_one = False
        server.readmit = self._readmit

    async def begin(self) -> None:
        """Says it now, and from now on. Raises StoreMisconfigured if a key is missing."""
        await self.read()
        self._saying = asyncio.create_task(self._say_on())

    async def read(self) -> Noted:
        """Says what this process has; returns what is noted. Raises StoreMisconfigured if a key is
        missing here. Safe to repeat."""
        began_s = elapsed_s()
        now_us, fields = await self._server.repeated(lambda: self._say(leaving=False))
        # Whatever it lacks: the store knows what this process seals with.
        self._secrecy.may_seal_until_s = began_s + _GOOD_FOR_S
        noted = dict(zip(fields[::2], fields[1::2], strict=True))
        self.lacks_one = True  # unless it does not
        self._secrecy.refuse_unless_it_opens_all(noted)
        self.lacks_one = False
        return Noted(dict(_keys(noted)), list(_rings(noted, now_us // 1000)))

    async def forget(self, key_id: str, heard: bytes) -> bool:
        """Forgets that something was sealed with this key, unless a process that seals with it was
        heard since; False: it was. Safe to repeat."""
        return bool(
            await self._server.repeated(
                lambda: self._server.write(_FORGET, keys.META, (key_id, heard))
            )
        )

    async def fence(self, key_id: str, shards: int) -> None:
        """From now on whoever seals with this key writes to none of these shards unless it has said
        again that it does. Safe to repeat."""
        for shard in range(shards):
            prefix = keys.shard(shard)
            await self._server.repeated(
                lambda prefix=prefix: self._server.write(_FENCE, prefix, (key_id, 1))  # type: ignore[misc]
            )

    async def _readmit(self, key: str) -> None:
        """This process was taken for gone. First it says what it seals with."""
        with contextlib.suppress(StoreMisconfigured):  # a key that it lacks is told elsewhere
            await self.read()
        first = self._secrecy.key_ids[0]
        _log.warning("was taken for gone while keys were forgotten; said again what it seals with")
        await self._server.run(_FENCE, key[: key.index("}:") + 2], (first, 0))

    async def end(self) -> None:
        """Says good-bye, if the store can hear it; otherwise it is forgotten after a while."""
        if self._saying is None:
            return
        self._saying.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._saying
        self._saying = None
        self._secrecy.may_seal_until_s = 0.0
        with contextlib.suppress(StoreError, TimeoutError):
            await asyncio.wait_for(self._say(leaving=True), _GOODBYE_S)

    async def _say_on(self) -> None:
        while True:
            await asyncio.sleep(_SAID_EVERY_S)
            try:
                await self.read()
            except StoreMisconfigured as error:
                _log.error("a key is missing in this process", reason=str(error))
            except StoreError as error:
                _log.warning("the store was not told which keys are here", reason=str(error))

    async def _say(self, *, leaving: bool) -> tuple[int, list[bytes]]:
        ids = self._secrecy.key_ids
        arguments = (self._process, ",".join(ids), ids[0] if ids else "", self._secrecy.trial())
        now_us, fields = await self._server.run(
            _KEYRING, keys.META, (*arguments, int(leaving), _NOT_TOLD_AFTER_MS)
        )
        return int(now_us), fields


def _keys(noted: dict[bytes, bytes]) -> Iterable[tuple[str, bytes]]:
    for name in noted:
        if name.startswith(b"key:"):
            key_id = name.removeprefix(b"key:")
            yield key_id.decode(), noted.get(b"sealed:" + key_id, b"")


def _rings(noted: dict[bytes, bytes], now_ms: int) -> Iterable[Keyring]:
    for name, said in noted.items():
        if name.startswith(b"ring:"):
            heard_ms, _, ids = said.decode().partition(" ")
            ago_ms = now_ms - int(heard_ms)
            if ago_ms < GONE_AFTER_MS:
                process = name.decode().removeprefix("ring:")
                yield Keyring(process, tuple(filter(None, ids.split(","))), ago_ms)
