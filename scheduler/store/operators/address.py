"""Where the API is found, as its processes say while they live: other commands make links to it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from scheduler.errors import StoreError
from scheduler.settings import Settings
from scheduler.store import keys
from scheduler.store.client import Client
from scheduler.store.failures import translated

# Said again well before it is forgotten; what a process that was killed has said goes by itself.
KEPT_MS = 60_000
_EVERY_S = 20.0
_PUBLIC, _LOCAL = "public", "local"


class Address:
    """Tells and reads it. A public address is preferred to where a process listens."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def keep_telling(self, settings: Settings) -> None:
        """Until it is cancelled. A store that is away is told when it is back."""
        while True:
            with suppress(StoreError):  # whoever needs the store says so
                await self.tell(settings)
            await asyncio.sleep(_EVERY_S)

    async def tell(self, settings: Settings) -> None:
        """Once, for a minute."""
        kind = _PUBLIC if settings.public_url else _LOCAL
        with translated():
            await self._client.set(keys.address(kind), settings.url, px=KEPT_MS)

    async def known(self) -> str | None:
        """As somebody told it within the last minute."""
        with translated():
            told = await self._client.get(keys.address(_PUBLIC))
            told = told or await self._client.get(keys.address(_LOCAL))
        return None if told is None else str(told.decode())
