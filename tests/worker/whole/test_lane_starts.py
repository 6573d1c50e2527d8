"""Schedules in lanes, by a whole worker: when they start, and what their lanes learn of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.models import Invocation
from scheduler.retries import LONGEST_ASKED_MS
from scheduler.stages import Stage
from scheduler.store.lifecycle.end.end_rows import Ack
from tests.worker.desk import AWAY, Invocations
from tests.worker.scene import Scene
from tests.worker.scripted import answer, answering, dying, playing, until
from worker.lane_starts import crowding
from worker.send.outcome import LONGEST_CALM_MS, Failure
from worker.timer_wheel import TimerWheel

HOUR_US = 3_600_000_000


def hand_out(
    scene: Scene, *, slot_in_ms: int = 0, slack_us: int = HOUR_US, **fields: Any
) -> Invocation:
    """One of a lane is handed out: due long ago, its slot is so far ahead."""
    invocation = scene.hand_out(**fields)
    invocation.lane = "lane"
    invocation.slot_us = scene.store.clock.now_us() + slot_in_ms * 1000
    invocation.slack_us = slack_us
    return invocation


async def acked(scene: Scene) -> Ack:
    await until(lambda: len(scene.claims.acked) == 1)
    return scene.claims.acked[0]


async def test_lateness_counts_from_the_slot(scene: Scene) -> None:
    async with playing(answering(answer())) as target:
        hand_out(scene, slot_in_ms=50, url=target.url())
        await scene.start()
        ack = await acked(scene)
        await scene.stop()
    assert ack.lateness_ms is not None
    assert ack.lateness_ms < HOUR_US // 1000, "it was due in 1970"
    assert scene.pipeline.endings.tally.worst_lateness_ms() == ack.lateness_ms
    assert (scene.pipeline.lane_starts.started, scene.pipeline.lane_starts.missed) == (1, 0)


async def test_one_that_missed_its_slot_goes_back_unsent_and_its_shard_is_claimed_at_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later ones stand where the rate has room for them: two would come too close."""
    asked: list[int] = []
    monkeypatch.setattr(scene.pipeline.soon, "note_place", asked.append)
    missed = hand_out(scene, slot_in_ms=-21, slack_us=20_000)
    in_time = hand_out(scene, slot_in_ms=-21)
    unlimited = hand_out(scene, slot_in_ms=-3_600_000, slack_us=0)
    await scene.start()
    await until(lambda: len(scene.recorded) == 2 and asked == [0])
    assert scene.claims.released == [missed]
    assert set(scene.recorded) == {in_time, unlimited}
    assert (scene.pipeline.lane_starts.started, scene.pipeline.lane_starts.missed) == (2, 1)
    assert scene.held == 0
    await scene.stop()


async def test_what_missed_its_slot_while_the_store_is_away_goes_back_after_it(
    scene: Scene,
) -> None:
    scene.claims.raised["release"] += [AWAY]
    missed = hand_out(scene, slot_in_ms=-21, slack_us=20_000)
    await scene.start()
    await until(lambda: scene.claims.released == [missed])
    await until(lambda: scene.held == 0)
    assert scene.recorded == []
    await scene.stop()


async def test_one_without_a_place_is_never_sent_whatever_this_clock_says(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It expires before it may start; the store's clock was set back since."""
    add = TimerWheel.add

    def set_back(*claimed: Any) -> None:
        add(*claimed)
        scene.store.clock.observe(scene.store.clock.now_us() - HOUR_US)

    async with playing(answering(answer())) as target:
        invocation = hand_out(scene, url=target.url(), slack_us=0)
        now_ms = scene.store.clock.now_ms()
        invocation.request = replace(invocation.request, expires_at_ms=now_ms + 40)
        invocation.slot_us = (now_ms + 41) * 1000
        monkeypatch.setattr(TimerWheel, "add", set_back)
        await scene.start()
        ack = await acked(scene)
        await scene.stop()
    assert (ack.outcome.error_message, ack.invocation.attempt) == (Failure.EXPIRED, 0)
    assert target.requests == []
    assert scene.pipeline.lane_starts.started == 0


@pytest.mark.parametrize(
    ("code", "retry_after", "asked_ms"),
    [
        (429, "120", 120_000),
        (503, "120", 120_000),
        (503, "864000", LONGEST_CALM_MS),
        (503, "Mon, 03 Jan 2000 00:00:00 GMT", None),
        (503, "", None),
        (500, "120", None),
        (200, "120", None),
    ],
)
async def test_a_lane_is_calmed_for_as_long_as_its_target_asks(
    scene: Scene, code: int, retry_after: str, asked_ms: int | None
) -> None:
    assert LONGEST_CALM_MS < LONGEST_ASKED_MS
    script = answering(answer(b"", f"{code} X", f"Retry-After: {retry_after}"))
    async with playing(script) as target:
        hand_out(scene, url=target.url())
        await scene.start()
        before_ms = scene.store.clock.now_ms()
        ack = await acked(scene)
        after_ms = scene.store.clock.now_ms()
        await scene.stop()
    assert ack.next_attempt_at_ms is None
    if asked_ms is None:
        assert ack.calm_until_ms is None
    else:
        assert ack.calm_until_ms is not None
        assert before_ms <= ack.calm_until_ms - asked_ms <= after_ms


async def test_without_a_lane_nothing_is_calmed(scene: Scene) -> None:
    script = answering(answer(b"", "503 X", "Retry-After: 120"))
    async with playing(script) as target:
        scene.hand_out(url=target.url())
        await scene.start()
        assert (await acked(scene)).calm_until_ms is None
        await scene.stop()


async def test_a_repeat_on_a_fresh_connection_is_no_start(scene: Scene) -> None:
    """Its slot has passed by then: nothing asks for it."""
    async with playing(dying, answering(answer())) as target:
        scene.hand_out(url=target.url())
        await scene.start()
        await acked(scene)
        again = hand_out(scene, url=target.url())
        await until(lambda: len(scene.claims.acked) == 2)
        await scene.stop()
    assert (again.attempt, scene.pipeline.lane_starts.started) == (2, 1)
    assert len(target.requests) == 3


async def test_a_drain_gives_back_what_waits_for_its_slot(scene: Scene) -> None:
    waiting = hand_out(scene, slot_in_ms=60_000)
    await scene.start()
    await until(lambda: waiting.stage is Stage.TIMED)
    await scene.stop()
    assert scene.claims.released == [waiting]


def test_accounts_with_many_starts_that_a_rate_spaces_are_passed_over() -> None:
    make = Invocations()
    assert crowding(make.many(128, 0, "a")) == []
    assert crowding(make.many(128, 0, "a") + make.many(1, 0, "b")) == ["acc_00_a", "acc_00_b"]
    assert len(crowding([make.one(0, f"{number}") for number in range(1000)])) == 64


async def test_claims_learn_of_those_that_wait_here_for_their_slots(scene: Scene) -> None:
    waiting = [hand_out(scene, slot_in_ms=60_000) for _ in range(129)]
    await scene.start()
    await until(lambda: all(each.stage is Stage.TIMED for each in waiting))
    assert scene.pipeline.crowding() == ["acc_00_x"]
    await scene.stop()
    assert scene.pipeline.crowding() == []
