"""GET /stats, /stats/logs, /stats/remaining-credits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from unittest.mock import AsyncMock

import pytest

from api.query import Walk
from scheduler.errors import FieldError, InvalidRequest
from scheduler.models import LogEntry, Status, Usage
from scheduler.store.log.logs import LogPage, LogQuery
from tests.api.conftest import CREDITS, URL, Api, bad_fields

EXECUTED = LogEntry(
    schedule_id="sch_01jd3v9x8kfw3s9s2m2v2v2v2v",
    created_at_ms=1_795_161_600_000,
    scheduled_at_ms=1_795_161_660_000,
    executed_at_ms=1_795_161_660_013,
    url=URL,
    method="POST",
    status=Status.FAILED,
    status_code=404,
    response_time_ms=12,
    error_message="Not Found",
    attempt=1,
)


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
        "executedAt": None,
        "targetUrl": URL,
        "targetMethod": "POST",
        "status": "scheduled",
        "statusCode": 0,
        "responseTimeMs": 0,
        "errorMessage": "",
        "attempt": 0,
        "nextAttemptAt": None,
    }


async def test_an_entry_has_the_contracts_names(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    page = AsyncMock(return_value=LogPage([EXECUTED], "def"))
    monkeypatch.setattr(api.store.logs, "page", page)
    walk = Walk("/stats/logs", "asc", "failed", URL)
    parameters = {
        "status": "failed",
        "targetUrl": URL,
        "from": "1970-01-01T00:00:01Z",
        "to": "1970-01-01T00:00:02Z",
        "limit": "7",
        "order": "asc",
        "cursor": walk.given_out("abc"),
    }
    answer = await api.client.get("/stats/logs", params=parameters)
    query = LogQuery(Status.FAILED, URL, 1000, 2000, 7, False, "abc")
    page.assert_awaited_once_with(api.account_id, query)
    assert answer.json() == {
        "logs": [
            {
                "invocationId": "inv_01jd3v9x8kfw3s9s2m2v2v2v2v",
                "scheduleId": "sch_01jd3v9x8kfw3s9s2m2v2v2v2v",
                "createdAt": "2026-11-20T08:00:00.000Z",
                "scheduledAt": "2026-11-20T08:01:00.000Z",
                "executedAt": "2026-11-20T08:01:00.013Z",
                "targetUrl": URL,
                "targetMethod": "POST",
                "status": "failed",
                "statusCode": 404,
                "responseTimeMs": 12,
                "errorMessage": "Not Found",
                "attempt": 1,
                "nextAttemptAt": None,
            }
        ],
        "nextCursor": walk.given_out("def"),
    }


async def test_a_cancelled_schedule_is_listed_as_cancelled(api: Api) -> None:
    schedule_id = await api.create_id()
    await api.client.delete(f"/schedule/{schedule_id}")
    [entry] = (await api.client.get("/stats/logs", params={"status": "cancelled"})).json()["logs"]
    assert (entry["scheduleId"], entry["status"]) == (schedule_id, "cancelled")
    assert entry["executedAt"] is None
    waiting = await api.client.get("/stats/logs", params={"status": "scheduled"})
    assert waiting.json() == {"logs": [], "nextCursor": None}


async def test_pages_follow_each_other_without_gaps_or_repeats(api: Api) -> None:
    made = {await api.create_id() for _ in range(5)}
    seen: list[str] = []
    parameters = {"limit": "2"}
    while parameters.get("cursor", "") is not None:
        body = (await api.client.get("/stats/logs", params=parameters)).json()
        seen += [entry["scheduleId"] for entry in body["logs"]]
        parameters["cursor"] = body["nextCursor"]
    assert len(seen) == 5
    assert set(seen) == made


@pytest.mark.parametrize("cursor", ["", "x", "!!", "e30", "%00", "9" * 500])
async def test_a_cursor_that_is_none_of_ours_is_a_400(api: Api, cursor: str) -> None:
    answer = await api.client.get(f"/stats/logs?cursor={cursor}")
    assert bad_fields(answer) == ["cursor"]


async def test_a_stale_cursor_is_a_400(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = InvalidRequest([FieldError("cursor", "It is stale.")])
    monkeypatch.setattr(api.store.logs, "page", AsyncMock(side_effect=stale))
    answer = await api.client.get("/stats/logs")
    assert answer.status_code == 400
    assert answer.json()["details"] == [{"field": "cursor", "message": "It is stale."}]


async def test_usage_of_nothing_is_zeros(api: Api) -> None:
    answer = await api.client.get("/stats")
    assert answer.status_code == 200
    body = answer.json()
    period = body.pop("timeRange")
    assert body == {
        "totalInvocations": 0,
        "successfulInvocations": 0,
        "failedInvocations": 0,
        "averageResponseTime": 0,
    }
    from_, to = (datetime.fromisoformat(period[end]) for end in ("from", "to"))
    assert (from_.second, from_.microsecond) == (0, 0)
    assert timedelta(days=30) - timedelta(minutes=1) < to - from_ <= timedelta(days=30)
    assert abs(to - datetime.now(UTC)) < timedelta(seconds=10)


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
        ("/stats/logs?from=2026-11-02T00:00:00Z&to=2026-11-01T00:00:00Z", ["from"]),
        ("/stats/logs?%ff", ["query"]),
        ("/stats/remaining-credits?verbose=1", ["verbose"]),
    ],
)
async def test_a_bad_query_is_a_400_that_names_all(api: Api, path: str, fields: list[str]) -> None:
    answer = await api.client.get(path)
    assert bad_fields(answer) == fields


@pytest.mark.parametrize("path", ["/stats?", "/stats/logs?", "/stats/logs?order=asc&"])
@pytest.mark.parametrize(
    "period",
    [
        "from=0001-01-01T00:00:00%2B23:59&to=9999-12-31T23:59:59.999-23:59",
        "from=0001-01-01T00:00:00Z&to=1969-12-31T00:00:00Z",
        "from=9000-01-01T00:00:00Z&to=9999-12-31T23:59:59.999Z",
    ],
)
async def test_the_ends_of_the_calendar_break_nothing(api: Api, path: str, period: str) -> None:
    assert (await api.client.get(path + period)).status_code in (200, 400)
