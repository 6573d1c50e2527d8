"""Where schedules with a lane stand, and which of them a claim may start."""

from __future__ import annotations

from typing import Any

from scheduler.store import keys
from tests.scheduler.scene import Scene


async def set_lane(scene: Scene, lane: str = "a", **fields: int) -> None:
    """Its hash as settings leave it; `rate` (a second) brings what follows from it."""
    rate = fields.pop("rate", None)
    if rate:
        fields |= {"per": 1000, "interval": 1_000_000 // rate, "slack": 20_000}
    await scene.redis.hset(scene.base + keys.LANE + lane, mapping={"set": 1, **fields})
    await scene.redis.zadd(scene.base + keys.LANES, {lane: 0})


async def stands(scene: Scene, lane: str = "a") -> dict[str, Any]:
    """The sets that a lane's schedules stand in: how many; and when claims look at it."""
    redis, base = scene.redis, scene.base
    sets = ("waiting", "laned", "held", "lanes")
    found = {name: await redis.zcard(base + name) for name in sets}
    found["lane_waiting"] = await redis.zcard(base + keys.LANE_WAITING + lane)
    found["running"] = await redis.zcard(base + keys.LANE_RUNNING + lane)
    return {name: count for name, count in found.items() if count}


async def test_a_schedule_with_a_lane_goes_its_way(scene: Scene) -> None:
    made = await scene.create(lane="a")
    assert await stands(scene) == {"laned": 1, "lane_waiting": 1, "lanes": 1}
    invocation = await scene.claim_one()
    assert (invocation.schedule_id, invocation.lane) == (made, "a")
    assert (invocation.slot_us, invocation.slack_us, invocation.bounded) == (None, 0, False)
    assert await stands(scene) == {"laned": 1, "held": 1, "running": 1, "lanes": 1}
    assert await scene.claim() == []
