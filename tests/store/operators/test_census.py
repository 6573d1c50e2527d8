"""The operators' overview of the store, and its cost."""

from __future__ import annotations

import math

import pytest

from scheduler.lane_settings import Pause
from scheduler.models import Request
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.store import keys
from scheduler.store.operators.census import WINDOW_MS
from tests.store.clocks import FakeClock
from tests.store.lanes.lanes import Lane
from tests.store.scene import FAILED, URL, Scene


async def test_what_is_due_and_what_comes_and_what_a_worker_holds(fake_scene: Scene) -> None:
    for due_in_ms in (-5_000, -2_000, 1, WINDOW_MS - 1, WINDOW_MS + 1, 6 * WINDOW_MS + 1):
        await fake_scene.create(due_in_ms)
    figures = await fake_scene.store.census.look()
    due = figures.due[fake_scene.shard]
    assert (due.overdue, due.coming) == (2, [2, 1, 0, 0, 0, 0])
    assert due.oldest_ms == pytest.approx(5_000, abs=1)
    assert figures.counted[fake_scene.shard][:2] == [6, 0]
    assert len(await fake_scene.claim()) == 2
    figures = await fake_scene.store.census.look()
    due = figures.due[fake_scene.shard]
    assert (due.overdue, due.oldest_ms, due.coming) == (0, 0.0, [2, 1, 0, 0, 0, 0])
    assert figures.counted[fake_scene.shard][:2] == [4, 2]


async def test_a_ledger_that_does_not_balance_is_counted(scene: Scene) -> None:
    await scene.create(1_000)
    assert (await scene.store.census.look()).counted[scene.shard][2:6] == [1, 0, 99, 1]
    await scene.redis.hincrby(scene.base + keys.ACCOUNT, "credits", 1)
    assert (await scene.store.census.look()).counted[scene.shard][2:6] == [1, 1, 100, 1]


EACH_SECOND = {"rate": 1, "interval": 1_000_000, "burst": 1}
AGO_9 = (-9.0,) * 9


@pytest.mark.parametrize(
    ("lane", "overdue", "oldest_s", "coming"),
    [
        (Lane((-9, -4, 10)), 2, 9, [1, 0]),
        (Lane((-9, -4, 10), settings={"gate": -3}), 2, 3, [1, 0]),
        (Lane((), ends_s=(-2, 5)), 1, 0, [0, 0]),
        # One may have started each second since its last one was paid for.
        (Lane(AGO_9, settings=EACH_SECOND | {"tat": -2.5}), 3, 2.5, [6, 0]),
        (Lane(AGO_9, settings=EACH_SECOND | {"tat": 0.5}), 0, 0, [9, 0]),
        (Lane(AGO_9, settings=EACH_SECOND | {"tat": 0.5, "burst": 3}), 2, 1.5, [7, 0]),
        (Lane(5 * AGO_9, settings=EACH_SECOND | {"tat": 0.5}), 0, 0, [30, 15]),
        (Lane(AGO_9, ends_s=(5, 5), settings={"parallelism": 3}), 1, 9, [8, 0]),
        (Lane(AGO_9, ends_s=(5, 5), settings={"parallelism": 2}), 0, 0, [9, 0]),
        (Lane(AGO_9, head_s=40), 0, 0, [0, 9]),
        (Lane(AGO_9, head_s=0), 9, 9, [0, 0]),
        (Lane(AGO_9, head_s=-math.inf), 0, 0, [0, 0]),
    ],
)
async def test_in_a_lane_only_what_it_lets_start_is_overdue(
    fake_scene: Scene, lane: Lane, overdue: int, oldest_s: float, coming: list[int]
) -> None:
    await lane.make(fake_scene, "lane")
    due = (await fake_scene.store.census.look()).due[fake_scene.shard]
    assert (due.overdue, due.coming) == (overdue, coming + [0] * 4)
    assert due.oldest_ms == pytest.approx(1000 * oldest_s, abs=2)


