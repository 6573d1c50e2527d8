"""Who is claimed from next, and what one shard's trouble does to the others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.runtime.elapsed import elapsed_s
from tests.support.waiting import DEADLINE_S
from tests.worker.desk import AWAY, Desk, Invocations


@pytest.mark.parametrize(("slots", "turns"), [(64, 6), (1, 14)])
async def test_a_backlog_in_one_shard_does_not_keep_another_waiting(slots: int, turns: int) -> None:
    desk = Desk({0: 10_000, 1: 5}, slots)
    for _ in range(turns):
        await desk.turn()
        desk.finish()

    assert desk.claims.due[1] == 0
    assert 0 < sum(count for shard, count in desk.claims.claimed if shard == 0) < 10_000


async def test_a_shard_that_is_away_leaves_the_others_alone() -> None:
    desk = Desk({0: 3, 1: 3}, slots=64)
    desk.claims.away.add(0)
    for _ in range(4):
        await desk.turn()

    assert desk.touch.lost == {0}
    assert desk.claims.due == {0: 3, 1: 0}

    desk.claims.away.clear()
    desk.touch.regain(0)
    assert desk.touch.has_grace(0)
    assert not desk.touch.has_grace(1)


async def test_turns_that_were_lost_are_looked_for_in_each_shard_that_can_be_reached() -> None:
    """From time to time, and in all of them at the start."""
    desk = Desk({0: 0, 1: 0, 2: 0}, slots=64)
    await desk.claimer.step()
    assert desk.claims.realigned == [0, 1, 2]
    desk.claims.away.add(1)
    desk.touch.lose([0], AWAY)
    await desk.claimer.realign()
    assert desk.claims.realigned == [0, 1, 2, 2]
    assert desk.touch.lost == {0, 1}


@pytest.mark.parametrize(("most_shards", "calls"), [(32, [32, 8]), (1, [1] * 40)])
async def test_shards_that_are_due_together_share_a_call_and_its_room(
    most_shards: int, calls: list[int]
) -> None:
    desk = Desk(dict.fromkeys(range(40), 1), slots=10_000)
    desk.claims.most_shards = most_shards
    await desk.claimer.step()
    while len(desk.fired) < 40:
        await asyncio.sleep(0)
    assert [len(shards) for shards in desk.claims.together] == calls
    for shards in desk.claims.together:
        part = [asked["most"] for asked in desk.claims.asked if asked["shard"] in shards]
        assert part == [128 // len(shards)] * len(shards)


async def test_a_shard_on_hold_is_asked_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.claimer._ASK_ON_HOLD_EVERY_MS", 3_600_000.0)
    desk = Desk({0: 3}, slots=64)
    desk.claims.on_hold.add(0)
    for _ in range(10):
        await desk.turn()
    assert len(desk.claims.asked) == 1, "though every look says that something is due"
    monkeypatch.setattr("worker.claimer._own_ms", lambda: elapsed_s() * 1000 + 3_600_000)
    desk.claims.on_hold.clear()
    async with asyncio.timeout(DEADLINE_S):
        while desk.claims.due[0]:
            await desk.turn()


async def test_shards_on_hold_beside_others_are_told_once_and_so_is_their_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.claimer._ASK_ON_HOLD_EVERY_MS", 0.0)
    desk = Desk({0: 9, 1: 9, 2: 9}, slots=1000)
    desk.claims.on_hold |= {0, 2}
    with capture_logs() as told:
        async with asyncio.timeout(DEADLINE_S):
            while len([each for each in desk.claims.asked if each["shard"] != 1]) < 6:
                await desk.turn()
            for shard in (0, 2):
                desk.claims.on_hold.discard(shard)
                while desk.claims.due[shard]:
                    await desk.turn()
    holds = [each["event"] for each in told if "claim" in each["event"]]
    assert holds == ["on hold: nothing is claimed", "resumed: claiming again"]


@pytest.mark.parametrize(
    ("ahead_ms", "idle_ms", "waits_ms"),
    [(39, 7, 7), (39, 20, 20), (40, 7, 13), (40, 13, 13), (40, 20, 33), (39, -1, -1), (40, -1, -1)],
)
async def test_only_claims_that_are_far_enough_ahead_wait_for_the_next_tick(
    ahead_ms: int, idle_ms: float, waits_ms: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others would come too late, by up to a tick of 20 ms. None waits that is late already."""
    monkeypatch.setattr("worker.claimer.until_tick_s", lambda _: 0.013)
    desk = Desk({0: 0}, slots=64, ahead_ms=ahead_ms)
    assert desk.claimer._at_a_tick(idle_ms) == waits_ms


@pytest.fixture
def _always_abroad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.claimer._LOOK_ABROAD_EVERY_MS", (0, 0))


def ahead(desk: Desk) -> list[tuple[int, int]]:
    """The shards that were claimed from, and their due schedules."""
    return [(asked["shard"], asked["ahead_ms"]) for asked in desk.claims.asked]


