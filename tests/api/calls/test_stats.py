"""GET /stats, /stats/logs, /stats/remaining-credits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from unittest.mock import AsyncMock

import pytest

from scheduler.rollups import Usage
from tests.api.conftest import CREDITS, URL, Api, bad_fields


async def test_credits_are_what_is_left(api: Api) -> None:
    await api.create()
    answer = await api.client.get("/stats/remaining-credits")
    assert (answer.status_code, answer.json()) == (200, {"creditsRemaining": CREDITS - 1})


async def test_a_waiting_schedule_is_in_the_log_with_zeros(api: Api) -> None:
    due = (datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=123_000)
    created = await api.create(triggerAt=due.isoformat(), targetBody={})
    answer = await api.client.get("/stats/logs")
    assert answer.status_code == 200
    body = answer.json()
    assert body["nextCursor"] is None
    [entry] = body["logs"]
    created_at = datetime.fromisoformat(entry.pop("createdAt"))
    assert timedelta(0) <= datetime.now(UTC) - created_at < timedelta(minutes=1)
    assert entry == {
        "invocationId": created.json()["invocationId"],
        "scheduleId": created.json()["scheduleId"],
        "scheduledAt": f"{due:%Y-%m-%dT%H:%M:%S}.123Z",
        "targetUrl": URL,
        "targetMethod": "POST",
        "status": "scheduled",
        "errorMessage": "",
        **dict.fromkeys(("statusCode", "responseTimeMs", "attempt", "missed"), 0),
        **dict.fromkeys(("executedAt", "nextAttemptAt", "latenessMs", "phases", "responseBody")),
        **dict.fromkeys(("lane", "reference", "recurringId")),
        "labels": [],
    }


async def test_usage_has_the_contracts_names(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = AsyncMock(side_effect=lambda _, *period: Usage(2, 1, 301, *period))
    monkeypatch.setattr(api.store.stats, "usage", usage)
    answer = await api.client.get(
        "/stats?from=2026-11-01T00:00:00.5Z&to=2026-11-02T01:00:00%2B01:00"
    )
    body = answer.json()
    assert body.pop("averageResponseTime") == pytest.approx(100.333, abs=0.001)
    assert body == {
        "totalInvocations": 3,
        "successfulInvocations": 2,
        "failedInvocations": 1,
        "timeRange": {"from": "2026-11-01T00:00:00.500Z", "to": "2026-11-02T00:00:00.000Z"},
    }


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/stats?from=2026-11-02T00:00:00Z&to=2026-11-01T00:00:00Z", ["from"]),
        ("/stats?limit=5&status=failed", ["limit", "status"]),
        ("/stats/logs?limit=0&order=up&status=done", ["limit", "order", "status"]),
        ("/stats/remaining-credits?verbose=1", ["verbose"]),
    ],
)
async def test_a_bad_query_is_a_400_that_names_all(api: Api, path: str, fields: list[str]) -> None:
    answer = await api.client.get(path)
    assert bad_fields(answer) == fields
