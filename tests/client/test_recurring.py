"""Recurring schedules, against a scripted server."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from postdate import Created, CreatedRecurring, DeletedRecurring, Preview, Recurring
from tests.client.both import Client, Server, answer

URL = "https://example.com/report"
RULE: dict[str, Any] = {
    "recurringId": "rec_1", "name": "report", "cron": "0 9 * * 1-5", "every": None,
    "timeZone": "Europe/Berlin", "startsAt": None, "endsAt": "2027-01-01T00:00:00.000Z",
    "expiresAfter": "1h", "description": "At 09:00 on weekdays, Berlin", "state": "active",
    "reason": None, "nextAt": "2026-11-24T08:00:00.000Z", "scheduleId": "sch_1", "missed": 0,
    "next": ["2026-11-24T08:00:00.000Z", "2026-11-25T08:00:00.000Z"],
    "createdAt": "2026-11-23T12:00:00.000Z", "targetUrl": URL, "targetMethod": "POST",
    "targetHeaders": {}, "targetBody": {"n": 1},
}  # fmt: skip
NEXT = (datetime(2026, 11, 24, 8, tzinfo=UTC), datetime(2026, 11, 25, 8, tzinfo=UTC))
AS_RECURRING = Recurring(
    "rec_1", "active", "At 09:00 on weekdays, Berlin", datetime(2026, 11, 23, 12, tzinfo=UTC),
    name="report", cron="0 9 * * 1-5", time_zone="Europe/Berlin",
    ends_at=datetime(2027, 1, 1, tzinfo=UTC), expires_after="1h", next_at=NEXT[0],
    schedule_id="sch_1", next=NEXT, target_url=URL, target_method="POST", target_headers={},
    target_body={"n": 1}, etag='"abc"',
)  # fmt: skip
CREATED = {"recurringId": "rec_1", "scheduleId": "sch_1", "nextAt": "2026-11-24T08:00:00.000Z"}


def test_one_is_created_once_however_often_it_is_sent(client: Client, server: Server) -> None:
    server.plays(answer(503), answer(201, CREATED, idempotency_replayed="true"))
    given = {"cron": "0 9 * * 1-5", "time_zone": "Europe/Berlin", "name": "report"}
    made = client.create_recurring(URL, json={"n": 1}, every=None, callback_url=None, **given)
    assert made == CreatedRecurring("rec_1", "sch_1", NEXT[0], replayed=True)
    assert server.bodies[0] == server.bodies[1]
    assert server.bodies[0] == {
        "targetUrl": URL,
        "targetBody": {"n": 1},
        "callbackUrl": None,
        "cron": "0 9 * * 1-5",
        "timeZone": "Europe/Berlin",
        "name": "report",
    }
    first, second = server.sent("idempotency-key")
    assert first == second is not None


def test_each_call_goes_to_its_path(client: Client, server: Server) -> None:
    server.plays(answer(200, RULE, etag='"abc"'))
    ends = datetime(2027, 1, 1, tzinfo=UTC)
    every = timedelta(minutes=15)
    assert client.recurring("rec_1") == AS_RECURRING
    put = client.put_recurring("a:b", URL, every=every, starts_at=ends)
    assert dataclasses.asdict(put) == {
        **dataclasses.asdict(AS_RECURRING),
        "created": False,
        "unchanged": False,
    }
    changed = {"cron": None, "every": "1h", "ends_at": None, "url": URL, "expires_after": 60}
    client.change_recurring("rec_1", if_match='"abc"', **changed)
    client.put_recurring("a:b", URL, every=every, if_none_match="*")
    pause = {"paused_until": ends, "pause_note": "x"}
    paused = client.pause_recurring("rec_1", if_match='"abc"', **pause)
    assert paused == client.resume_recurring("rec_1", if_match='"abc"') == AS_RECURRING
    client.change_recurring("rec_1", paused=True, **pause)
    assert server.asked == [
        ("GET", "/recurring/rec_1"),
        ("PUT", "/recurring/by-name/a:b"),
        ("PATCH", "/recurring/rec_1"),
        ("PUT", "/recurring/by-name/a:b"),
        ("POST", "/recurring/rec_1/pause"),
        ("POST", "/recurring/rec_1/resume"),
        ("PATCH", "/recurring/rec_1"),
    ]
    assert server.sent("if-match") == [None, None, '"abc"', None, '"abc"', '"abc"', None]
    assert server.sent("if-none-match") == [None, None, None, "*", None, None, None]
    sent = {"pausedUntil": "2027-01-01T00:00:00Z", "pauseNote": "x"}
    assert (server.bodies[4], server.bodies[6]) == (sent, {"paused": True, **sent})
    assert server.bodies[1:3] == [
        {"targetUrl": URL, "every": "900000ms", "startsAt": "2027-01-01T00:00:00Z"},
        {"targetUrl": URL, "cron": None, "every": "1h", "endsAt": None, "expiresAfter": "60000ms"},
    ]


@pytest.mark.parametrize(("status", "unchanged"), [(201, False), (200, False), (200, True)])
def test_a_put_says_what_it_did(
    client: Client, server: Server, status: int, unchanged: bool
) -> None:
    server.plays(answer(status, RULE | {"unchanged": unchanged}))
    put = client.put_recurring("a", URL, every=60)
    assert (put.created, put.unchanged) == (status == 201, unchanged)


def test_a_name_stands_in_the_place_of_an_id(client: Client, server: Server) -> None:
    server.plays(answer(200, RULE))
    assert client.recurring("name:a:b").name == "report"
    assert server.asked == [("GET", "/recurring/name:a:b")]


def test_one_is_triggered_once_and_deleted(client: Client, server: Server) -> None:
    moment = {"triggerAt": "2026-11-24T08:00:00.000Z"}
    made = {"scheduleId": "sch_2", "invocationId": "inv_2", **moment, "message": "Scheduled"}
    server.plays(answer(201, made), answer(200, {"recurringId": "rec_1", "creditsRemaining": 7}))
    triggered = client.trigger_recurring("rec_1", idempotency_key="k", if_match='"abc"')
    assert triggered == Created("sch_2", "inv_2", NEXT[0], "Scheduled")
    assert client.delete_recurring("rec_1", if_match='"abc"') == DeletedRecurring("rec_1", 7)
    assert server.sent("if-match") == ['"abc"', '"abc"']
    asked = [("POST", "/recurring/rec_1/trigger"), ("DELETE", "/recurring/rec_1")]
    assert server.asked == asked
    assert server.sent("idempotency-key") == ["k", None]


def test_a_rule_is_previewed(client: Client, server: Server) -> None:
    server.plays(answer(200, {"next": RULE["next"], "description": "At 09:00"}))
    assert client.preview_recurring(every=90, time_zone="UTC") == Preview(NEXT, "At 09:00")
    assert server.queries == [{"every": "90000ms", "timeZone": "UTC"}]
