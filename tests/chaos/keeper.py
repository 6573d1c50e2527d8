"""The calls that set an account's lanes, change and pause them. One client alone makes them, one
after the other, so that their order is known."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.chaos.history import Limits, iso, now_ms

_RATED, _SINGLE, _BOTH = LANES = ("rated", "single", "both")
# A queue of the QStash door, whose client sets its parallelism, and its lane.
QUEUE = "letters"
QUEUE_LANE = f"queue:{QUEUE}"
_RATES, _BURSTS = (2, 4), (1, 2)
_PARALLEL = (1, 2)
# Every pause ends by itself, so that none outlasts the run.
_PAUSED_MS = (1500, 5000)
_ACCOUNT = 0.1
_PAUSES, _RESUMES = 0.3, 0.2


class Keeper:
    """Its calls, as arguments of a client's call."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def begin(self) -> list[dict[str, Any]]:
        return [_call("PUT", self._limits(lane)) for lane in LANES]

    def change(self) -> dict[str, Any]:
        """New limits of a lane; a pause of a lane or of the account, or its end."""
        random, chance = self._random, self._random.random()
        account = random.random() < _ACCOUNT
        lane = "" if account else random.choice(LANES)
        if chance < _PAUSES:
            until_ms = round(now_ms()) + random.randint(*_PAUSED_MS)
            return _call("PATCH", Limits(lane, paused_until_ms=until_ms))
        if account or chance < _PAUSES + _RESUMES:
            return _call("PATCH", Limits(lane, resumed=True))
        return _call(random.choice(("PUT", "PATCH")), self._limits(lane))

    def _limits(self, lane: str) -> Limits:
        random = self._random
        if lane == _RATED:
            return Limits(lane, rate=random.choice(_RATES), burst=random.choice(_BURSTS))
        if lane == _SINGLE:
            return Limits(lane, parallelism=random.choice(_PARALLEL))
        return Limits(lane, rate=max(_RATES), burst=max(_BURSTS), parallelism=max(_PARALLEL))


def _call(method: str, limits: Limits) -> dict[str, Any]:
    path = f"/lanes/{limits.lane}" if limits.lane else "/account"
    return {"method": method, "path": path, "body": json.dumps(_body(limits)), "limits": limits}


def _body(limits: Limits) -> dict[str, Any]:
    if limits.resumed:
        return {"paused": False}
    if limits.paused_until_ms is not None:
        return {"paused": True, "pausedUntil": iso(limits.paused_until_ms)}
    rated = {"rate": limits.rate, "per": "1s", "burst": limits.burst} if limits.rate else {}
    return {**rated, **({"parallelism": limits.parallelism} if limits.parallelism else {})}
