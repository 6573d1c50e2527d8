"""What an account sets for a lane, and reads of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler import ids
from scheduler.errors import (
    InvalidRequest,
    NotFound,
    PreconditionFailed,
    TooManyLanes,
    TooManyScans,
    Unreadable,
)
from scheduler.lane_settings import Lane, LaneSettings, LaneState, Pause
from scheduler.lanes import MOST_LANES
from scheduler.store import keys
from scheduler.store.lanes.lanes import _SET, _values_of
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.preconditions import Precondition
from scheduler.store.scans import _WRITTEN_US
from scheduler.store.verdict import Verdict
from scheduler.times import parse_iso8601
from tests.store.scene import FAILED, Scene

LIMITS = LaneSettings(rate=100, per_ms=1000, burst=5, parallelism=7, note="für B")
DAILY = LaneSettings(rate=1, per_ms=86_400_000)
MINUTE_MS = 60_000


def bare(settings: LaneSettings) -> LaneSettings:
    return replace(settings, etag=None)


async def stored(scene: Scene, lane: str = "a") -> dict[bytes, bytes]:
    return dict(await scene.redis.hgetall(scene.base + keys.LANE + lane))


async def test_a_lane_that_nobody_set_has_nothing_and_is_not_made_by_a_look(scene: Scene) -> None:
    lane = await scene.store.lanes.read(scene.account_id, "a")
    assert replace(lane, settings=bare(lane.settings)) == Lane("a", LaneSettings(), lane.now_ms)
    assert (lane.state, lane.empty_at_ms) == (LaneState.OPEN, None)
    assert await stored(scene) == {}
    assert (await scene.store.lanes.page(scene.account_id, 100)).lanes == []


@pytest.mark.parametrize(
    ("limits", "fields"),
    [
        (LIMITS, {"rate": 100, "per": 1000, "burst": 5, "parallelism": 7, "note": "für B"}),
        (DAILY, {"rate": 1, "per": 86_400_000, "burst": 1}),
        (LaneSettings(parallelism=1), {"parallelism": 1}),
        (LaneSettings(note="x"), {"note": "x"}),
    ],
)
async def test_a_put_sets_all_and_a_second_one_leaves_nothing_of_the_first(
    scene: Scene, limits: LaneSettings, fields: dict[str, Any]
) -> None:
    lanes = scene.store.lanes
    await lanes.put(scene.account_id, "a", replace(LIMITS, note="first"))
    put = await lanes.put(scene.account_id, "a", limits)
    assert bare(put.settings) == replace(limits)
    assert put == replace(await lanes.read(scene.account_id, "a"), now_ms=put.now_ms)
    found = {name.decode(): value.decode() for name, value in (await stored(scene)).items()}
    assert float(found.pop("gate")) <= put.now_ms
    found.pop("tat", None)
    if limits.pace is not None:
        interval_us, slack_us = limits.pace
        assert float(found.pop("interval")) == interval_us
        assert int(found.pop("slack")) == slack_us
    assert found == {"set": "1", **{name: str(value) for name, value in fields.items()}}


async def is_nowhere(scene: Scene, lane: str = "a") -> bool:
    """It counts among no lanes, and the store has nothing of it but its schedules."""
    page = await scene.store.lanes.page(scene.account_id, 100)
    held = await scene.store.accounts.holdings(scene.account_id)
    names = (keys.LANES, keys.LANES_PAUSED, keys.LANE_HEADS)
    scores = [await scene.redis.zscore(scene.base + name, lane) for name in names]
    assert await scene.store.check() == []
    assert (page.lanes == [], held.lanes == 0) == (scores[0] is None,) * 2
    return scores == [None] * 3 and await stored(scene, lane) == {}


async def untouched(scene: Scene) -> None:
    await scene.store.lanes.put(scene.account_id, "a", LaneSettings())


async def cleared_by_a_put(scene: Scene) -> None:
    await scene.store.lanes.put(scene.account_id, "a", LIMITS)
    assert not await is_nowhere(scene)
    await scene.store.lanes.put(scene.account_id, "a", LaneSettings())


async def resumed(scene: Scene) -> None:
    await scene.pause("a")
    await scene.claim()
    assert not await is_nowhere(scene)
    await scene.resume("a")


async def paused_for_a_while(scene: Scene) -> None:
    await scene.pause("a", await scene.clock.now_ms() + 100)
    await scene.claim()
    assert not await is_nowhere(scene)
    await scene.clock.pass_ms(101)
    await scene.claim()


async def paused_for_longer_than_its_schedule(scene: Scene) -> None:
    waits = await scene.create(lane="a")
    await scene.pause("a", await scene.clock.now_ms() + 100)
    await scene.cancel(waits)
    assert not await is_nowhere(scene)
    await scene.clock.pass_ms(101)
    await scene.claim()


async def calm_for_a_while(scene: Scene) -> None:
    held = await scene.held(lane="a")
    until_ms = await scene.clock.now_ms() + 100
    await scene.store.ends.ack(scene.shard, [Ack(held, FAILED, 0, calm_until_ms=until_ms)])
    assert not await is_nowhere(scene)
    await scene.clock.pass_ms(101)
    await scene.claim()


async def emptied(scene: Scene) -> None:
    await scene.store.lanes.put(scene.account_id, "a", LIMITS)
    waits = await scene.create(lane="a")
    await scene.store.lanes.put(scene.account_id, "a", LaneSettings())
    assert [each.waiting for each in (await scene.store.lanes.page(scene.account_id, 9)).lanes] == [
        1
    ]
    await scene.cancel(waits)


@pytest.mark.time_passes
@pytest.mark.parametrize(
    "ends",
    [
        *(untouched, cleared_by_a_put, resumed, paused_for_a_while),
        *(paused_for_longer_than_its_schedule, calm_for_a_while, emptied),
    ],
)
async def test_a_lane_that_nothing_keeps_is_not_there(scene: Scene, ends: Any) -> None:
    await ends(scene)
    assert await is_nowhere(scene)
    assert bare(await scene.settings("a")) == LaneSettings()


@pytest.mark.parametrize(
    ("rate", "per_ms", "burst"),
    [(1, 1000, 1), (1, 86_400_000, 1), (10, 1000, 10), (100, 1000, 1), (100_000, 1000, 7)],
)
def test_no_window_has_more_starts_than_rate_and_burst(rate: int, per_ms: int, burst: int) -> None:
    """The first starts of a window are as late as they may be, all others as early."""
    pace = LaneSettings(rate=rate, per_ms=per_ms, burst=burst).pace
    interval_us, slack_us = pace
    assert 20_000 <= slack_us <= 1_000_000
    # Slots from the latest one that may start at the window's begin; `burst` come at its end.
    in_window = (1000 * per_ms + slack_us) / interval_us
    assert in_window + burst <= rate + burst + 1


async def test_a_put_leaves_a_pause_as_it_is(scene: Scene) -> None:
    pause = (await scene.pause("a")).pause
    lane = await scene.store.lanes.put(scene.account_id, "a", LIMITS)
    assert lane.state == LaneState.PAUSED
    assert bare(lane.settings) == replace(LIMITS, pause=pause)
    assert bare(await scene.resume("a")) == replace(LIMITS)


async def test_a_pause_has_a_note_of_its_own_which_goes_with_it(scene: Scene) -> None:
    await scene.store.lanes.put(scene.account_id, "a", LIMITS)
    paused = await scene.pause("a", note="B migrates")
    assert (paused.note, paused.pause.note) == (LIMITS.note, "B migrates")
    changed = await scene.set("a", lambda old: replace(old, note="for C"))
    assert (changed.note, changed.pause.note) == ("for C", "B migrates")
    await scene.resume("a")
    assert {b"paused", b"until", b"by", b"why"}.isdisjoint(await stored(scene))
    assert (await scene.pause("a")).pause.note is None


@pytest.mark.time_passes
async def test_a_pause_ends_by_itself(scene: Scene) -> None:
    lanes, until_ms = scene.store.lanes, await scene.clock.now_ms() + 100
    before = (await lanes.put(scene.account_id, "a", LIMITS)).settings
    await scene.pause("a", until_ms)
    await scene.clock.pass_ms(101)
    assert await scene.settings("a") == before, "its etag is as it was, too"
    assert (await lanes.page(scene.account_id, 100)).lanes[0].settings == bare(before)
    pause = Pause("ci")
    again = await scene.set(
        "a", lambda old: replace(old, pause=pause), Precondition.of(before.etag)
    )
    assert (again.pause.by, again.pause.until_ms) == ("ci", None)


@pytest.mark.time_passes
async def test_a_claim_ends_a_pause_with_its_note(scene: Scene) -> None:
    made, until_ms = await scene.create(lane="a"), await scene.clock.now_ms() + 100
    before = (await scene.store.lanes.put(scene.account_id, "a", LIMITS)).settings
    await scene.pause("a", until_ms, note="B migrates")
    await scene.clock.pass_ms(101)
    assert [each.schedule_id for each in await scene.claim()] == [made]
    assert {b"paused", b"until", b"by", b"why"}.isdisjoint(await stored(scene))
    assert await scene.settings("a") == before


async def test_a_repeat_of_what_is_done_is_no_mismatch(scene: Scene) -> None:
    """A caller who did not get the answer sends the same If-Match again."""
    put, old = scene.store.lanes.put, (await scene.settings("a")).etag
    wanted = Precondition.of(old)
    first = await put(scene.account_id, "a", LIMITS, wanted)
    before = await stored(scene)
    again = await put(scene.account_id, "a", LIMITS, wanted)
    assert again.settings == first.settings
    with pytest.raises(PreconditionFailed):
        await put(scene.account_id, "a", LaneSettings(), wanted)
    assert await stored(scene) == before


@pytest.mark.time_passes
async def test_what_a_pause_held_back_is_late_from_its_end_on(scene: Scene) -> None:
    until_ms = await scene.clock.now_ms() + 100
    await scene.pause("a", until_ms)
    await scene.clock.pass_ms(150)
    await scene.set("a", lambda before: replace(before, note="x"))
    assert float((await stored(scene))[b"gate"]) == until_ms


async def test_writes_at_once_come_one_after_the_other(scene: Scene) -> None:
    def more(before: LaneSettings) -> LaneSettings:
        return replace(before, parallelism=(before.parallelism or 0) + 1)

    await asyncio.gather(*(scene.set("a", more) for _ in range(8)))
    assert (await scene.settings("a")).parallelism == 8


async def test_a_calm_is_ended_and_nothing_else(scene: Scene) -> None:
    lanes = scene.store.lanes
    await lanes.put(scene.account_id, "a", LIMITS)
    until_ms = await scene.clock.now_ms() + MINUTE_MS
    await scene.redis.hset(scene.base + keys.LANE + "a", "calm", until_ms)
    lane = await lanes.read(scene.account_id, "a")
    assert (lane.state, lane.calm_until_ms) == (LaneState.CALM, until_ms)
    lane = await lanes.change(scene.account_id, "a", lambda before: before, calm_until_ms=None)
    assert (lane.state, lane.calm_until_ms) == (LaneState.OPEN, None)
    assert bare(lane.settings) == replace(LIMITS)
    assert b"calm" not in await stored(scene)


async def test_clearing_removes_all_that_was_set(scene: Scene) -> None:
    lanes = scene.store.lanes
    await lanes.put(scene.account_id, "a", LIMITS)
    await scene.pause("a")
    assert [await lanes.clear(scene.account_id, "a") for _ in range(2)] == [0, 0]
    assert bare(await scene.settings("a")) == LaneSettings()
    assert await stored(scene) == {}


async def test_paused_lanes_are_known_while_their_pauses_last(scene: Scene) -> None:
    lanes, account_id = scene.store.lanes, scene.account_id
    now_ms = await scene.clock.now_ms()
    soon_ms, later_ms = now_ms + MINUTE_MS, now_ms + 2 * MINUTE_MS
    for lane, until_ms in (("a", None), ("b", later_ms), ("c", soon_ms), ("d", None)):
        await scene.pause(lane, until_ms)
    assert await lanes.paused(account_id, 3) == (4, [("c", soon_ms), ("b", later_ms), ("a", None)])
    await scene.resume("a")
    await lanes.clear(account_id, "d")
    await lanes.put(account_id, "b", LIMITS)  # which leaves its pause as it is
    assert await lanes.paused(account_id, 1) == (2, [("c", soon_ms)])
    # One that has ended by itself is none, and the next write forgets it.
    await scene.redis.zadd(scene.base + keys.LANES_PAUSED, {"c": now_ms - 1})
    assert await lanes.paused(account_id, 3) == (1, [("b", later_ms)])
    await scene.resume("b")
    assert not await scene.redis.exists(scene.base + keys.LANES_PAUSED)


async def test_there_are_ten_thousand_at_most_and_those_can_be_set(scene: Scene) -> None:
    lanes, many = scene.store.lanes, [f"lane-{n:05}" for n in range(MOST_LANES)]
    await scene.redis.zadd(scene.base + keys.LANES, dict.fromkeys(many, 0))
    with pytest.raises(TooManyLanes):
        await lanes.put(scene.account_id, "another", LIMITS)
    # Nothing makes no lane, also where replicas are to have that, so that the script runs.
    nothing = await scene.settings("another")
    shard, account = keys.parts(scene.account_id)
    arguments = (account, "another", "operation", nothing.etag, 0, "", *_values_of(nothing))
    written = await lanes._server.write_until_answered(_SET, keys.shard(shard), arguments)
    assert written == Verdict.DONE
    assert await stored(scene, "another") == {}
    assert await scene.redis.zcard(scene.base + keys.LANES) == MOST_LANES
    await lanes.put(scene.account_id, many[-1], LIMITS)
    other = await scene.account("other")
    await lanes.put(other, "another", LIMITS)


async def test_pages_go_through_all_by_name(scene: Scene) -> None:
    lanes, names = scene.store.lanes, ["B", "a", "a.b", "a:b", "a_b", "b"]
    for name in reversed(names):
        await lanes.put(scene.account_id, name, LaneSettings(note=name))
    found, cursor = [], None
    while True:
        page = await lanes.page(scene.account_id, 4, cursor)
        found += [(each.lane, each.settings.note) for each in page.lanes]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == [(name, name) for name in names]
    for bad in ("", "*", "Kg", "ä"):
        with pytest.raises(InvalidRequest):
            await lanes.page(scene.account_id, 4, bad)


@pytest.mark.time_passes
async def test_schedules_of_a_lost_worker_wait_in_their_lane(scene: Scene) -> None:
    lanes = scene.store.lanes
    held = await scene.lapsed(lane="a")
    lane = await lanes.read(scene.account_id, "a")
    assert (lane.waiting, lane.due, lane.running) == (1, 1, 0)
    assert lane.oldest_due_at_ms == held.request.trigger_at_ms
    assert await lanes.clear(scene.account_id, "a") == 1


@pytest.mark.parametrize(
    ("limits", "state"),
    [(DAILY, LaneState.LIMITED), (replace(DAILY, parallelism=1), LaneState.FULL)],
)
async def test_what_limits_held_back_goes_on_when_they_are_cleared(
    scene: Scene, limits: LaneSettings, state: LaneState
) -> None:
    lanes = scene.store.lanes
    await lanes.put(scene.account_id, "a", limits)
    for _ in range(3):
        await scene.create(lane="a")
    assert len(await scene.claim()) == 1
    lane = await lanes.read(scene.account_id, "a")
    assert (lane.state, lane.waiting, lane.due, lane.running) == (state, 2, 2, 1)
    assert lane.oldest_due_at_ms is not None
    assert (lane.empty_at_ms or 0) > lane.now_ms + 86_400_000
    cleared_ms = await scene.clock.now_ms()
    assert await lanes.clear(scene.account_id, "a") == 2
    claimed = await scene.claim()
    assert len(claimed) == 2
    assert all((each.slot_us or 0) >= 1000 * cleared_ms for each in claimed)
    lane = await lanes.read(scene.account_id, "a")
    assert (lane.waiting, lane.running, lane.oldest_due_at_ms) == (0, 3, None)


async def test_a_list_counts_as_a_search(scene: Scene) -> None:
    lanes = scene.store.lanes
    for n in range(10):
        await lanes.put(scene.account_id, f"lane-{n}", LIMITS)
    key = scene.base + keys.SCANS
    await scene.redis.set(key, 2**52)
    with pytest.raises(TooManyScans):
        await lanes.page(scene.account_id, 100)
    await lanes.read(scene.account_id, "lane-1")
    await scene.redis.delete(key)
    for _ in range(1 + _WRITTEN_US // 70):  # for which each of ten lanes counts 7 us
        await lanes.page(scene.account_id, 100)
    assert await scene.redis.exists(key)


@pytest.mark.parametrize(
    ("settings", "fields", "state", "empty_in_ms"),
    [
        (LaneSettings(), {"waiting": 3, "due": 2}, LaneState.OPEN, None),
        (LaneSettings(pause=Pause("x")), {"calm_until_ms": 5}, LaneState.PAUSED, None),
        (LaneSettings(parallelism=2), {"running": 1}, LaneState.OPEN, None),
        (LaneSettings(parallelism=2), {"running": 2, "calm_until_ms": 1}, LaneState.CALM, None),
        (LaneSettings(parallelism=2), {"running": 3}, LaneState.FULL, None),
        (LaneSettings(1, 1000), {"next_slot_ms": 500}, LaneState.OPEN, None),
        (
            LaneSettings(1, 1000),
            {"next_slot_ms": 500, "waiting": 3, "due": 1, "last_due_at_ms": 0},
            LaneState.LIMITED,
            2500,
        ),
        (LaneSettings(1, 1000), {"waiting": 3, "last_due_at_ms": 9000}, LaneState.OPEN, 9000),
        (LaneSettings(5, 1000, 5), {"waiting": 8, "last_due_at_ms": 0}, LaneState.OPEN, 600),
        (DAILY, {"waiting": 10**7, "last_due_at_ms": 0}, LaneState.OPEN, None),
    ],
)
def test_how_a_lane_stands(
    settings: LaneSettings, fields: dict[str, Any], state: LaneState, empty_in_ms: int | None
) -> None:
    now_ms = parse_iso8601("2026-11-23T00:00:00Z")
    later = {n: v + now_ms if n.endswith("_ms") else v for n, v in fields.items()}
    lane = Lane("a", settings, now_ms, **later)
    assert lane.state == state
    assert lane.empty_at_ms == (None if empty_in_ms is None else now_ms + empty_in_ms)


@pytest.mark.parametrize(
    "damage", [{"rate": "x"}, {"until": "x", "paused": 1}, {"calm": "x"}, {"tat": "x"}, None]
)
async def test_a_damaged_lane_is_no_matter_of_the_others(
    scene: Scene, damage: dict[str, Any] | None
) -> None:
    lanes, key = scene.store.lanes, scene.base + keys.LANE + "a"
    for name in "ab":
        await lanes.put(scene.account_id, name, LIMITS)
    if damage is None:
        await scene.spoil(key)
    else:
        await scene.redis.hset(key, mapping=damage)
    with pytest.raises(Unreadable):
        await lanes.read(scene.account_id, "a")
    with pytest.raises(Unreadable):
        await lanes.put(scene.account_id, "a", LaneSettings())
    assert [each.lane for each in (await lanes.page(scene.account_id, 100)).lanes] == ["b"]
    if damage is not None:
        await lanes.clear(scene.account_id, "a")
        assert bare(await scene.settings("a")) == LaneSettings()


async def test_an_account_that_is_no_more_has_no_lanes(scene: Scene) -> None:
    nobody = ids.account_id(scene.shard, "22222222")
    with pytest.raises(NotFound):
        await scene.store.lanes.put(nobody, "a", LIMITS)
    assert await scene.redis.keys(keys.account(nobody) + "*") == []
