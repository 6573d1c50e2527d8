"""What replicas must have: written and then waited for, over one connection to one server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from redis import exceptions

from scheduler.errors import OutcomeUnknown, StoreError, StoreUnavailable, anew
from scheduler.store import keys
from scheduler.store.server.failures import translated
from scheduler.store.server.line import Argument, Line, packed
from scheduler.store.server.scripts import Script

_REPLICAS_TIMEOUT_MS = 1000
_TOUCH = Script("touch")


class Replicated:
    """A connection of the caller's own to the server that has `key`. If another server takes over
    between a script and the question to the replicas, it breaks: the replicas of the next server
    must not answer that question. `heard` is called with errors."""

    def __init__(
        self, line: Line, key: str, replicas: int, heard: Callable[[Exception], None]
    ) -> None:
        self._line = line
        self._key = key
        self._replicas = replicas
        self._heard = heard

    @property
    def address(self) -> object:
        """Of the server, hashable."""
        return self._line.address

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
        source, _ = _TOUCH.source_and_sha1()
        commands = [
            ("EVAL", source, 1, self._key + keys.WAITED),
            ("WAIT", self._replicas, _REPLICAS_TIMEOUT_MS),
        ]
        try:
            _, reached = await self._replies(commands)
        except StoreError as error:
            raise OutcomeUnknown("The replicas could not be asked") from error
        if reached < self._replicas:
            raise OutcomeUnknown("Too few replicas confirmed the write")

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
                self._heard(error)
                raise
            except (exceptions.RedisError, OSError) as error:
                self._heard(error)
                raise
            return replies
