"""The hold: while it lasts workers claim nothing, and everything else goes on."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.store import keys
from scheduler.store.server import Script, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.shards import Shards

_HOLD = Script("operators/hold")


class Held(NamedTuple):
    """Since when it is on hold (ms; None: not all of it is), and how many of its shards are; some
    of them, where a `begin` or `end` was cut off."""

    since_ms: int | None
    on_hold: int
    shards: int


class Hold:
    """On all shards. After a StoreError `begin` or `end` may have done a part: repeat it."""

    def __init__(self, server: Server, clock: StoreClock, shards: Shards) -> None:
        self._server = server
        self._clock = clock
        self._shards = shards

    async def begin(self) -> int:
        """From now on nothing is claimed. Returns since when (ms). Safe to repeat."""
        return max(await self._each("1"))

    async def end(self) -> None:
        """Workers claim again within half a second. Safe to repeat."""
        await self._each("0")

    async def look(self) -> Held:
        since = await self._each("")
        on_hold = sum(each >= 0 for each in since)
        return Held(max(since) if on_hold == len(since) else None, on_hold, len(since))

    async def _each(self, what: str) -> list[int]:
        found = []
        for shard in range(await self._shards.newest()):
            now_us, since_ms = await self._server.run(_HOLD, keys.shard(shard), (what,))
            self._clock.observe(now_us)
            found.append(int(since_ms))
        return found
