"""The customer of a run who keeps lanes busy with long requests, so that a worker that is killed
has some under way."""

from __future__ import annotations

import asyncio
import json

from tests.chaos.clients import Client
from tests.chaos.history import Asked, now_ms
from tests.chaos.keeper import LANES

_EACH_S = 1.0
# In each of the lanes: as many as its rate allows, or more than its parallelism has places for.
_IN_EACH = dict(zip(LANES, (4, 0.5, 0.8), strict=True))
# What a lane has no room for ends unsent, after so long.
_EXPIRE_MS = 15_000
_AT_MOST_ONCE = 0.2


class LaneClient(Client):
    """It creates some for each lane each second."""

    async def _something(self) -> None:
        chance = self._random.random()
        counts = {lane: int(count + chance) for lane, count in _IN_EACH.items()}
        asked = [self._long(lane) for lane, count in counts.items() for _ in range(count)]
        body = json.dumps({"schedules": [self._payload(each) for each in asked]})
        await self._call("batch", "POST", "/schedule/batch", body=body, asked=asked)
        await asyncio.sleep(_EACH_S)

    def _long(self, lane: str) -> Asked:
        trigger_at_ms = round(now_ms())
        return self._unretried(
            behaviour="long",
            trigger_at_ms=trigger_at_ms,
            delivery="at-most-once" if self._random.random() < _AT_MOST_ONCE else "at-least-once",
            expires_at_ms=trigger_at_ms + _EXPIRE_MS,
            timeout_s=None,
            lane=lane,
        )
