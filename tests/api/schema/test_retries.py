"""The fields for retries, and how answers show them."""

from __future__ import annotations

from typing import Any

import pytest

from api.schema.rules import NO_DURATION
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


NOT_THAT_MANY, NO_NUMBER = "It must be from 0 to 20.", "It must be a whole number."
NO_ARRAY = "It must be an array of durations."
NONE_OR_MANY = "It must have from 1 to 20 durations."


async def retried(api: Api, wait_ms: int = 60_000, **fields: Any) -> str:
    """One whose first attempt has failed."""
    schedule_id = await api.create_id(triggerAt=past(), **({"retries": 3} | fields))
    held = await api.claim()
    due_ms = api.store.clock.now_ms() + wait_ms
    acks = [Ack(each, UNAVAILABLE, 1, due_ms) for each in held]
    await api.store.ends.ack(held[0].shard, acks)
    return schedule_id


@pytest.mark.parametrize(
    ("fields", "retries", "delays"),
    [
        ({"retries": None, "retryDelays": None}, 0, None),
        ({"retries": 0, "retryDelays": ["1s"]}, 0, None),
        ({"retries": 3.0}, 3, ["10s", "1m", "10m", "1h", "6h"]),
        ({"retries": 1, "retryDelays": ["1s"]}, 1, ["1s"]),
        ({"retries": 20, "retryDelays": [90, "1500ms", 2.0]}, 20, ["1m30s", "1s500ms", "2s"]),
        ({"retries": 2, "retryDelays": ["10s"] * 20}, 2, ["10s"] * 20),
    ],
)
async def test_what_is_asked_for_comes_back(
    api: Api, fields: dict[str, Any], retries: int, delays: list[str] | None
) -> None:
    found = await api.read(await api.create_id(**fields))
    assert (found["retries"], found["retryDelays"]) == (retries, delays)
    assert (found["attempts"], found["nextAttemptAt"]) == (0, None)


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        *(({"retries": value}, "retries", NOT_THAT_MANY) for value in (-1, 21)),
        *(({"retries": value}, "retries", NO_NUMBER) for value in (1.5, "5", True)),
        *(
            ({"retryDelays": value}, "retryDelays", NO_ARRAY)
            for value in ("10s", 10, [1.5], [None])
        ),
        *(({"retryDelays": value}, "retryDelays", NONE_OR_MANY) for value in ([], ["10s"] * 21)),
        *(
            ({"retryDelays": ["10s", delay]}, "retryDelays", "Each must be from 1s to 7d.")
            for delay in ("7d1ms", 0, 7 * 86_400 + 1)
        ),
        ({"retryDelays": ["10s", "soon"]}, "retryDelays", NO_DURATION),
    ],
)
async def test_what_breaks_a_rule_is_named(
    api: Api, fields: dict[str, Any], field: str, message: str
) -> None:
    answer = await api.create(**({"retries": 1} | fields))
    assert answer.status_code == 400
    assert answer.json()["details"] == [{"field": field, "message": message}]


async def test_delays_without_retries_are_a_mistake(api: Api) -> None:
    answer = await api.create(retryDelays=["10s"])
    message = "It needs retries, which is 0 unless you ask for more."
    assert answer.json()["details"] == [{"field": "retryDelays", "message": message}]
    assert (await api.create(retryDelays=None)).status_code == 201


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
    waiting, attempt = (await api.client.get("/stats/logs")).json()["logs"]
    assert (waiting["status"], waiting["attempt"]) == ("scheduled", 1)
    assert (attempt["status"], attempt["attempt"]) == ("retrying", 1)
    assert attempt["executedAt"] == found["executedAt"]
    for entry in (waiting, attempt):
        assert entry["nextAttemptAt"] == found["nextAttemptAt"]
    logs = (await api.client.get("/stats/logs", params={"status": "retrying"})).json()
    assert logs["logs"] == [attempt]
    own = await api.client.get("/stats/logs", params={"scheduleId": schedule_id})
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
