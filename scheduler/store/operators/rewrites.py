"""Rewrites of the append-only file, held back while its files are copied."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from scheduler.store.server.client import Client
from scheduler.store.server.failures import translated

_SETTING = "auto-aof-rewrite-percentage"
_PATIENCE_S = 600.0
_LOOK_EVERY_S = 0.2


class Rewrites:
    """Of one server that is ours to configure, such as the embedded one."""

    def __init__(self, client: Client) -> None:
        self._client: Any = client  # of a single server: its replies are not by node

    @asynccontextmanager
    async def held_back(self) -> AsyncIterator[None]:
        """Meanwhile files are only appended to, and a copy's torn end is cut off as after a crash.

        Raises StoreError, and TimeoutError if one that is under way does not end. Should this
        process be killed, rewrites are held back until the server starts again.
        """
        with translated():
            before = (await self._client.config_get(_SETTING))[_SETTING]
            await self._client.config_set(_SETTING, 0)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._ended()
            yield
        finally:
            with translated():
                await self._client.config_set(_SETTING, before)

    async def _ended(self) -> None:
        with translated():
            # Nobody tells us when.
            while (await self._client.info("persistence"))["aof_rewrite_in_progress"]:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_EVERY_S)
