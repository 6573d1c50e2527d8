"""Schedules that are stored in the step that looks up the caller's API key."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.callers import KnownKey, Rate
from scheduler.errors import InsufficientCredits, OutcomeUnknown, QuotaExceeded
from scheduler.models import Plan, Request, Status
from scheduler.runtime.settings import Settings
from scheduler.store import keys
from scheduler.store.lifecycle.create.results import CreateResult
from tests.store.scene import CREDITS, URL, Scene

PER_SECOND = 10  # of the plan that the scene's account has
SMALL = Request(2**42, "POST", URL)


class Holder:
    """An account with an API key, and how its rate stood at each create."""

    def __init__(self, scene: Scene, account_id: str, key_id: str, key: KnownKey) -> None:
        self.scene, self.account_id, self.key_id, self.key = scene, account_id, key_id, key
        self.standings: list[Rate] = []

    @classmethod
    async def of(cls, scene: Scene, account_id: str | None = None) -> Holder:
        owner = account_id or scene.account_id
        api_keys = scene.store.api_keys
        made, value = await api_keys.create(owner, "key")
        assert api_keys.known(value) is None
        await api_keys.admit(value)
        key = api_keys.known(value)
        await scene.redis.delete(keys.account(owner) + keys.RATE)
        return cls(scene, owner, made.key_id, key)

    @property
    def stored(self) -> str:
        return keys.shard(self.key.shard) + keys.API_KEY + self.key.sha256

    async def create(self, request: Request = SMALL) -> CreateResult | None:
        now_ms = await self.scene.clock.now_ms()
        schedules = self.scene.store.schedules
        on_rate = self.standings.append
        return await schedules.create_by_key(self.key, request, None, now_ms, on_rate)

    async def deactivate(self) -> None:
        await self.scene.store.api_keys.deactivate(self.key_id)

    async def suspend(self) -> None:
        await self.scene.store.changes.suspend(self.account_id)

    async def damage(self) -> None:
        await self.scene.redis.hset(keys.account(self.account_id) + keys.ACCOUNT, "credits", "x")

    async def lose_the_plan(self) -> None:
        await self.scene.redis.hdel(keys.account(self.account_id) + keys.ACCOUNT, "plan")

    async def lose_the_key(self) -> None:
        await self.scene.redis.delete(self.stored)


@pytest.fixture
async def holder(scene: Scene) -> Holder:
    return await Holder.of(scene)


async def test_it_is_stored_paid_for_and_counted_as_a_request(holder: Holder) -> None:
    await holder.scene.redis.hset(holder.stored, "used", 1)
    created = await holder.create()
    [schedule_id] = created.schedule_ids
    assert (await holder.scene.get(schedule_id)).request == SMALL
    assert await holder.scene.credits() == CREDITS - 1
    assert holder.standings == [Rate(PER_SECOND, PER_SECOND - 1, 1, 0)]
    [key] = await holder.scene.store.api_keys.of_account(holder.account_id)
    assert (key.last_used_at_ms or 0) > 1


@pytest.mark.parametrize(
    "refusal",
    [Holder.deactivate, Holder.suspend, Holder.damage, Holder.lose_the_key, Holder.lose_the_plan],
)
async def test_a_refused_key_stores_nothing_and_is_not_counted(
    valkey_scene: Scene, refusal: Callable[[Holder], Awaitable[None]]
) -> None:
    holder = await Holder.of(valkey_scene)
    await refusal(holder)
    assert await holder.create() is None
    assert holder.standings == []
    base = keys.account(holder.account_id)
    assert not await holder.scene.redis.exists(base + keys.RATE, base + keys.WAITING)


async def test_beyond_the_rate_nothing_is_stored(fake_scene: Scene) -> None:
    holder = await Holder.of(fake_scene)
    done = await asyncio.gather(*(holder.create() for _ in range(PER_SECOND + 2)))
    assert [each is None for each in done] == [False] * PER_SECOND + [True] * 2
    assert [each.wait_s > 0 for each in holder.standings] == [False] * PER_SECOND + [True] * 2
    assert await fake_scene.credits() == CREDITS - PER_SECOND


async def test_where_no_credit_is_left_it_counts_and_tells_the_rate(fake_scene: Scene) -> None:
    holder = await Holder.of(fake_scene)
    await fake_scene.create_many(1, 2**42)
    account = keys.account(holder.account_id) + keys.ACCOUNT
    await fake_scene.redis.hset(account, mapping={"credits": 0, "spent": CREDITS + 1})
    for _ in range(2):
        with pytest.raises(InsufficientCredits):
            await holder.create()
    assert [each.remaining for each in holder.standings] == [PER_SECOND - 1, PER_SECOND - 2]


@pytest.mark.parametrize("between", [None, Holder.deactivate, Holder.suspend])
async def test_after_a_lost_reply_it_is_stored_once_and_counted_once(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    between: Callable[[Holder], Awaitable[None]] | None,
) -> None:
    """Whatever becomes of the key meanwhile: the first attempt did it, and took the credit."""
    holder = await Holder.of(scene)
    write, lost = scene.store.server.write, False

    async def lossy(*arguments: Any) -> Any:
        nonlocal lost
        reply = await write(*arguments)
        if lost:
            return reply
        lost = True
        if between is not None:
            await between(holder)
        raise OutcomeUnknown("The store's answer was lost")

    monkeypatch.setattr(scene.store.server, "write", lossy)
    created = await holder.create()
    assert await scene.status(created.schedule_ids[0]) == Status.SCHEDULED
    assert await scene.credits() == CREDITS - 1
    [standing] = holder.standings
    assert standing.remaining >= PER_SECOND - 1


async def test_a_damaged_neighbour_in_the_same_batch_costs_nothing(valkey_scene: Scene) -> None:
    [neighbour] = await valkey_scene.neighbours(1)
    sound, damaged = await Holder.of(valkey_scene), await Holder.of(valkey_scene, neighbour)
    await damaged.damage()
    done = await asyncio.gather(damaged.create(), sound.create())
    assert [each is None for each in done] == [True, False]


async def test_those_that_come_together_are_judged_one_by_one(scene: Scene) -> None:
    """Room is left for two long ones, and there are credits for four."""
    holder = await Holder.of(scene)
    base, long = keys.account(holder.account_id), replace(SMALL, body=b"a" * 10_000)
    used_bytes = Settings().stored_bytes[Plan.FREE] - 25_000
    account = {"credits": 4, "spent": CREDITS - 4, "bytes": used_bytes}
    await scene.redis.hset(base + keys.ACCOUNT, mapping=account)
    requests = [SMALL, long, long, long, SMALL, SMALL]
    done = await asyncio.gather(*map(holder.create, requests), return_exceptions=True)
    refused = [QuotaExceeded, CreateResult, InsufficientCredits]
    assert [type(each) for each in done] == [CreateResult] * 3 + refused
    assert [each.remaining for each in holder.standings] == [9, 8, 7, 6, 5, 4]
    assert await scene.redis.hget(base + keys.ACCOUNT, "credits") == b"0"
    assert await scene.redis.zcard(base + keys.WAITING) == 4
