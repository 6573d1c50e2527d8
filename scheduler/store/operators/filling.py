"""How full each server's memory was, half hour by half hour; when it will be full at that rate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import median
from typing import NamedTuple

import msgspec

from scheduler.rollups import DAY_MS, HOUR_MS
from scheduler.store import keys
from scheduler.store.server import Server, pairs
from scheduler.store.server.clock import StoreClock

_STEP_MS = HOUR_MS // 2
_KEPT_MS = 7 * DAY_MS
_MOST_SERVERS = 64
# A day has its own rhythm: a shorter stretch would make a rate of each morning.
_STRETCHES_MS = (DAY_MS, _KEPT_MS)
_LEAST_SAMPLES, _MOST_SAMPLES = 7, 48
# Of all pairs of samples so many must have grown, or the growth is noise.
_LEAST_GROWING = 0.75
_LONGEST_MS = 365 * DAY_MS


class Sample(NamedTuple):
    at_ms: int
    used_bytes: int


class Filling:
    """A hash of samples, by the number of their half hour; any process adds to it."""

    def __init__(self, server: Server, clock: StoreClock) -> None:
        self._server = server
        self._clock = clock
        self._noted = -1

    async def note(self) -> None:
        """The first process to ask in a half hour notes how much each server uses, and drops what
        is older than a week. Safe to repeat. Raises StoreError."""
        step = self._clock.now_ms() // _STEP_MS
        if step == self._noted:
            return
        if not await self._server.read("HEXISTS", keys.FILLING, step):
            infos = await self._server.infos()
            used = {name: int(info["used_memory"]) for name, info in infos.items()}
            largest = sorted(used, key=lambda name: used[name], reverse=True)[:_MOST_SERVERS]
            sample = msgspec.json.encode({name: used[name] for name in largest})
            await self._server.call("HSETNX", keys.FILLING, step, sample)
            await self._drop_old(step)
        self._noted = step

    async def history(self) -> dict[str, list[Sample]]:
        """By server, the oldest sample first. Read-only."""
        stored = pairs(await self._server.read("HGETALL", keys.FILLING))
        found: dict[str, list[Sample]] = {}
        for step, sample in sorted((int(step), sample) for step, sample in stored.items()):
            used: dict[str, int] = msgspec.json.decode(sample, type=dict[str, int])
            for name, used_bytes in used.items():
                found.setdefault(name, []).append(Sample(step * _STEP_MS, used_bytes))
        return found

    async def _drop_old(self, step: int) -> None:
        """And those from the future, from before the server's clock was set back."""
        steps = map(int, await self._server.read("HKEYS", keys.FILLING))
        old = [each for each in steps if not 0 <= step - each <= _KEPT_MS // _STEP_MS]
        if old:
            await self._server.call("HDEL", keys.FILLING, *old)


def full_in_ms(history: Sequence[Sample], now: Sample, most_bytes: int) -> float | None:
    """How long the room lasts at the rate of the last day or of the last week, whichever is sooner
    over; None if it does not grow, or lasts for more than a year. Pure."""
    found = []
    for stretch_ms in _STRETCHES_MS:
        since_ms = now.at_ms - stretch_ms
        rate = _growth([each for each in history if since_ms <= each.at_ms < now.at_ms] + [now])
        if rate:
            found.append(max(0, most_bytes - now.used_bytes) / rate)
    left_ms = min(found, default=_LONGEST_MS)
    return left_ms if left_ms < _LONGEST_MS else None


def _growth(samples: Sequence[Sample]) -> float | None:
    """The median of the slopes between any two (Theil and Sen), which no outlier moves: bytes a
    millisecond. None if there are too few samples, or it does not grow."""
    if len(samples) < _LEAST_SAMPLES:
        return None
    some = [samples[i * len(samples) // _MOST_SAMPLES] for i in range(_MOST_SAMPLES)]
    some = [*samples] if len(samples) <= _MOST_SAMPLES else [*some[:-1], samples[-1]]
    slopes = [
        (b.used_bytes - a.used_bytes) / (b.at_ms - a.at_ms)
        for a, b in combinations(some, 2)
        if b.at_ms > a.at_ms
    ]
    growing = sum(each > 0 for each in slopes)
    return median(slopes) if growing >= _LEAST_GROWING * len(slopes) else None
