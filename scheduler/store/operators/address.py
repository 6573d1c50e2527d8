"""Where the API is found, as its processes say while they live: other commands make links to it."""

from __future__ import annotations

from scheduler.settings import Settings
from scheduler.store import keys
from scheduler.store.server import Server

# An API writes it again well before that; what a killed one wrote expires by itself.
KEPT_MS = 60_000
_PUBLIC, _LOCAL = "public", "local"


class Address:
    """Tells and reads it. A public address is preferred to where a process listens."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def tell(self, settings: Settings) -> None:
        """Once, for a minute."""
        kind = _PUBLIC if settings.public_url else _LOCAL
        await self._server.call("SET", keys.address(kind), settings.url, "PX", KEPT_MS)

    async def known(self) -> str | None:
        """As somebody told it within the last minute."""
        public, local = await self._server.reads(
            [("GET", keys.address(kind)) for kind in (_PUBLIC, _LOCAL)]
        )
        told = public or local
        return None if told is None else str(told.decode())