@pytest.mark.usefixtures("_always_abroad")
async def test_of_the_shards_of_others_only_what_is_late_is_claimed() -> None:
    desk = Desk({0: 1, 1: 1, 2: 1}, slots=64, own=[0])
    now_ms = desk.clock.now_ms()
    desk.claims.late_since_ms |= {1: now_ms - 1000, 2: now_ms + 60_000}
    await desk.turn()
    await desk.turn()

    assert sorted(ahead(desk)) == [(0, 25), (1, -200)]


@pytest.mark.usefixtures("_always_abroad")
async def test_where_a_backlog_grows_others_help_until_it_is_gone() -> None:
    desk = Desk({0: 0, 1: 100}, slots=64, own=[0])
    late_ms = desk.clock.now_ms() - 1000
    desk.claims.backlog_since_ms[1] = desk.claims.late_since_ms[1] = late_ms
    await desk.turn()
    desk.finish()
    await desk.turn()
    assert ahead(desk) == [(1, 25), (1, 25)], "as its own worker claims"
    assert desk.claims.due[1] == 0

    desk.finish()
    del desk.claims.backlog_since_ms[1]
    desk.claims.due[1] = 1
    async with asyncio.timeout(DEADLINE_S):  # it rests a moment between two claims
        while desk.claims.due[1]:
            await desk.turn()
    assert ahead(desk)[2:] == [(1, -200)]


