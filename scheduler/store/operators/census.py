"""How much there is in the store, for operators: what waits, what is due, what comes; the ledgers.

Each look costs the store little, however many accounts there are. What is due is told of those
accounts that come first; what waits, and how the ledgers stand, is counted on a walk that goes on a
step with each look, and is told when the walk has come round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import NamedTuple

from scheduler.errors import StoreError, anew
from scheduler.store import keys
from scheduler.store.server import Script, Server
from scheduler.store.shards import Shards

WINDOWS = 6
WINDOW_MS = 30_000
# Accounts that a look may cost, over all shards.
_MOST_ACCOUNTS = 2048
_LEAST_OF_A_SHARD = 16

_DUE = Script("operators/due")
_WAITING = Script("operators/waiting")
_LEDGERS = Script("operators/ledgers")


class Due(NamedTuple):
    """Of one shard. `overdue` is due and held by nobody, the oldest for `oldest_ms`; `coming` is
    due in each of the next `WINDOWS`, of `WINDOW_MS`. Where more accounts are due than a look may
    cost, the numbers are what those that were looked at let expect. `on_hold_ms` is for how long
    nothing of it has been claimed because it is on hold; 0: it is not."""

    overdue: float
    oldest_ms: float
    coming: list[float]
    on_hold_ms: float = 0.0


class Figures(NamedTuple):
    """By shard; one that cannot be read is missing. `waiting` and `ledgers` are of the last whole
    walk, and missing before the first one is over.

    `waiting`: waiting, held by workers. `ledgers`: accounts, ledgers that do not balance, credits
    remaining, credits spent.
    """

    due: dict[int, Due]
    waiting: dict[int, Sequence[int]]
    ledgers: dict[int, Sequence[int]]


class Census:
    """Looks when it is asked to. One per process."""

    def __init__(self, server: Server, shards: Shards) -> None:
        self._server = server
        self._shards = shards
        self._waiting: dict[int, _Walk] = {}
        self._ledgers: dict[int, _Walk] = {}

    async def look(self) -> Figures:
        """Read-only. Raises StoreError if not one shard can be read."""
        numbers = range(await self._shards.newest())
        most = max(_LEAST_OF_A_SHARD, _MOST_ACCOUNTS // len(numbers))
        due = await asyncio.gather(
            *(self._due(number, most) for number in numbers), return_exceptions=True
        )
        found: dict[int, Due] = {}
        for number, each in zip(numbers, due, strict=True):
            if isinstance(each, Due):
                found[number] = each
            elif not isinstance(each, StoreError):
                raise anew(each)
        if not found:
            raise anew(next(each for each in due if isinstance(each, StoreError)))
        return Figures(
            found,
            await self._step(self._waiting, _WAITING, found, most),
            await self._step(self._ledgers, _LEDGERS, found, most),
        )

    async def _due(self, shard: int, most: int) -> Due:
        now_us, total, seen, overdue, oldest, coming, on_hold = await self._server.run(
            _DUE, keys.shard(shard), (most, WINDOWS, WINDOW_MS)
        )
        part = seen / total if total else 1.0
        now_ms = now_us / 1000
        oldest_ms = max(0.0, now_ms - float(oldest)) if oldest else 0.0
        on_hold_ms = max(1.0, now_ms - float(on_hold)) if on_hold else 0.0
        return Due(overdue / part, oldest_ms, [each / part for each in coming], on_hold_ms)

    async def _step(
        self, walks: dict[int, _Walk], script: Script, shards: Collection[int], most: int
    ) -> dict[int, Sequence[int]]:
        taken = [walks.setdefault(number, _Walk()) for number in shards]
        await asyncio.gather(
            *(
                walk.step(self._server, script, number, most)
                for number, walk in zip(shards, taken, strict=True)
            )
        )
        return {n: walks[n].found for n in shards if walks[n].found}


class _Walk:
    """Through the accounts of one shard, round after round."""

    def __init__(self) -> None:
        self._place: str | bytes = "0"
        self._so_far: list[int] = []
        self.found: list[int] = []

    async def step(self, server: Server, script: Script, shard: int, most: int) -> None:
        """A shard that cannot be read right now is gone on with later."""
        try:
            place, *counts = await server.run(script, keys.shard(shard), (self._place, most))
        except StoreError:
            return
        before = self._so_far or [0] * len(counts)
        self._so_far = [a + b for a, b in zip(before, counts, strict=True)]
        self._place = place
        if place == b"0":
            self.found, self._so_far = self._so_far, []
