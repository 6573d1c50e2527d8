"""Lanes without limits are claimed all at once, and the store then stands as after their turns."""

from __future__ import annotations

import random
from typing import Any

import pytest

from scheduler.models import Invocation
from scheduler.store import keys
from scheduler.store.verdict import Verdict
from tests.store.clocks import FakeClock
from tests.store.scene import LEASE_MS, Scene, ids_of

LANES = ("a", "b", "c", "d")


@pytest.fixture
def scene(fake_scene: Scene) -> Scene:
    return fake_scene


class Side:
    """One of two accounts with the same schedules; `turns`: each of its lanes has a state, which
    holds nothing back, but makes claims look at one lane after the other."""

    def __init__(self, scene: Scene, account_id: str, *, turns: bool) -> None:
        self.scene = scene
        self.account_id = account_id
        self.base = keys.account(account_id)
        self.turns = turns
        self.places: dict[str, int] = {}  # schedule -> its place among those made
        self.claimed: dict[int, Invocation] = {}

    async def create(self, due_in_ms: int, **fields: Any) -> None:
        made = await self.scene.create(due_in_ms, account_id=self.account_id, **fields)
        self.places[made] = len(self.places)

    async def claim(self, passed_over: str, **options: int) -> set[tuple[int, int, str | None]]:
        if self.turns:
            for lane in LANES:
                await self.scene.redis.hset(f"{self.base}{keys.LANE}{lane}", "gate", 0)
        found = await self.scene.claim(pass_over=[passed_over], **options)
        self.claimed |= {self.places[each.schedule_id]: each for each in found}
        return {(self.places[each.schedule_id], each.attempt, each.lane) for each in found}

    async def stands(self) -> dict[str, dict[Any, Any]]:
        """All that says where its schedules are, and when claims look at them."""
        shard, local = keys.parts(self.account_id)
        looks = await self.scene.redis.zscore(keys.shard(shard) + keys.HEADS, f"{local}/")
        found: dict[str, dict[Any, Any]] = {"looks": {"": looks and round(looks, 1)}}
        queues = (keys.LANE_QUEUE + lane for lane in LANES)
        for name in (keys.LANED, keys.HELD, keys.LANE_HEADS, *queues):
            rows = await self.scene.redis.zrange(self.base + name, 0, -1, withscores=True)
            # Turns of one claim differ by a microsecond each.
            named = ((member.decode(), round(score, 1)) for member, score in rows)
            found[name] = {self.places.get("sch_" + each, each): score for each, score in named}
        tried = await self.scene.redis.hgetall(self.base + keys.TRIED)
        found[keys.TRIED] = {self.places["sch_" + k.decode()]: v for k, v in tried.items()}
        return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
async def test_claims_leave_the_store_as_if_each_lane_had_had_its_turn(
    scene: Scene, fake_clock: FakeClock, seed: int
) -> None:
    chance = random.Random(seed)
    other = (await scene.neighbours(1, credits=1000))[0]
    await scene.store.accounts.grant(scene.account_id, 1000)
    sides = [Side(scene, scene.account_id, turns=False), Side(scene, other, turns=True)]
    for _ in range(20):
        # So near the next millisecond that a rounded moment would reach it.
        fake_clock.more_us = chance.choice((0, 300, 980))
        for _ in range(chance.randrange(4)):
            due_in_ms = chance.choice((-50, 0, 1, 20, 49, 50, 51, 400, LEASE_MS))
            fields: dict[str, Any] = {"lane": chance.choice(LANES)}
            if chance.random() < 0.1:
                fields["expires_at_ms"] = fake_clock.ms + due_in_ms + 30
            for side in sides:
                await side.create(due_in_ms, **fields)
        ahead_ms = chance.choice((0, 50))
        found = [
            await side.claim(sides[1 - n].account_id, ahead_ms=ahead_ms)
            for n, side in enumerate(sides)
        ]
        assert found[0] == found[1]
        for place in list(sides[0].claimed.keys() & sides[1].claimed.keys()):
            await _end_one(sides, place, chance.choice(("ack", "retry", "release", "", "")))
        stands = [await side.stands() for side in sides]
        assert stands[0] == stands[1]
        fake_clock.ms += chance.choice((0, 1, 25, 50, 400, LEASE_MS + 1))


async def test_lanes_whose_requests_do_not_fit_in_any_more_are_claimed_next(
    scene: Scene,
) -> None:
    accounts = [scene.account_id, *await scene.neighbours(1)]
    for account in accounts:
        for lane in ("a", "b"):
            await scene.create(account_id=account, lane=lane, body=b"x" * 1000)
    first, second = [await scene.batch(most_bytes=3000) for _ in range(2)]
    owners = [[each.account_id for each in batch.invocations] for batch in (first, second)]
    assert first.full
    assert sorted(owners) == [[account] * 2 for account in sorted(accounts)]


async def test_large_requests_of_another_account_keep_lanes_waiting_for_one_claim(
    scene: Scene, fake_clock: FakeClock
) -> None:
    other = (await scene.neighbours(1))[0]
    for _ in range(10):
        await scene.create(body=b"x" * 1000)
    fake_clock.ms += 1
    for lane in ("a", "b"):
        await scene.create(account_id=other, lane=lane, body=b"x" * 900)
    first, second = [await scene.batch(most_bytes=3000) for _ in range(2)]
    assert {each.account_id for each in first.invocations} == {scene.account_id}
    assert [each.account_id for each in second.invocations[:2]] == [other] * 2


@pytest.mark.parametrize("pauses", [False, True])
async def test_a_lane_that_is_set_while_others_of_its_account_run_is_not_passed_over(
    scene: Scene, fake_clock: FakeClock, pauses: bool
) -> None:
    made = {lane: [await scene.create(lane=lane) for _ in range(2)] for lane in ("a", "b")}
    running = await scene.claim(most=4)
    assert set(ids_of(running)) == {*made["a"], *made["b"]}
    await (scene.pause("a") if pauses else scene.limit("a", parallelism=1))
    await scene.create(lane="a")
    free = await scene.create(lane="b")
    assert ids_of(await scene.claim()) == [free], "two run already, or none may"
    assert await scene.ack(running) == [Verdict.DONE] * 4
    assert len(await scene.claim()) == (0 if pauses else 1)
    fake_clock.ms += LEASE_MS + 1
    assert await scene.store.check() == []


async def _end_one(sides: list[Side], place: int, how: str) -> None:
    for side in sides:
        held, scene = side.claimed[place], side.scene
        if how == "ack":
            await scene.ack([held])
        elif how == "retry":
            await scene.retry([held], 60)
        elif how == "release":
            await scene.release([held])
        if how:
            del side.claimed[place]