async def test_lateness_counts_from_the_end_of_a_pause(fake_scene: Scene) -> None:
    """Of a whole account."""
    await fake_scene.create(-9000)
    local, now_ms = keys.parts(fake_scene.account_id).local, await fake_scene.clock.now_ms()
    await fake_scene.redis.zadd(keys.shard(fake_scene.shard) + keys.RESUMED, {local: now_ms - 4000})
    due = (await fake_scene.store.census.look()).due[fake_scene.shard]
    assert (due.overdue, due.oldest_ms) == (1, pytest.approx(4000, abs=2))


async def test_the_lanes_of_an_account_beyond_those_looked_at_are_estimated(
    fake_scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.store.operators.census._MOST_LANES", 2)
    for n in range(5):
        await Lane((-9, 10)).make(fake_scene, f"lane{n}")
    due = (await fake_scene.store.census.look()).due[fake_scene.shard]
    assert (due.overdue, due.coming[0]) == (5, 5)


async def test_lanes_are_counted_by_when_a_claim_looks_at_them(fake_scene: Scene) -> None:
    for n, head_s in enumerate((-1, 5, 9, -math.inf)):
        await Lane((-1.0,), head_s=head_s).make(fake_scene, f"lane{n}")
    await fake_scene.redis.zadd(fake_scene.base + keys.LANES, {"idle": 0})
    figures = await fake_scene.store.census.look()
    assert figures.counted[fake_scene.shard][6:10] == [1, 1, 2, 1]


async def test_pending_callbacks_are_counted_and_accounts_of_which_some_failed(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    async def counted() -> list[int]:
        figures = await fake_scene.store.census.look()
        return list(figures.counted[fake_scene.shard][10:12])

    await fake_scene.ended(2)
    assert await counted() == [2, 0]
    first, second = [await fake_scene.claim_one(most=1) for _ in range(2)]
    assert await counted() == [2, 0], "that a worker holds one is no failure"
    await fake_scene.answer(first, FAILED, 10_000)
    assert await counted() == [2, 1]
    await fake_scene.answer(second)
    assert await counted() == [1, 1]
    fake_clock.ms += 10_000
    await fake_scene.answer(await fake_scene.claim_one(), FAILED)
    assert await counted() == [0, 0]


async def test_recurring_schedules_are_counted_by_state_and_those_that_nobody_tends(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    scene, recurring, account_id = fake_scene, fake_scene.store.recurring, fake_scene.account_id

    async def counted() -> tuple[list[int], int]:
        figures = await scene.store.census.look()
        return list(figures.counted[scene.shard][12:]), figures.due[scene.shard].untended

    async def create(timing: Timing) -> str:
        draft = Draft(Request(0, "POST", URL), timing)
        return (await recurring.create(account_id, draft)).rule.recurring_id

    hourly = [await create(Timing(cron="0 * * * *")) for _ in range(3)]
    now_ms = await scene.clock.now_ms()
    once = await create(Timing(cron="0 * * * *", ends_at_ms=now_ms + 3_600_000))
    assert await counted() == ([4, 0, 0, 0], 0)
    await recurring.pause(account_id, hourly[0], Pause("us"))
    assert await counted() == ([3, 1, 0, 0], 0)
    await scene.redis.hset(scene.base + keys.ACCOUNT, "credits", 0)
    fake_clock.ms += 3_600_000
    await scene.store.tick()
    await recurring.advance(await scene.claim())
    assert await counted() == ([0, 1, 2, 1], 0)
    await recurring.delete(account_id, once)
    await scene.redis.hset(scene.base + keys.ACCOUNT, "credits", 10)
    fake_clock.ms += 3_600_000 - 5_000 + 9_000  # a blocked one is tried ahead of its time
    assert await counted() == ([0, 1, 2, 0], 0)
    fake_clock.ms += 2_000
    assert (await counted())[1] == 2
    await scene.store.tick()
    assert await recurring.tend_due(scene.shard) == 2
    assert await counted() == ([2, 1, 0, 0], 0)
    assert recurring.missed == 2
    await recurring.resume(account_id, hourly[0])
    await recurring.delete(account_id, hourly[1])
    assert await counted() == ([2, 0, 0, 0], 0)
