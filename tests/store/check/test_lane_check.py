"""`Store.check` of lanes: each index, broken by hand, gives a sentence; lanes that limits hold back
give none."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping

import pytest
from msgspec.structs import replace

from scheduler.lane_settings import Pause
from scheduler.store import keys
from tests.store.scene import Scene, new_id

Breakage = Callable[[Scene], Awaitable[object]]
LANE = "mail:s:1"
DUE_MS = 60_000
FAR_MS = 3_600_000
pytestmark = pytest.mark.usefixtures("checks_at_once")


async def members(scene: Scene, key: str) -> list[bytes]:
    return list(await scene.redis.zrange(scene.base + key, 0, -1))


def gone(key: str) -> Breakage:
    """Its first member is."""
    return lambda scene: scene.redis.zremrangebyrank(scene.base + key, 0, 0)


def added(key: str, member: str) -> Breakage:
    return lambda scene: scene.redis.zadd(scene.base + key, {member: 2**42})


def moved(key: str, of: str = "") -> Breakage:
    """The first member of one set is in another, far from now, or was there."""

    async def harm(scene: Scene) -> None:
        member = (await members(scene, of or key))[0]
        await scene.redis.zadd(scene.base + key, {member: 2**42})

    return harm


def lane_head(at_ms: float) -> Breakage:
    """So far from now."""

    async def harm(scene: Scene) -> None:
        at = await scene.clock.now_ms() + at_ms
        await scene.redis.zadd(scene.base + keys.LANE_HEADS, {LANE: at})

    return harm


def head(sort: str, at_ms: float | None) -> Breakage:
    """The account's own, or with a slash that of its lanes; None: there is none."""

    async def harm(scene: Scene) -> None:
        heads, name = (
            keys.shard(scene.shard) + keys.HEADS,
            sort % keys.parts(scene.account_id).local,
        )
        if at_ms is None:
            await scene.redis.zrem(heads, name)
        else:
            await scene.redis.zadd(heads, {name: await scene.clock.now_ms() + at_ms})

    return harm


def fields(name: str, **given: float) -> Breakage:
    return lambda scene: scene.redis.hset(scene.base + name, mapping=given)


def renamed(scene: Scene) -> Awaitable[object]:
    queue = scene.base + keys.LANE_QUEUE
    return scene.redis.rename(queue + LANE, queue + "other")  # type: ignore[no-any-return]


PAUSED = {"paused": 1, "paused_until": 2**42}
ENDS = {"paused": 1, "until": 2**42}


@pytest.mark.parametrize(
    ("breakage", "sentence", "sentences"),
    [
        (gone(keys.LANES), f"lane {LANE} is in use, but not among the account's lanes", 1),
        (gone(keys.LANE_HEADS), f"lane {LANE} has schedules, but no claim will look at it", 1),
        (lane_head(FAR_MS), f"lane {LANE} may start something before a claim looks at it", 1),
        (lane_head(-math.inf), f"lane {LANE} is not paused, but no claim will look at it", 1),
        (fields(keys.LANE + LANE, paused=1), f"lane {LANE} is paused, but claims look at it", 2),
        (
            fields(keys.LANE + LANE, **ENDS),
            "is paused, but not among the account's paused lanes",
            1,
        ),
        (added(keys.LANES_PAUSED, LANE), "is not paused, but among the account's paused lanes", 1),
        (fields(keys.LANE + LANE, tat="x"), f"lane {LANE} cannot be read", 1),
        (head("%s/", None), "lanes wait, but no worker will look for them (no head)", 1),
        (head("%s/", FAR_MS), "the head is later than the first of its lanes", 1),
        (head("%s/", -math.inf), "no worker will look for its lanes, as if it were suspended", 1),
        (head("%s", -math.inf), "no worker will look for its schedules, as if it were", 1),
        (fields(keys.ACCOUNT, paused=1), "claims look at its schedules, though it is paused", 2),
        (fields(keys.ACCOUNT, **PAUSED), "its pause will not end at its moment", 3),
        (gone(keys.LANED), "has not ended, but is not among the waiting", 1),
        (gone(keys.LANE_QUEUE + LANE), "is not in the queue of lane", 1),
        (moved(keys.LANE_QUEUE + LANE), "is not in the queue of lane", 1),
        (renamed, "should not be", 6),
        (moved(keys.LANE_QUEUE + LANE, keys.WAITING), f"of lane {LANE}, and should not be", 1),
        (added(keys.LANE_QUEUE + LANE, new_id()[4:]), f"of lane {LANE}, and should not be", 1),
        (added(keys.LANE_QUEUE + LANE, "?"), "is '?', which can be no schedule", 1),
        (added(keys.LANED, new_id()[4:]), "is waiting, but its request is gone", 1),
        (moved(keys.LANED, keys.WAITING), "has no lane, but is among the schedules with one", 1),
        (moved(keys.WAITING, keys.LANED), "but among the schedules without a lane", 1),
    ],
)
async def test_a_broken_index_of_lanes_is_told(
    scene: Scene, breakage: Breakage, sentence: str, sentences: int
) -> None:
    await scene.create(DUE_MS)
    for _ in range(2):
        await scene.create(DUE_MS, lane=LANE)
    assert await scene.store.check() == []
    await breakage(scene)
    told = await scene.store.check()
    assert len(told) == sentences, told
    assert any(sentence in each for each in told), told
    assert all(scene.account_id in each for each in told)


