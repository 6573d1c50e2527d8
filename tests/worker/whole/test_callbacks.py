"""Callbacks in a worker: sent, signed, retried and recorded as fires are, and in none of their
figures."""

from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from postdate import verify
from scheduler.errors import OutcomeUnknown
from scheduler.models import Invocation, Outcome, Retry, Status
from scheduler.schema import USUAL_DELAYS_MS
from scheduler.store.verdict import Verdict
from tests.worker.scene import Scene
from tests.worker.scripted import answer, answering, playing, until

AT = "2026-11-20T08:00:00.000Z"
SAID = {
    "scheduleId": "sch_01jd3m0000e0080000000000a0",
    "invocationId": "inv_01jd3m0000e0080000000000a0",
    "targetUrl": "https://example.com/",
    "targetMethod": "POST",
    "triggerAt": AT,
    "executedAt": AT,
    "status": "failed",
    "statusCode": 503,
    "responseTimeMs": 1,
    "errorMessage": "Service Unavailable",
    "attempts": 1,
}
BODY = json.dumps({"type": "schedule.failed", "timestamp": AT, "data": SAID}).encode()
RETRIES = 5


def callback(scene: Scene, url: str, made: int = 0, **fields: Any) -> Invocation:
    """One that the next claim brings, of which so many attempts were recorded."""
    what = {"method": "POST", "body": BODY, "retries": RETRIES, "reference": "order-1"}
    given = scene.hand_out(url=url, attempt=made + 1, **(what | fields))
    given.is_callback = True
    if made:
        failed = Outcome(Status.FAILED, 503, 1, "Service Unavailable")
        given.retry = Retry(made, scene.store.clock.now_ms(), made, failed, 1)
    return given


async def test_a_callback_goes_out_under_an_id_of_its_own(scene: Scene) -> None:
    async with playing(answering(answer())) as target:
        given = callback(scene, target.url(), made=2)
        await scene.start()
        await until(lambda: scene.held == 0 and scene.claims.called_back != [])
        await scene.stop()
    [ack] = scene.claims.called_back
    assert (ack.invocation, ack.next_attempt_at_ms) == (given, None)
    [request] = target.requests
    head, _, body = request.partition(b"\r\n\r\n")
    lines = dict(line.split(": ") for line in head.decode().split("\r\n")[1:])
    headers = {name.lower(): value for name, value in lines.items()}
    assert headers["webhook-id"] == "cbk_" + given.schedule_id[4:]
    assert {name: value for name, value in headers.items() if name.startswith("postdate-")} == {
        "postdate-schedule-id": given.schedule_id,
        "postdate-attempt": "3",
        "postdate-reference": "order-1",
    }
    assert body == BODY
    now_s = scene.store.clock.now_ms() / 1000
    ended = verify(headers, body, scene.store.signing.secret, now=now_s)
    assert (ended and ended.webhook_id) == headers["webhook-id"]


@pytest.mark.parametrize(
    ("status", "made", "result", "delay_ms"),
    [
        (200, 0, "delivered", None),
        (404, 0, "failed", None),
        (503, 0, "retried", USUAL_DELAYS_MS[0]),
        (503, RETRIES - 1, "retried", USUAL_DELAYS_MS[RETRIES - 1]),
        (503, RETRIES, "failed", None),
    ],
)
async def test_it_is_retried_as_a_fire_is_and_in_no_figure_of_fires(
    scene: Scene, status: int, made: int, result: str, delay_ms: int | None
) -> None:
    async with playing(answering(answer(b"", f"{status} X"))) as target:
        callback(scene, target.url(), made)
        before_ms = scene.store.clock.now_ms()
        await scene.start()
        await until(lambda: scene.claims.called_back != [])
        after_ms = scene.store.clock.now_ms()
        await scene.stop()
    endings = scene.pipeline.endings
    [ack] = scene.claims.called_back
    assert scene.recorded == []
    assert {name: n for name, n in endings.callbacks.items() if n} == {result: 1}
    assert (ack.next_attempt_at_ms is None) == (delay_ms is None)
    if ack.next_attempt_at_ms is not None and delay_ms is not None:
        assert before_ms + 0.9 * delay_ms < ack.next_attempt_at_ms < after_ms + 2 * delay_ms
    assert (endings.fired, endings.tally.failures) == (0, {})
    assert endings.tally.worst_lateness_ms() is None
    assert sum(each.count for each in endings.tally.durations_ms.values()) == 0


async def test_an_outcome_of_one_is_recorded_through_lost_replies_and_by_a_drain(
    scene: Scene,
) -> None:
    async with playing(answering(answer(), answer())) as target:
        given = [callback(scene, target.url(), made) for made in (0, 1)]
        scene.claims.raised["ack"] += [OutcomeUnknown("lost")] * 3
        await scene.start()
        await until(lambda: len(target.requests) == 2)
        await scene.stop()
    assert {ack.invocation for ack in scene.claims.called_back} == set(given)
    assert scene.held == 0


@pytest.mark.parametrize("verdict", [Verdict.HELD, Verdict.DAMAGED])
async def test_one_that_another_records_or_is_damaged_is_named_and_let_go(
    scene: Scene, verdict: Verdict
) -> None:
    async with playing(answering(answer())) as target:
        given = callback(scene, target.url())
        scene.claims.taken.add(given)
        scene.claims.verdict = verdict
        with capture_logs() as logged:
            await scene.start()
            await until(lambda: scene.claims.called_back != [] and scene.held == 0)
            await scene.stop()
    assert given.schedule_id in [each.get("schedule") for each in logged]


async def test_a_shard_that_is_back_is_claimed_from_once_its_callbacks_are_recorded(
    scene: Scene,
) -> None:
    async with playing(answering(answer())) as target:
        given = callback(scene, target.url())
        await scene.start()
        await until(lambda: given.stage == "sent" or target.requests != [])
        scene.claims.away.add(0)
        await until(lambda: 0 in scene.worker.touch.lost)
        before = len(scene.claims.calls)
        scene.claims.away.clear()
        await until(lambda: 0 not in scene.worker.touch.lost)
        assert [each.invocation for each in scene.claims.called_back] == [given]
        since = [name for name, shard in scene.claims.calls[before:] if shard == 0]
        assert "claim" not in since[: since.index("ack")]
        await scene.stop()


async def test_what_is_not_sent_when_a_worker_ends_goes_back(scene: Scene) -> None:
    given = callback(scene, "http://example.com/", trigger_at_ms=2**42)
    await scene.start()
    await until(lambda: scene.held == 1)
    await scene.stop()
    assert scene.claims.released == [given]


async def test_callbacks_take_up_slots_of_their_account(scene: Scene) -> None:
    """So that a flood of them is passed over like one of schedules."""
    given = callback(scene, "http://example.com/", trigger_at_ms=2**42)
    free = scene.pipeline.holdings.slots.free
    await scene.start()
    await until(lambda: scene.held == 1)
    assert scene.pipeline.holdings.slots.free == free - 1
    assert scene.pipeline.holdings.of(given.shard) == [given]
    await scene.stop()
    assert scene.pipeline.holdings.slots.free == free
