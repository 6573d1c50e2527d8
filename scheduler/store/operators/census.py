"""How much there is in the store, for operators. Each look costs little, however many accounts
there are: it reads due schedules of the accounts that come first, and goes a step further on a walk
that counts waiting schedules and checks ledgers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from scheduler.errors import StoreError, anew
from scheduler.store import keys
from scheduler.store.server import Script, Server
from scheduler.store.shards import Shards

WINDOWS = 6
WINDOW_MS = 30_000
# Accounts, and lanes, that a look may cost, over all shards; and lanes of one account.
_MOST_ACCOUNTS = 2048
_MOST_LANES = 64
_LEAST_OF_A_SHARD = 16
# A worker tends overdue recurring schedules each second, a thousand of each shard.
_UNTENDED_MS = 10_000

# Nothing waits or runs in an idle one; claims look at one that is ready now, and at one that is
# `later` when it can next start something; a paused one is so without an end.
LANE_STATES = ("idle", "ready", "later", "paused")

_DUE = Script("operators/due")
_WALK = Script("operators/walk")


class Due(NamedTuple):
    """Of one shard. `overdue` is due and not held, the oldest for `oldest_ms`; `coming` is due in
    each of the next `WINDOWS`, of `WINDOW_MS`: estimates if more accounts or lanes are due than a
    look may cost. In a lane with limits only those count that these let start, from the moment on
    that they do. `on_hold_ms`: for how long the shard is on hold; 0: it is not. `untended`:
    recurring schedules that a worker should have tended ten seconds ago."""

    overdue: float
    oldest_ms: float
    coming: list[float]
    on_hold_ms: float = 0.0
    untended: int = 0


class Figures(NamedTuple):
    """By shard, without those that cannot be read. `counted` (schedules waiting, held by workers;
    accounts, unbalanced ledgers, credits remaining, credits spent, then lanes by `LANE_STATES`,
    pending callbacks, accounts of which some wait for a retry, recurring schedules by RuleState) is
    of the last whole walk, and missing before the first one is over."""

    due: dict[int, Due]
    counted: dict[int, Sequence[int]]


class Census:
    """Looks when it is asked to. One per process."""

    def __init__(self, server: Server, shards: Shards) -> None:
        self._server = server
        self._shards = shards
        self._walks: defaultdict[int, _CensusWalk] = defaultdict(_CensusWalk)

    async def look(self) -> Figures:
        """Read-only. Raises StoreError if not one shard can be read."""
        numbers = range(await self._shards.newest())
        most = max(_LEAST_OF_A_SHARD, _MOST_ACCOUNTS // len(numbers))
        due = await asyncio.gather(
            *(self._due(number, most) for number in numbers), return_exceptions=True
        )
        found = {n: each for n, each in zip(numbers, due, strict=True) if isinstance(each, Due)}
        for each in due:
            if isinstance(each, BaseException) and not (found and isinstance(each, StoreError)):
                raise anew(each)
        walks = {n: self._walks[n] for n in found}
        await asyncio.gather(*(each.step(self._server, n, most) for n, each in walks.items()))
        return Figures(found, {n: each.found for n, each in walks.items() if each.found})

    async def _due(self, shard: int, most: int) -> Due:
        arguments = (most, _MOST_LANES, WINDOWS, WINDOW_MS, _UNTENDED_MS)
        now_us, total, seen, overdue, oldest, coming, on_hold, untended = await self._server.run(
            _DUE, keys.shard(shard), arguments
        )
        part = seen / total if total else 1.0
        now_ms = now_us / 1000
        oldest_ms = max(0.0, now_ms - float(oldest)) if oldest else 0.0
        on_hold_ms = max(1.0, now_ms - float(on_hold)) if on_hold else 0.0
        coming = [each / part for each in coming]
        return Due(overdue / part, oldest_ms, coming, on_hold_ms, untended)


class _CensusWalk:
    """Through the accounts of one shard, round after round."""

    def __init__(self) -> None:
        self._place: str | bytes = "0"
        self._so_far: list[int] = []
        self.found: list[int] = []

    async def step(self, server: Server, shard: int, most: int) -> None:
        """A shard that cannot be read right now is gone on with later."""
        try:
            place, *counts = await server.run(_WALK, keys.shard(shard), (self._place, most))
        except StoreError:
            return
        before = self._so_far or [0] * len(counts)
        self._so_far = [a + b for a, b in zip(before, counts, strict=True)]
        self._place = place
        if place == b"0":
            self.found, self._so_far = self._so_far, []
