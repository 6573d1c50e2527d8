"""What a claim takes from lanes: places, order, calm, pauses, turns, and what can only end."""

from __future__ import annotations

import random

import pytest

from scheduler.errors import TooManyLanes
from scheduler.events import Kind
from scheduler.lanes import MOST_LANES
from scheduler.models import Delivery, Invocation, Request
from scheduler.store import keys
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.verdict import Verdict
from tests.store.clocks import FakeClock
from tests.store.scene import FAILED, LEASE_MS, URL, Scene, ids_of

SECOND_MS, HOUR_MS, DAY_MS = 1000, 3_600_000, 86_400_000


async def calm(scene: Scene, held: Invocation, until_ms: int) -> None:
    ack = Ack(held, FAILED, 0, calm_until_ms=until_ms)
    assert await scene.store.ends.ack(scene.shard, [ack]) == [Verdict.DONE]


@pytest.mark.usefixtures("checks_at_once")
async def test_as_many_run_as_places_and_each_end_gives_its_place_back(scene: Scene) -> None:
    await scene.limit(parallelism=2)
    made = [await scene.create(-1000 + n, lane="a") for n in range(6)]
    first, second = await scene.claim()
    assert (ids_of([first, second]), first.bounded) == (made[:2], True)
    assert await scene.claim() == []
    assert await scene.ack([first]) == [Verdict.DONE]
    third = await scene.claim_one()
    assert third.schedule_id == made[2]
    assert await scene.retry([second], HOUR_MS) == [Verdict.DONE]
    fourth = await scene.claim_one()
    await scene.release([third])
    assert ids_of(await scene.claim()) == [made[2]], "the one given back is due first"
    assert await scene.claim() == []
    assert fourth.schedule_id == made[3]
    await scene.limit(parallelism=3)
    assert ids_of(await scene.claim()) == [made[4]]
    await scene.limit()
    assert ids_of(await scene.claim()) == [made[5]]


async def test_a_lost_worker_gives_its_places_back_when_its_leases_end(fake_scene: Scene) -> None:
    scene = fake_scene
    await scene.limit(parallelism=2)
    made = [await scene.create(-1000 + n, lane="a") for n in range(4)]
    first, second = await scene.claim(lease_ms=LEASE_MS)
    ends_ms = int(first.token) / 1000
    assert (await scene.look()).next_look_ms == ends_ms
    await scene.clock.pass_ms(5000)
    assert await scene.extend(LEASE_MS, [second]) == []
    await scene.clock.pass_ms(LEASE_MS - 4000)
    [again] = await scene.claim()
    assert (again.schedule_id, again.attempt, again.taken_over) == (made[0], 2, True)
    assert await scene.claim() == [], "one place is the extended lease's"
    assert await scene.ack([again, second]) == [Verdict.DONE] * 2
    assert await scene.ack([first]) == [Verdict.ENDED]
    assert ids_of(await scene.claim()) == made[2:]
    assert await scene.store.check() == []


@pytest.mark.parametrize("is_lost", [False, True])
async def test_what_can_only_end_takes_no_place_and_is_found_after_a_lost_worker(
    fake_scene: Scene, fake_clock: FakeClock, is_lost: bool
) -> None:
    """Expired ones, and an at-most-once one of a lost worker: beside a lane that is full."""
    scene, now_ms = fake_scene, fake_clock.ms
    await scene.limit(parallelism=1, rate=1, per_ms=HOUR_MS)
    once = await scene.create(-3000, lane="a", delivery=Delivery.AT_MOST_ONCE)
    assert (await scene.claim_one()).schedule_id == once
    expired = await scene.create(-2000, lane="a", expires_at_ms=now_ms + 10_000)
    later = await scene.create(-1000, lane="a")
    fake_clock.ms += LEASE_MS + 1
    found = await scene.claim()
    assert ids_of(found) == [once, expired]
    assert [each.taken_over for each in found] == [True, False]
    assert (found[1].slot_us, found[1].slack_us) == ((now_ms + 10_001) * 1000, 0)
    assert (await scene.store.lanes.read(scene.account_id, "a")).running == 0
    assert await scene.claim() == []
    if is_lost:  # they wait their turn again, by the end of that lease
        await scene.cancel(later)
    else:
        assert await scene.ack(found, FAILED) == [Verdict.DONE] * 2
    fake_clock.ms = now_ms + HOUR_MS + SECOND_MS
    assert set(ids_of(await scene.claim())) == ({once, expired} if is_lost else {later})
    assert await scene.claim() == []