@pytest.mark.parametrize("own", [[0, 1], [0]], ids=["own", "another's"])
async def test_where_a_place_came_free_it_claims_at_once(
    own: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However short ago it claimed there, and though the shard be another worker's."""
    monkeypatch.setattr("worker.claimer._LOOK_EVERY_MS", 3_600_000.0)
    monkeypatch.setattr("worker.claimer._LOOK_ABROAD_EVERY_MS", (3_600_000, 3_600_000))
    desk = Desk({0: 0, 1: 0}, slots=64, own=own)
    await desk.turn()
    for _ in range(3):
        desk.claims.due[1] = 1
        desk.soon.note_place(1)
        await desk.turn()
    assert ahead(desk) == [(1, 25)] * 3
    assert desk.claims.due[1] == 0


@pytest.mark.usefixtures("_always_abroad")
@pytest.mark.parametrize(("slack_us", "ahead_ms"), [(20_000, [-200, 25]), (0, [-200, -200])])
async def test_a_lost_workers_lane_with_a_rate_is_looked_after_until_its_shard_has_another(
    slack_us: int, ahead_ms: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its rate spaces is never late: others would start one of it a look."""
    desk = Desk({0: 0, 1: 0}, slots=64, own=[0])
    desk.claims.given = [given := desk.claims.make.one(1)]
    given.slack_us = slack_us
    desk.claims.late_since_ms[1] = desk.clock.now_ms() - 1000
    async with asyncio.timeout(DEADLINE_S):
        while desk.fired != [given]:
            await desk.turn()
    desk.claims.due[1] = 1
    async with asyncio.timeout(DEADLINE_S):  # it rests a moment between two claims
        while desk.claims.due[1]:
            await desk.turn()
    assert ahead(desk) == [(1, each) for each in ahead_ms]

    monkeypatch.setattr("worker.claimer._own_ms", lambda: elapsed_s() * 1000 + 10_001)
    desk.claims.due[1] = 1
    async with asyncio.timeout(DEADLINE_S):
        while desk.claims.due[1]:
            await desk.turn()
    assert ahead(desk)[2:] == [(1, -200)]


async def test_a_place_that_comes_free_during_a_claim_is_claimed_for_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.claimer._LOOK_EVERY_MS", 3_600_000.0)
    desk = Desk({0: 0}, slots=64)
    await desk.turn()
    desk.soon.note_place(0)
    await desk.claimer.step()
    await asyncio.sleep(0)  # its call is on its way
    desk.soon.note_place(0)
    await desk.turn()
    await desk.turn()
    assert ahead(desk) == [(0, 25)] * 2


@pytest.mark.parametrize(("took_ms", "lost"), [(3000, set()), (4500, {0, 1})])
async def test_a_store_that_is_slow_to_answer_counts_as_lost(took_ms: int, lost: set[int]) -> None:
    """A quarter of a lease is slow: leases may have ended that no worker could extend."""
    desk = Desk({0: 1, 1: 1}, slots=64)
    desk.claims.looking = lambda: desk.clock.observe(desk.clock.now_us() + took_ms * 1000)
    await desk.claimer._look()
    assert desk.touch.lost == lost


async def test_in_grace_no_ended_lease_is_taken_over_and_after_it_those_that_ended_before() -> None:
    desk = Desk({0: 1, 1: 1}, slots=64)
    desk.touch.lose([0], ConnectionError())
    desk.touch.regain(0)
    before_ms = desk.clock.now_ms()
    await desk.turn()
    taken_over_by_ms = {asked["shard"]: asked["take_over_by_ms"] for asked in desk.claims.asked}
    assert taken_over_by_ms[0] == 0
    assert before_ms <= taken_over_by_ms[1] <= desk.clock.now_ms()


async def test_an_account_that_fills_the_worker_is_passed_over() -> None:
    desk = Desk({0: 1}, slots=100)
    desk.holdings.add(Invocations().many(81, 0, "flood"))
    desk.holdings.add(Invocations().many(1, 0, "small"))
    await desk.turn()
    assert [asked["pass_over"] for asked in desk.claims.asked] == [["acc_00_flood"]]


async def test_an_account_of_which_enough_waits_for_its_slots_is_passed_over() -> None:
    desk = Desk({0: 1}, slots=100)
    desk.crowded = ["acc_00_rated"]
    await desk.turn()
    assert [asked["pass_over"] for asked in desk.claims.asked] == [["acc_00_rated"]]


async def test_claims_share_what_is_left_in_bytes_and_none_goes_out_when_nothing_is() -> None:
    desk = Desk({0: 1, 1: 1}, slots=100, room_bytes=1000)
    heavy = desk.claims.make.one(0, size_bytes=600)
    desk.holdings.add([heavy])
    await desk.turn()
    assert [asked["most_bytes"] for asked in desk.claims.asked] == [200, 200]

    heavier = desk.claims.make.one(0, size_bytes=400)
    desk.holdings.add([heavier])
    desk.claims.due = {0: 1, 1: 1}
    looks: list[None] = []
    desk.claims.looking = lambda: looks.append(None)
    while len(looks) < 5:  # it sees that something is due
        await desk.turn()
    assert len(desk.claims.asked) == 2
    desk.holdings.remove([heavy])
    desk.soon.note_room()
    async with asyncio.timeout(DEADLINE_S):
        while any(desk.claims.due.values()):
            await desk.turn()


@pytest.mark.parametrize("error", [AWAY, RuntimeError("unforeseen")])
async def test_a_claim_that_fails_gives_its_room_back(error: Exception) -> None:
    desk = Desk({0: 1, 1: 1}, slots=64, room_bytes=1000)
    desk.claims.raised["claim"] = [error] * 4
    async with asyncio.timeout(DEADLINE_S):
        while len(desk.fired) < 2:
            desk.touch.lost.clear()
            await desk.turn()
    assert len({(asked["most"], asked["most_bytes"]) for asked in desk.claims.asked[:4]}) == 1
    assert (desk.holdings._reserved, desk.holdings._reserved_bytes) == (0, 0)


@pytest.mark.parametrize(("paused_ms", "lost"), [(3000, set()), (4500, {0, 1})])
async def test_after_a_pause_of_the_process_all_is_regained_before_it_claims(
    paused_ms: int, lost: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or it would take over from itself what it holds, and refuse its own outcomes."""
    desk = Desk({0: 0, 1: 0}, slots=64)
    await desk.turn()
    desk.claims.due[0] = 1
    desk.clock.observe(desk.clock.now_us() + paused_ms * 1000)
    monkeypatch.setattr("worker.claimer.elapsed_s", lambda: elapsed_s() + paused_ms / 1000)
    await desk.turn()
    assert desk.touch.lost == lost
    assert desk.claims.claimed == ([] if lost else [(0, 1)])

    for shard in lost:
        desk.touch.regain(shard)
    async with asyncio.timeout(DEADLINE_S):
        while desk.claims.due[0]:
            await desk.turn()
    assert [asked["take_over_by_ms"] == 0 for asked in desk.claims.asked] == [bool(lost)]


async def test_a_clock_that_is_set_back_does_not_keep_it_from_looking_and_claiming() -> None:
    desk = Desk({0: 1}, slots=64)
    desk.claims.looking = lambda: desk.clock.observe(1_795_161_600_000_000)
    await desk.turn()
    desk.claims.looking = lambda: desk.clock.observe(1_795_158_000_000_000)
    desk.claims.due[0], desk.claims.late_since_ms[0] = 2, 0.0
    async with asyncio.timeout(DEADLINE_S):
        while desk.claims.due[0]:
            await desk.turn()
    assert desk.clock.steps_back == 1


async def test_a_look_that_is_answered_after_it_was_stopped_starts_no_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The drain would not wait for it: it has seen that no claim is on its way."""
    desk = Desk({0: 3}, slots=64)
    asked, answered, look = asyncio.Event(), asyncio.Event(), desk.claims.look

    async def held(*shards: Any, **options: Any) -> Any:
        asked.set()
        await answered.wait()
        return await look(*shards, **options)

    monkeypatch.setattr(desk.claims, "look", held)
    turn = asyncio.create_task(desk.turn())
    await asked.wait()
    await desk.claimer.stop()
    answered.set()
    await turn
    assert desk.claims.calls == []
