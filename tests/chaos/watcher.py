"""The customer of a run who waits for the end of each schedule, and sees its first moments."""

from __future__ import annotations

import asyncio
import json

from tests.chaos.clients import Client
from tests.chaos.history import now_ms

_AHEAD_MS = (50, 400)
_LOOKS_MOST = 120
_LOOK_AGAIN_S = 0.02


class Watcher(Client):
    """It creates one at a time, and reads it again and again until it has ended. The target of its
    callback is slow, so that reads see the callback while it is pending."""

    async def _something(self) -> None:
        asked = self._unretried(
            expires=False,
            behaviour="ok",
            trigger_at_ms=round(now_ms()) + self._random.randint(*_AHEAD_MS),
            timeout_s=None,
            lane=None,
            callback="slow",
            callback_on="executed",
        )
        body = json.dumps(self._payload(asked))
        created = await self._call("create", "POST", "/schedule", body=body, asked=[asked])
        for schedule_id in created.ids:
            await self._look_at(str(schedule_id))

    async def _look_at(self, schedule_id: str) -> None:
        for _ in range(_LOOKS_MOST):
            read = await self._call(
                "read", "GET", f"/schedule/{schedule_id}", schedule_id=schedule_id
            )
            if read.result != "ok" or (read.seen and read.seen.executed_at):
                return
            await asyncio.sleep(_LOOK_AGAIN_S)