async def test_in_a_lane_without_limits_only_what_can_just_end_has_a_slot(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    scene, ends_ms = fake_scene, fake_clock.ms + 10
    made = [
        await scene.create(n - 10, lane="a", expires_at_ms=expires_ms)
        for n, expires_ms in enumerate((None, ends_ms, None))
    ]
    fake_clock.ms += 11
    found = await scene.claim()
    assert ids_of(found) == made
    starts_us = [each.slot_us or 0 for each in found]
    assert starts_us[1] == (ends_ms + 1) * 1000
    assert starts_us[0] <= fake_clock.us >= starts_us[2]


async def test_a_claim_with_little_room_leaves_other_lanes_their_turn(fake_scene: Scene) -> None:
    for lane in ("a", "b", "c") * 2:
        await fake_scene.create(lane=lane)
    claimed = list[Invocation]()
    for _ in range(7):
        claimed += await fake_scene.claim(most=1)
        fake_scene.clock.ms += 1
    assert [each.lane for each in claimed] == ["a", "b", "c"] * 2


async def test_one_claim_ends_many_that_expired_before_the_lane_goes_on(fake_scene: Scene) -> None:
    scene, ends_ms = fake_scene, fake_scene.clock.ms + 100
    await scene.limit(rate=1, per_ms=SECOND_MS)
    await scene.create(-3000, lane="a")
    assert await scene.ack(await scene.claim()) == [Verdict.DONE]
    made = [await scene.create(n - 2000, lane="a", expires_at_ms=ends_ms) for n in range(90)]
    goes_on = await scene.create(lane="a")
    scene.clock.ms += SECOND_MS
    assert ids_of(await scene.claim()) == [*made, goes_on]


@pytest.mark.parametrize("burst", [1, 3])
async def test_a_lane_goes_out_in_order_of_due_time_whatever_came_first(
    fake_scene: Scene, fake_clock: FakeClock, burst: int
) -> None:
    scene, chance = fake_scene, random.Random(burst)
    await scene.limit(rate=10, per_ms=1000, burst=burst)
    await scene.pause("a")
    dues = chance.sample(range(-500, 0), 30)
    made = {await scene.create(due, lane="a"): due for due in dues}
    assert (await scene.look()).next_look_ms is None
    assert await scene.claim() == []
    await scene.resume("a")
    resumed_us, order = fake_clock.ms * 1000, list[Invocation]()
    for _ in range(60):
        order += await scene.claim(ahead_ms=50, most=7)
        fake_clock.ms += 50
    assert [made[each.schedule_id] for each in order] == sorted(dues)
    slots = [each.slot_us or 0 for each in order]
    assert slots[0] == resumed_us, "lateness counts from the end of the pause"
    apart = {late - early for early, late in zip(slots[burst - 1 :], slots[burst:], strict=False)}
    assert all(90_000 <= each <= 110_000 for each in apart)


@pytest.mark.parametrize(
    ("rate", "per_ms", "waits_ms"),
    [
        (1000, DAY_MS, 86_400),  # not the day that the first start took by the rate before
        (1000, SECOND_MS, 1),
        (2, DAY_MS, DAY_MS // 2),
        (1, 7_200_000, 7_200_000),
    ],
)
async def test_another_rate_holds_from_the_next_claim_on(
    fake_scene: Scene, fake_clock: FakeClock, rate: int, per_ms: int, waits_ms: int
) -> None:
    scene, daily = fake_scene, {"rate": 1, "per_ms": DAY_MS}

    async def assert_waits(wait_ms: int, within_ms: int = 2) -> None:
        assert await scene.claim() == []
        look_ms = await scene.redis.zscore(scene.base + keys.LANE_HEADS, "a")
        assert look_ms == pytest.approx(fake_clock.ms + wait_ms, rel=0, abs=within_ms)

    await scene.limit(**daily)
    for _ in range(3):
        await scene.create(lane="a")
    await scene.ack([await scene.claim_one()])
    await scene.limit(rate=rate, per_ms=per_ms)
    await assert_waits(waits_ms)
    for limits in (daily, {"rate": 100, "per_ms": DAY_MS, "burst": 5}, daily):
        await scene.limit(**limits)
    await assert_waits(DAY_MS, 90_000)  # the store keeps whole microseconds
    fake_clock.ms += DAY_MS + 2 * SECOND_MS
    await scene.limit(rate=1000, per_ms=SECOND_MS)
    await scene.ack([await scene.claim_one(most=1)])
    await scene.limit()
    await scene.limit(**daily)
    assert len(await scene.claim()) == 1, "a lane without a rate pays for nothing"


async def test_a_calm_lane_starts_nothing_and_the_latest_moment_holds(fake_scene: Scene) -> None:
    scene, now_ms = fake_scene, fake_scene.clock.ms
    first, second = [await scene.create(-10, lane="a") for _ in range(2)]
    other, plain = await scene.create(lane="b"), await scene.create()
    held = {each.schedule_id: each for each in await scene.claim()}
    await calm(scene, held[first], now_ms + 9 * SECOND_MS)
    await calm(scene, held[second], now_ms + 4 * SECOND_MS)
    assert await scene.ack([held[other], held[plain]]) == [Verdict.DONE] * 2
    waits = await scene.create(lane="a")
    free = await scene.create(lane="b")
    assert ids_of(await scene.claim()) == [free]
    scene.clock.ms = now_ms + 9 * SECOND_MS - 51
    assert await scene.claim(ahead_ms=50) == []
    scene.clock.ms += 1
    [started] = await scene.claim(ahead_ms=50)
    assert (started.schedule_id, started.slot_us) == (waits, (now_ms + 9 * SECOND_MS) * 1000)


async def test_that_a_lane_begins_to_be_calm_is_an_event_once_a_minute_at_most(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    scene, began_ms = fake_scene, fake_clock.ms
    for _ in range(3):
        await calm(scene, await scene.held(lane="a"), fake_clock.ms + 10 * SECOND_MS)
        fake_clock.ms += 31 * SECOND_MS
    events = (await scene.store.events.newest(scene.account_id))[::-1]
    assert [(each.kind, each.about) for each in events] == [(Kind.LANE_CALM, "a")] * 2
    ends = [began_ms + 10 * SECOND_MS, began_ms + 72 * SECOND_MS]
    assert [each.until_ms for each in events] == ends
    await scene.redis.set(scene.base + keys.EVENTS, "a foreign value")
    fake_clock.ms += 120 * SECOND_MS
    held = await scene.held(lane="a")
    assert await scene.ack([held]) == [Verdict.DONE]


async def test_no_calm_lasts_longer_than_an_hour_and_a_lane_of_none_other_is_forgotten(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    scene = fake_scene
    await calm(scene, await scene.held(lane="a"), fake_clock.ms + 48 * HOUR_MS)
    later = await scene.create(lane="a")
    fake_clock.ms += HOUR_MS
    assert ids_of(await scene.claim()) == [later]
    assert await scene.ack([await scene.held(lane="b")]) == [Verdict.DONE]
    fake_clock.ms += 2 * LEASE_MS
    [again] = await scene.claim()
    await scene.ack([again])
    fake_clock.ms += 2 * LEASE_MS
    assert await scene.claim() == []
    names = await scene.redis.keys(scene.base + "lane*")
    assert names == [], "nothing is left of lanes that nobody set"


async def test_a_clock_that_jumps_ahead_and_back_blocks_a_lane_for_a_window_at_most(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    scene = fake_scene
    await scene.limit(rate=1, per_ms=1000)
    made = [await scene.create_at(1 + n, lane="a") for n in range(4)]
    fake_clock.ms += 48 * HOUR_MS
    [first] = await scene.claim()
    assert await scene.ack([first]) == [Verdict.DONE]
    fake_clock.ms -= 48 * HOUR_MS
    await scene.store.claims.realign(scene.shard)
    order = list[str]()
    for _ in range(10):
        order += ids_of(await scene.claim())
        fake_clock.ms += 500
    assert order[:2] == made[1:3]


async def test_pauses_end_by_themselves_and_a_suspension_outlasts_them(fake_scene: Scene) -> None:
    scene, now_ms = fake_scene, fake_scene.clock.ms
    laned, plain = await scene.create(lane="a"), await scene.create()
    ends_ms = now_ms + 60 * SECOND_MS
    await scene.pause(until_ms=ends_ms)
    await scene.store.changes.suspend(scene.account_id)
    await scene.store.changes.resume(scene.account_id)
    assert await scene.claim() == [], "a resumption does not end a pause"
    assert (await scene.look()).next_look_ms == ends_ms
    scene.clock.ms = ends_ms - 50
    assert await scene.claim(ahead_ms=50) == []
    found = await scene.claim(ahead_ms=50)
    assert set(ids_of(found)) == {laned, plain}
    assert {each.slot_us for each in found} == {ends_ms * 1000}
    assert (await scene.settings()).pause is None
    assert await scene.ack(found) == [Verdict.DONE] * 2
    assert await scene.redis.zcard(keys.shard(scene.shard) + keys.RESUMED) == 0
    fresh = await scene.held()
    assert fresh.slot_us is None


@pytest.mark.usefixtures("checks_at_once")
async def test_lanes_have_their_turns_and_none_delays_what_has_no_lane(scene: Scene) -> None:
    """200 lanes with a rate and a backlog, one without, and a neighbour."""
    neighbour = (await scene.neighbours(1))[0]
    await scene.store.accounts.grant(scene.account_id, 1000)
    due_ms = await scene.clock.now_ms() - 1000
    for lane in range(200):
        await scene.limit(f"{lane}", rate=1, per_ms=HOUR_MS)
    requests = [Request(due_ms, "POST", URL, lane=f"{n % 200}") for n in range(800)]
    for start in (0, 400):
        await scene.store.schedules.create_all(scene.account_id, requests[start : start + 400])
    claimed = list[Invocation]()
    for _ in range(4):
        claimed += await scene.claim()
    assert len(claimed) == 200
    assert len({each.lane for each in claimed}) == 200
    assert await scene.claim() == []
    free = await scene.create(lane="free")
    plain, other = await scene.create(), await scene.create(account_id=neighbour)
    assert set(ids_of(await scene.claim())) == {free, plain, other}
    assert await scene.ack(claimed) == [Verdict.DONE] * 200


async def test_room_that_a_neighbour_leaves_goes_to_a_lane_with_more_due(scene: Scene) -> None:
    neighbour = (await scene.neighbours(1))[0]
    await scene.create(account_id=neighbour)
    for _ in range(8):
        await scene.create(lane="a")
    assert len(await scene.claim(most=8)) == 8


async def test_an_account_has_no_more_lanes_than_it_may(scene: Scene) -> None:
    names = {f"{n}": 0 for n in range(MOST_LANES - 1)}
    await scene.redis.zadd(scene.base + keys.LANES, names)
    waits = await scene.create(60_000, lane="last")
    for lane, call in (("last", scene.create), ("1", scene.create)):
        await call(60_000, lane=lane)
    with pytest.raises(TooManyLanes):
        await scene.create(60_000, lane="one more")
    with pytest.raises(TooManyLanes):
        await scene.change(waits, lane="one more")
    credits = await scene.credits()
    both = [Request(2**41, "POST", URL, lane=lane) for lane in ("last", "x")]
    with pytest.raises(TooManyLanes):
        await scene.store.schedules.create_all(scene.account_id, both)
    assert await scene.credits() == credits
    await scene.change(waits, lane=None)


async def test_a_claim_takes_over_all_of_a_lost_worker_though_lanes_share(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    lost = [await fake_scene.create(lane="a") for _ in range(6)]
    assert len(await fake_scene.claim()) == 6
    await fake_scene.create(60_000, lane="b")
    fake_clock.ms += LEASE_MS + 1
    await fake_scene.create(lane="b")
    assert set(lost) <= set(ids_of(await fake_scene.claim(most=7)))
