"""Watches a bench in a store that others use, and leaves nothing of it, however it ended.

    python -m cli.bench.warden FD

POSTDATE_REDIS_URL names the store. FD is the read end of a pipe whose other end the bench, its API
and its worker have: it breaks when the last of them is gone, and nobody writes any more. It says on
stdout, each in a line of JSON, that it has the place (or why not), that the store was so slow that
the bench should end, and what it has removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import statistics
import sys
import time

from scheduler.errors import StoreError
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.store.operators.bench_place import BenchPlace
from scheduler.store.server.connection import connect

_HELD_FOR_MS = 60_000
_KEPT_EVERY_S = 10.0
_PING_EVERY_S = 0.05
# Who has to wait for so long behind a bench is hurt by it.
_MOST_WAITED_S = 1.0
# For a store that is away when all is to be removed. After it the next bench does that.
_PATIENCE_S = 60.0
_PAUSE_S = 0.5
_MOST_WAITS = 100_000


def say(**words: object) -> None:
    """Nobody may be there to hear it."""
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps(words) + "\n")
        sys.stdout.flush()


class Warden:
    """Of one bench."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._place = BenchPlace(store.client, store.server)
        self._who = secrets.token_hex(8)
        self._waited_s: list[float] = []
        self._ended = asyncio.Event()

    async def run(self, fd: int) -> None:
        asyncio.get_running_loop().add_reader(fd, self._ended.set)
        try:
            taken = await self._place.hold(self._who, _HELD_FOR_MS)
            left_over = await self._place.clear() if taken else 0
        except StoreError as error:
            say(refused=f"The store cannot be measured: {error}")
            return
        if not taken:
            say(
                refused="Another bench measures this store, or was cut off from it less than a"
                " minute ago"
            )
            return
        say(began=True, leftOver=left_over)
        await self._watch()
        say(removed=await self._remove(), **self._waited())

    async def _watch(self) -> None:
        """Until all of the bench is gone."""
        kept_s = time.monotonic()
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), _PING_EVERY_S)
                return
            began_s = time.monotonic()
            try:
                await self._store.tick()
                if began_s - kept_s > _KEPT_EVERY_S:
                    if not await self._place.hold(self._who, _HELD_FOR_MS):
                        say(slow="Another bench measures this store by now: ended")
                    kept_s = began_s
            except StoreError as error:
                say(slow=f"The store failed while it was measured: {error}")
                await asyncio.sleep(_PAUSE_S)
                continue
            self._note(time.monotonic() - began_s)

    def _note(self, waited_s: float) -> None:
        if len(self._waited_s) < _MOST_WAITS:
            self._waited_s.append(waited_s)
        if waited_s > _MOST_WAITED_S:
            say(slow=f"The store took {waited_s:.1f} s to answer: ended, to spare who else uses it")

    def _waited(self) -> dict[str, float]:
        if not self._waited_s:
            return {}
        return {
            "waitedMs": round(1000 * statistics.median(self._waited_s), 2),
            "mostWaitedMs": round(1000 * max(self._waited_s), 2),
        }

    async def _remove(self) -> int | None:
        """How many keys; None if the store was away for too long, or another has the place."""
        end_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end_s:
            try:
                if not await self._place.hold(self._who, _HELD_FOR_MS):
                    return None
                removed = await self._place.clear()
                await self._place.leave(self._who)
            except StoreError:
                await asyncio.sleep(_PAUSE_S)
            else:
                return removed
        return None


async def main(fd: int) -> None:
    settings = Settings(redis_url=os.environ["POSTDATE_REDIS_URL"])
    store = Store(connect(settings.redis_url or ""), settings)
    try:
        await Warden(store).run(fd)
    finally:
        await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
