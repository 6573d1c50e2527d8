"""Lanes as the store has them, made by hand: tests of who looks at them need no claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from scheduler.store import keys
from tests.store.scene import Scene


class Lane(NamedTuple):
    """A lane by hand: when its schedules are due and its leases end, and its head, from now (s);
    its settings, with `gate` (s) and `tat` (s) from now too."""

    due_s: tuple[float, ...] = ()
    ends_s: tuple[float, ...] = ()
    head_s: float = -1.0
    settings: Mapping[str, float] = {}

    async def make(self, scene: Scene, name: str) -> None:
        now_ms = await scene.clock.now_ms()
        for sign, moments_s in ((1, self.due_s), (-1, self.ends_s)):
            for n, moment_s in enumerate(moments_s):
                await scene.redis.zadd(
                    scene.base + keys.LANE_QUEUE + name,
                    {f"{sign}{n}": sign * (now_ms + 1000 * moment_s)},
                )
        fields = dict(self.settings)
        if "gate" in fields:
            fields["gate"] = now_ms + 1000 * fields["gate"]
        if "tat" in fields:
            fields["tat"] = 1000 * (now_ms + 1000 * fields["tat"])
        if fields:
            await scene.redis.hset(scene.base + keys.LANE + name, mapping=fields)
        await scene.redis.zadd(scene.base + keys.LANES, {name: 0})
        await scene.redis.zadd(scene.base + keys.LANE_HEADS, {name: now_ms + 1000 * self.head_s})
        local = keys.parts(scene.account_id).local
        await scene.redis.zadd(keys.shard(scene.shard) + keys.HEADS, {f"{local}/": now_ms - 1000})