@pytest.mark.parametrize("lane", [None, "a"])
async def test_a_change_to_the_lane_where_one_strayed_and_back_takes_it_out_of_there(
    scene: Scene, lane: str | None
) -> None:
    await scene.create(DUE_MS, lane=LANE)
    strayed = await scene.create(DUE_MS, lane=lane)
    await scene.redis.zadd(scene.base + keys.LANE_QUEUE + LANE, {strayed[4:]: 2**42})
    assert f"of lane {LANE}, and should not be" in "".join(await scene.store.check())
    for each in (LANE, lane):
        await scene.change(strayed, lane=each)
    assert await scene.store.check() == []


EACH_MINUTE = {"set": 1, "rate": 1, "per": 60_000, "interval": 60_000_000, "burst": 1}


def until(field: str, at_ms: float, **others: float) -> Callable[[float], Mapping[str, float]]:
    return lambda now_ms: {field: now_ms + at_ms} | others


@pytest.mark.parametrize(
    ("limits", "latest_ms"),
    [
        (until("calm", 50_000), 50_000),
        (until("calm", 2 * FAR_MS), FAR_MS),
        (until("gate", 50_000), 50_000),
        (until("until", 50_000, paused=1), 50_000),
        (lambda now_ms: EACH_MINUTE | {"tat": 1000 * (now_ms + 50_000)}, 50_000),
        (lambda now_ms: EACH_MINUTE | {"tat": 1000 * (now_ms + FAR_MS)}, 120_000),
        (lambda now_ms: EACH_MINUTE | {"tat": 1000 * (now_ms + 50_000), "burst": 2}, 0),
    ],
)
async def test_a_lane_is_looked_at_no_later_than_its_limits_let_it_start(
    fake_scene: Scene, limits: Callable[[float], Mapping[str, float]], latest_ms: float
) -> None:
    """What a clock that was set back left in the future holds it back for a while at most."""
    await fake_scene.create(-1000, lane=LANE)
    now_ms = await fake_scene.clock.now_ms()
    await fake_scene.redis.hset(fake_scene.base + keys.LANE + LANE, mapping=limits(now_ms))
    for late_ms, told in ((0, 0), (3, 1)):
        if "until" in limits(now_ms):
            paused = {LANE: limits(now_ms)["until"]}
            await fake_scene.redis.zadd(fake_scene.base + keys.LANES_PAUSED, paused)
        at = {LANE: now_ms + latest_ms + late_ms}
        await fake_scene.redis.zadd(fake_scene.base + keys.LANE_HEADS, at)
        assert len(await fake_scene.store.check()) == told, late_ms


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (until("calm", 50_000), 1),
        (lambda now_ms: EACH_MINUTE, 1),
        (until("calm", -1), 0),
    ],
    ids=["calm", "set", "calm before"],
)
async def test_a_lane_where_nothing_waits_is_listed_if_something_is_kept_of_it(
    fake_scene: Scene, limits: Callable[[float], Mapping[str, float]], told: int
) -> None:
    now_ms = await fake_scene.clock.now_ms()
    await fake_scene.redis.hset(fake_scene.base + keys.LANE + LANE, mapping=limits(now_ms))
    sentence = f"lane {LANE} is in use, but not among the account's lanes"
    assert [sentence in each for each in await fake_scene.store.check()] == [True] * told


