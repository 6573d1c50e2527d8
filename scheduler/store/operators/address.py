"""Where the API is found, as its processes say while they live: other commands make links to it."""

from __future__ import annotations

from scheduler.settings import Settings
from scheduler.store import keys
from scheduler.store.server.client import Client
from scheduler.store.server.failures import translated

# An API writes it again well before that; what a killed one wrote expires by itself.
KEPT_MS = 60_000
_PUBLIC, _LOCAL = "public", "local"


class Address:
    """Tells and reads it. A public address is preferred to where a process listens."""

    def __init__(self, client: Client) -> None:
        self._client = client

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
