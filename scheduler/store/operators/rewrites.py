"""Rewrites of the append-only file, held back while its files are copied."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scheduler.store.server import Server

_SETTING = "auto-aof-rewrite-percentage"
_PATIENCE_S = 600.0
_LOOK_EVERY_S = 0.2


class Rewrites:
    """Of one server that is ours to configure, such as the embedded one."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @asynccontextmanager
    async def held_back(self) -> AsyncIterator[None]:
        """Meanwhile files are only appended to, and a copy's torn end is cut off as after a crash.

        Raises StoreError, and TimeoutError if one that is under way does not end. Should this
        process be killed, rewrites are held back until the server starts again.
        """
        _, before = await self._server.ask("CONFIG", "GET", _SETTING)
        await self._server.ask("CONFIG", "SET", _SETTING, 0)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._ended()
            yield
        finally:
            await self._server.ask("CONFIG", "SET", _SETTING, before)

    async def _ended(self) -> None:
        # Nobody tells us when.
        while (await self._server.info("persistence"))["aof_rewrite_in_progress"] != "0":  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_EVERY_S)
