"""What keeps due schedules from starting: which cause is told, until when, and behind how many."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import pytest

from scheduler.lane_settings import HeldBy, LaneLimits
from scheduler.lanes import HoldCause
from scheduler.models import LogStatus
from scheduler.store import keys
from scheduler.store.queries.listing import Selection
from tests.store.clocks import FakeClock
from tests.store.scene import LEASE_MS, Scene, ids_of

NOW_US = 1_000_000_000_000
NOW_MS = NOW_US // 1000
PER_MS = 20_000
RATE = LaneLimits(rate=2, interval_us=10_000_000, burst=2, per_ms=PER_MS, tat_us=NOW_US + 5_000_000)


def of_rate(until_ms: int, ahead: int, rate: int | None = 2, per_ms: int = PER_MS) -> HeldBy:
    limit = {"most": rate, "per_ms": per_ms}
    return HeldBy(HoldCause.LANE_RATE, "a", until_ms, estimated=True, ahead=ahead, **limit)


@pytest.mark.parametrize(
    ("limits", "ahead", "running", "expected"),
    [
        (LaneLimits(), 5, 9, None),
        (LaneLimits(parallelism=2), 5, 1, None),
        (LaneLimits(parallelism=2), 5, 2, HeldBy(HoldCause.LANE_PARALLELISM, "a", ahead=5, most=2)),
        (LaneLimits(calm_until_ms=NOW_MS), 0, 0, None),
        (
            LaneLimits(calm_until_ms=NOW_MS + 1, parallelism=1),
            1,
            1,
            HeldBy(HoldCause.LANE_CALM, "a", NOW_MS + 1, ahead=1),
        ),
        (LaneLimits(paused_until_ms=NOW_MS), 0, 0, None),
        (
            LaneLimits(paused_until_ms=NOW_MS + 7, calm_until_ms=NOW_MS + 99),
            0,
            0,
            HeldBy(HoldCause.LANE_PAUSED, "a", NOW_MS + 7, ahead=0),
        ),
        (LaneLimits(paused_until_ms=math.inf), 3, 0, HeldBy(HoldCause.LANE_PAUSED, "a", ahead=3)),
        # With a burst of two one may start at once, though half of an interval is used.
        (RATE, 0, 0, None),
        (RATE, 1, 0, of_rate(NOW_MS + 5000, 1)),
        (RATE, 3, 0, of_rate(NOW_MS + 25_000, 3)),
        # The clock was set back: claims let at most one window count.
        (
            LaneLimits(interval_us=1e6, per_ms=1000, tat_us=9e12),
            0,
            0,
            of_rate(NOW_MS + 2000, 0, None, 1000),
        ),
    ],
)
def test_a_lane_holds_by_the_first_limit_that_is_reached(
    limits: LaneLimits, ahead: int, running: int, expected: HeldBy | None
) -> None:
    assert limits.holder("a", NOW_US, ahead, running, has_worker=True) == expected
    if expected is None or expected.cause is not HoldCause.LANE_PAUSED:
        stopped = limits.holder("a", NOW_US, ahead, running, has_worker=False)
        assert stopped == HeldBy(HoldCause.NO_WORKER)


async def held_by(scene: Scene, *schedule_ids: str) -> list[HeldBy | None]:
    some = [await scene.get(each) for each in schedule_ids]
    return [each.held_by for each in await scene.store.holders.told(scene.account_id, some)]


async def with_worker(scene: Scene) -> None:
    await scene.store.workers.beat("one", {"pid": 1})


async def test_the_widest_cause_that_somebody_has_to_end_is_told(scene: Scene) -> None:
    """Each of these steps adds a cause to all before it."""
    later_ms = await scene.clock.now_ms() + 3_600_000
    await scene.limit("a", rate=1, per_ms=86_400_000, parallelism=1)
    [first, second, plain] = [await scene.create(lane=lane) for lane in ("a", "a", None)]
    await with_worker(scene)
    assert await held_by(scene, first, plain) == [None, None]
    [rated] = await held_by(scene, second)
    assert rated is not None
    assert (rated.cause, rated.ahead, rated.estimated) == (HoldCause.LANE_RATE, 1, True)
    assert (rated.most, rated.per_ms) == (1, 86_400_000)

    async def calm() -> None:
        await scene.redis.hset(scene.base + keys.LANE + "a", "calm", later_ms)

    async def lose_workers() -> None:
        await scene.store.workers.leave("one")

    async def suspend() -> None:
        await scene.store.changes.suspend(scene.account_id)

    async def claim() -> None:
        assert {each.schedule_id for each in await scene.claim()} == {first, plain}

    steps: list[tuple[Callable[[], Awaitable[object]], HeldBy]] = [
        (claim, HeldBy(HoldCause.LANE_PARALLELISM, "a", ahead=0, most=1)),
        (calm, HeldBy(HoldCause.LANE_CALM, "a", later_ms, ahead=0)),
        (lose_workers, HeldBy(HoldCause.NO_WORKER)),
        (lambda: scene.pause("a", later_ms), HeldBy(HoldCause.LANE_PAUSED, "a", later_ms, ahead=0)),
        (lambda: scene.pause("a"), HeldBy(HoldCause.LANE_PAUSED, "a", ahead=0)),
        (
            lambda: scene.pause(until_ms=later_ms),
            HeldBy(HoldCause.ACCOUNT_PAUSED, until_ms=later_ms),
        ),
        (scene.pause, HeldBy(HoldCause.ACCOUNT_PAUSED)),
        (suspend, HeldBy(HoldCause.ACCOUNT_SUSPENDED)),
        (scene.store.hold.begin, HeldBy(HoldCause.SERVICE_HOLD)),
    ]
    for act, expected in steps:
        await act()
        assert await held_by(scene, second) == [expected]
        # A worker has the one, and the other is not due.
        assert await held_by(scene, first, await scene.create(60_000, lane="a")) == [None, None]


async def test_a_pause_that_has_ended_by_itself_holds_nothing(scene: Scene) -> None:
    await with_worker(scene)
    made = [await scene.create(lane="a"), await scene.create()]
    for lane in ("a", None):
        await scene.pause(lane, await scene.clock.now_ms() + 50)
    await scene.clock.pass_ms(60)
    assert await held_by(scene, *made) == [None, None]


async def test_what_lost_workers_had_is_held_once_its_lease_has_ended(scene: Scene) -> None:
    await with_worker(scene)
    due_ms = await scene.clock.now_ms() - 1000
    made = [await scene.create_at(due_ms - n, lane="a") for n in range(3)]
    assert len(await scene.claim(lease_ms=LEASE_MS, most=1)) == 1
    assert len(await scene.claim(lease_ms=5, most=1)) == 1
    await scene.clock.pass_ms(6)
    assert await held_by(scene, *made) == [None] * 3
    await scene.pause("a")
    found = await held_by(scene, *made)
    # The oldest is under way, and the lease of the next has ended.
    assert [each and each.ahead for each in found] == [1, 0, None]
    await scene.resume("a")
    await scene.store.workers.leave("one")
    stopped = HeldBy(HoldCause.NO_WORKER)
    assert await held_by(scene, *made) == [stopped, stopped, None]


async def test_an_estimate_of_a_rate_is_when_the_schedule_then_starts(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    scene, lease_ms = fake_scene, 3_600_000
    await with_worker(scene)
    await scene.limit("a", rate=6, per_ms=60_000, burst=2)
    made = [await scene.create(-1000 + n, lane="a") for n in range(5)]
    told = [each and each.until_ms for each in await held_by(scene, *made)]
    assert told[:2] == [None, None]
    for schedule_id, until_ms in zip(made, told, strict=True):
        if until_ms is not None:
            fake_clock.ms = until_ms - 2  # parts of a millisecond round up
            assert await scene.claim(lease_ms=lease_ms) == []
            fake_clock.ms = until_ms
        assert [each.schedule_id for each in await scene.claim(lease_ms=lease_ms, most=1)] == [
            schedule_id
        ]


async def test_a_filter_finds_what_is_held_and_what_is_not(scene: Scene) -> None:
    await with_worker(scene)
    await scene.pause("shut")
    stuck = [await scene.create(-900 + n, lane="shut", reference=f"r{n}") for n in range(3)]
    others = [
        await scene.create(-800, lane="open"),
        await scene.create(60_000, lane="shut"),
        await scene.create(-700),
    ]
    unended = scene.store.unended
    for limit in (1, 2, 50):
        for selected in ({}, {"lane": "shut"}):
            found = await scene.listed(unended, held=True, limit=limit, **selected)
            assert ids_of(found) == stuck
        assert {each.held_by.cause for each in found if each.held_by} == {HoldCause.LANE_PAUSED}
        backwards = await scene.listed(unended, held=True, limit=limit, descending=True)
        assert ids_of(backwards) == stuck[::-1]
        rest = await scene.listed(unended, held=False, limit=limit)
        assert set(ids_of(rest)) == set(others)
        of_log = await scene.log(held=True, statuses=[LogStatus.SCHEDULED], limit=limit)
        assert [each.schedule_id for each in of_log] == stuck[::-1]
    referred = await scene.listed(unended, held=True, reference="r*")
    assert ids_of(referred) == stuck
    assert await scene.listed(unended, held=True, reference="r1", to_ms=1) == []
    done = await scene.store.canceller.waiting(scene.account_id, Selection(held=True))
    assert [each.schedule_id for each in done.each] == stuck
    assert await scene.listed(unended, held=True) == []


@pytest.mark.harmed
async def test_of_what_is_damaged_nothing_is_told(scene: Scene) -> None:
    await with_worker(scene)
    await scene.pause("b")
    [first, second] = [await scene.create(lane=lane) for lane in ("a", "b")]
    await scene.spoil(scene.base + keys.LANE + "a")
    found = await held_by(scene, first, second)
    assert [each and each.cause for each in found] == [None, HoldCause.LANE_PAUSED]
    await scene.store.workers.leave("one")
    await scene.spoil(keys.WORKERS)
    assert await held_by(scene, first, second) == found
    await scene.spoil(scene.base + keys.ACCOUNT)
    assert await held_by(scene, first, second) == found
