"""Acks: an outcome is recorded once, by who holds the schedule, with all that goes with it."""

from __future__ import annotations

import pytest

from scheduler.models import Outcome, Status
from scheduler.store.verdict import Verdict
from tests.store.scene import COMPLETED, CREDITS, FAILED, URL, Holdings, Scene

pytestmark = pytest.mark.sound


@pytest.mark.parametrize("outcome", [COMPLETED, FAILED], ids=["completed", "failed"])
async def test_an_ack_ends_the_schedule_and_logs_it(scene: Scene, outcome: Outcome) -> None:
    schedule_id = await scene.run(outcome)
    stored = await scene.get(schedule_id)
    assert (stored.status, stored.outcome, stored.executing) == (outcome.status, outcome, False)
    [entry] = await scene.log()
    assert (entry.schedule_id, entry.url, entry.method) == (schedule_id, URL, "POST")
    assert (entry.created_at_ms, entry.scheduled_at_ms, entry.executed_at_ms) == (
        stored.created_at_ms,
        stored.request.trigger_at_ms,
        stored.ended_at_ms,
    )
    assert (entry.status, entry.status_code) == (outcome.status, outcome.status_code)
    assert entry.response_time_ms == outcome.response_time_ms
    assert entry.error_message == outcome.error_message
    log = {str(outcome.status): 1}
    assert await scene.holdings() == Holdings(CREDITS - 1, 1, 0, 0, log)
    assert await scene.claim() == []


async def test_a_second_ack_is_not_counted(scene: Scene) -> None:
    invocation = await scene.held()
    assert await scene.ack([invocation, invocation]) == [1, 0]
    assert await scene.ack([invocation], FAILED) == [0]
    assert await scene.holdings() == Holdings(CREDITS - 1, 1, 0, 0, {"completed": 1})


@pytest.mark.time_passes
async def test_an_ack_by_a_lost_token_is_refused(scene: Scene) -> None:
    first = await scene.lapsed()
    second = await scene.claim_one()
    assert await scene.ack([first]) == [Verdict.HELD]
    assert await scene.status(first.schedule_id) == Status.SCHEDULED
    assert await scene.ack([second], FAILED) == [1]
    assert await scene.ack([first]) == [0]
    assert await scene.holdings() == Holdings(CREDITS - 1, 1, 0, 0, {"failed": 1})
