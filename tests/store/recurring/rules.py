"""The verbs of recurring schedules in short, for tests of their store."""

from __future__ import annotations

import time
from typing import Any

from msgspec.structs import replace

from scheduler import ids
from scheduler.models import Invocation, Request
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft, Rule
from scheduler.store import keys
from scheduler.store.queries.listing import Selection
from tests.store.clocks import FakeClock
from tests.store.scene import URL, Scene

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
HOURLY = Timing(cron="0 * * * *")
_FROM_TOMORROW = replace(HOURLY, starts_at_ms=int(time.time() * 1000) + DAY_MS)
ALL = Selection(limit=100)


def draft(timing: Timing = HOURLY, name: str | None = None, **fields: Any) -> Draft:
    return Draft(Request(0, "POST", URL, **fields), timing, name)


class Rules:
    """Of one account."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.recurring = scene.store.recurring
        # A test on a real server may run as an hour begins.
        self.timing = HOURLY if isinstance(scene.clock, FakeClock) else _FROM_TOMORROW

    async def create(self, timing: Timing | None = None, **fields: Any) -> Rule:
        asked = draft(timing or self.timing, **fields)
        return (await self.recurring.create(self.scene.account_id, asked)).rule

    async def change(self, rule: Rule, **fields: Any) -> Rule:
        """Timing and name, or else fields of the request."""

        def changed(now: Rule) -> Draft:
            timing, name = fields.pop("timing", now.timing), fields.pop("name", now.name)
            return Draft(replace(now.request, **fields), timing, name)

        return await self.recurring.change(self.scene.account_id, rule.recurring_id, changed)

    async def read(self, rule: Rule) -> Rule:
        return await self.recurring.read(self.scene.account_id, rule.recurring_id)

    def key(self, rule: Rule) -> str:
        return self.scene.base + keys.RULE + ids.local(rule.recurring_id)

    async def stored(self) -> list[bytes]:
        """The keys of rules that are there."""
        found = await self.scene.redis.keys(self.scene.base + "rule*")
        return [each for each in found if not each.endswith(keys.RULES_DELETED.encode())]

    async def take_credits(self, left: int) -> None:
        spend, account = await self.scene.credits() - left, self.scene.base + keys.ACCOUNT
        await self.scene.redis.hincrby(account, "credits", -spend)
        await self.scene.redis.hincrby(account, "granted", -spend)

    async def waiting(self) -> list[tuple[int | None, int]]:
        """Slots of the schedules that have not ended, and when these are due."""
        page = await self.scene.store.unended.page(self.scene.account_id, ALL)
        return [(slot_of(each.request), each.request.trigger_at_ms) for each in page.schedules]

    async def to(self, at_ms: int) -> None:
        await self.scene.clock.pass_ms(at_ms - await self.scene.clock.now_ms())
        await self.scene.store.tick()

    async def fire(self) -> list[Invocation]:
        """As a worker does: claimed, advanced, sent and acked."""
        held = await self.scene.claim()
        await self.recurring.advance(held)
        await self.scene.ack(held)
        return held

    async def due(self) -> dict[bytes, float]:
        key = keys.shard(self.scene.shard) + keys.RULES_DUE
        return dict(await self.scene.redis.zrange(key, 0, -1, withscores=True))

    async def tend(self) -> int:
        await self.scene.store.tick()
        return await self.recurring.tend_due(self.scene.shard)


def slot_of(request: Request) -> int | None:
    return request.recurring.slot_ms if request.recurring else None
