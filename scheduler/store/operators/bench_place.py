"""Where a bench lives in a store that others use: below `keys.BENCH`, and one at a time."""

from __future__ import annotations

from scheduler.store import keys
from scheduler.store.server import Script, Server
from scheduler.store.server.client import Client
from scheduler.store.server.failures import translated

_PLACE = Script("operators/bench_place")
_NAME = keys.BENCH + "place"
_SCAN_COUNT = 500


class BenchPlace:
    """All of it raises StoreError, and is safe to repeat."""

    def __init__(self, client: Client, server: Server) -> None:
        self._client = client
        self._server = server

    async def hold(self, who: str, for_ms: int) -> bool:
        """Takes or keeps the place; False if another has it."""
        return bool(await self._server.run(_PLACE, _NAME, (who, for_ms)))

    async def leave(self, who: str) -> None:
        """Gives it up, if it is his."""
        await self._server.run(_PLACE, _NAME, (who, 0))

    async def clear(self) -> int:
        """Removes all that a bench has made, and nobody makes any more; returns how many keys.

        It reads the names of all keys in the store, some hundreds at a time; where no bench has
        been, which is seen by the one key that goes last, it reads none.
        """
        meta = keys.BENCH + "meta"
        removed = 0
        with translated():
            if not await self._client.exists(meta):
                return 0
            by_slot: dict[int, list[bytes]] = {}
            async for key in self._client.scan_iter(match=keys.BENCH + "*", count=_SCAN_COUNT):
                if key in (meta.encode(), _NAME.encode()):
                    continue
                chunk = by_slot.setdefault(keys.slot_of(key), [])
                chunk.append(key)
                if len(chunk) == _SCAN_COUNT:
                    removed += await self._client.unlink(*chunk)
                    chunk.clear()
            for chunk in by_slot.values():
                removed += await self._client.unlink(*chunk) if chunk else 0
            return removed + await self._client.delete(meta)
