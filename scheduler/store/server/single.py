"""The way to a store on one server, wherever that is at the moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis import exceptions
from redis.asyncio.sentinel import Sentinel

from scheduler.store.server.dial import Dial
from scheduler.store.server.failures import never_sent
from scheduler.store.server.line import Argument, Key, Lines, OwnLines, packed


class Single:
    """All commands go over one line, and what must reach the same server over lines of its own."""

    routed = False

    def __init__(self, dial: Dial, sentinel: Sentinel | None = None) -> None:
        self.dial = dial
        self._sentinel = sentinel
        self._lines = Lines(dial)
        self._own = OwnLines(dial)

    async def replies(
        self, commands: Sequence[Sequence[Argument]], key: Key = "", *, whole: bool = False
    ) -> list[Any]:
        """Errors of the server among them as values."""
        with never_sent():
            line = await self._lines.open()
            replies = line.call(packed(commands), len(commands))
        try:
            return await replies
        finally:
            del replies  # which has the error that leads to this frame

    async def anywhere(self, words: Sequence[Argument]) -> list[Any]:
        return await self.replies([words])

    async def names(self) -> list[str]:
        """Of the servers."""
        return [""]

    async def of(self, name: str, words: Sequence[Argument]) -> list[Any]:
        """The reply of the server of that name."""
        return await self.replies([words])

    async def own_lines(self, key: str) -> OwnLines:
        return self._own

    def heard(self, key: Key, error: Exception) -> None:
        """Takes in an error: the server may be no primary any more."""
        if isinstance(error, exceptions.ReadOnlyError):
            self._lines.renew()

    async def aclose(self) -> None:
        self._lines.close()
        self._own.close()
        if self._sentinel is not None:
            await self._sentinel.aclose()