async def test_a_full_lane_is_looked_at_when_enough_of_its_leases_end(fake_scene: Scene) -> None:
    for _ in range(4):
        await fake_scene.create(-1000, lane=LANE)
    claimed = await fake_scene.claim(most=3)
    now_ms = await fake_scene.clock.now_ms()
    for n, each in enumerate(claimed, start=1):
        for key, sign in ((keys.LANE_QUEUE + LANE, -1), (keys.LANED, 1)):
            end = {each.schedule_id[4:]: sign * (now_ms + 1000 * n)}
            await fake_scene.redis.zadd(fake_scene.base + key, end)
    await fields(keys.LANE + LANE, parallelism=2)(fake_scene)
    for late_ms, told in ((2000, 0), (2003, 1)):
        at = {LANE: now_ms + late_ms}
        await fake_scene.redis.zadd(fake_scene.base + keys.LANE_HEADS, at)
        assert len(await fake_scene.store.check()) == told, late_ms


@pytest.mark.parametrize(
    ("breakage", "lane"),
    [
        (gone(keys.LANES), LANE),
        (gone(keys.LANE_HEADS), LANE),
        (lane_head(FAR_MS), LANE),
        (lane_head(-math.inf), LANE),
        (head("%s/", None), LANE),
        (head("%s/", FAR_MS), LANE),
        (head("%s/", -math.inf), None),
        (head("%s", -math.inf), None),
    ],
)
async def test_a_pause_and_its_end_heal_what_the_check_says_they_do(
    scene: Scene, breakage: Breakage, lane: str | None
) -> None:
    for each in (None, LANE):
        await scene.create(DUE_MS, lane=each)
    await breakage(scene)
    assert len(await scene.store.check()) == 1
    for pause in (Pause("operator"), None):
        await scene.set(lane, lambda before: replace(before, pause=pause))  # noqa: B023
        assert await scene.store.check() == []


@pytest.mark.parametrize(
    "breakage",
    [
        gone(keys.LANE_HEADS),
        lane_head(FAR_MS),
        lane_head(-math.inf),
        *(head(name, at_ms) for name in ("%s", "%s/") for at_ms in (None, FAR_MS, -math.inf)),
        fields(keys.ACCOUNT, paused=1),
        fields(keys.ACCOUNT, **PAUSED),
    ],
)
async def test_a_worker_finds_what_no_claim_would_look_at(scene: Scene, breakage: Breakage) -> None:
    """As an older program leaves it, or a clock that was set back."""
    for lane in (None, LANE):
        await scene.create(-1000, lane=lane)
        await scene.create(DUE_MS, lane=lane)
    await breakage(scene)
    assert await scene.store.check() != []
    for _ in range(2):
        await scene.store.claims.realign(scene.shard)
        assert await scene.store.check() == []
    stopped = await scene.redis.hexists(scene.base + keys.ACCOUNT, "paused")
    assert len(await scene.claim()) == (0 if stopped else 2)


async def test_a_change_puts_a_schedule_into_the_queue_of_its_lane_again(scene: Scene) -> None:
    schedule_id = await scene.create(DUE_MS, lane=LANE)
    await gone(keys.LANE_QUEUE + LANE)(scene)
    assert len(await scene.store.check()) == 1
    await scene.change(schedule_id, trigger_at_ms=await scene.clock.now_ms() + DUE_MS)
    assert await scene.store.check() == []
