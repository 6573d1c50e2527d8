"""Schedules between two attempts, as answers show them."""

from __future__ import annotations

from typing import Any

from scheduler.models import Answer, Outcome, Phases, Status
from scheduler.store.lifecycle.end.end_rows import Ack
from tests.api.conftest import NEW_YEAR, Api, past

UNAVAILABLE = Outcome(
    Status.FAILED,
    503,
    12,
    "Service Unavailable",
    answer=Answer("text/plain", b"busy"),
    phases=Phases(first_byte_ms=11, last_byte_ms=1),
)


async def retried(api: Api, wait_ms: int = 60_000, **fields: Any) -> str:
    """One whose first attempt has failed."""
    schedule_id = await api.create_id(triggerAt=past(), **({"retries": 3} | fields))
    held = await api.claim()
    due_ms = api.store.clock.now_ms() + wait_ms
    acks = [Ack(each, UNAVAILABLE, 1, due_ms) for each in held]
    await api.store.ends.ack(held[0].shard, acks)
    return schedule_id


async def test_between_attempts_the_last_one_is_told_and_when_the_next_is(api: Api) -> None:
    schedule_id = await retried(api)
    found = await api.read(schedule_id)
    assert (found["status"], found["attempts"], found["statusCode"]) == ("scheduled", 1, 503)
    assert (found["responseTimeMs"], found["errorMessage"]) == (12, "Service Unavailable")
    assert (found["responseBody"], found["responseContentType"]) == ("busy", "text/plain")
    assert found["phases"] == {
        "connectionReused": True,
        **dict.fromkeys(("resolveMs", "connectMs", "tlsMs")),
        "firstByteMs": 11,
        "lastByteMs": 1,
    }
    assert found["executedAt"] < found["nextAttemptAt"]
    assert (await api.client.get("/schedule")).json()["schedules"] == [found]
    waiting, attempt = (await api.client.get("/stats/logs?status=all")).json()["logs"]
    assert (waiting["status"], waiting["attempt"]) == ("scheduled", 1)
    assert (attempt["status"], attempt["attempt"]) == ("retrying", 1)
    assert attempt["executedAt"] == found["executedAt"]
    for entry in (waiting, attempt):
        assert entry["nextAttemptAt"] == found["nextAttemptAt"]
    logs = (await api.client.get("/stats/logs", params={"status": "retrying"})).json()
    assert logs["logs"] == [attempt]
    assert (await api.client.get("/stats/logs")).json()["logs"] == [waiting]
    own = await api.client.get("/stats/logs", params={"scheduleId": schedule_id, "status": "all"})
    assert own.json()["logs"] == [attempt | {"responseBody": "busy"}, waiting]
    assert attempt["phases"] == found["phases"]
    usage = (await api.client.get("/stats")).json()
    assert usage["totalInvocations"] == 0


async def test_a_change_moves_the_next_attempt_only_if_it_says_when(api: Api) -> None:
    schedule_id = await retried(api)
    before = await api.read(schedule_id)
    changes = {"retries": 9, "retryDelays": ["2m"]}
    answer = await api.client.patch(f"/schedule/{schedule_id}", json=changes)
    assert (answer.status_code, answer.json()) == (200, before | changes)
    moved = {"triggerAt": NEW_YEAR}
    answer = await api.client.patch(f"/schedule/{schedule_id}", json=moved)
    assert answer.json() == before | changes | moved | {"nextAttemptAt": NEW_YEAR}
    assert await api.read(schedule_id) == answer.json()


async def test_a_delete_between_attempts_stops_the_rest_without_a_refund(api: Api) -> None:
    schedule_id = await retried(api)
    left = await api.credits()
    answer = await api.client.delete(f"/schedule/{schedule_id}")
    assert answer.status_code == 200
    assert answer.json() == {
        "scheduleId": schedule_id,
        "status": "failed",
        "creditsRemaining": left,
        "message": "Stopped after 1 attempt; no credit was refunded",
        "statusCode": 503,
        "responseTimeMs": 12,
        "errorMessage": "Service Unavailable",
        "attempts": 1,
    }
    assert await api.credits() == left
    found = await api.read(schedule_id)
    assert (found["status"], found["nextAttemptAt"], found["attempts"]) == ("failed", None, 1)
    again = await api.client.delete(f"/schedule/{schedule_id}")
    assert (again.status_code, again.json()) == (200, answer.json())
