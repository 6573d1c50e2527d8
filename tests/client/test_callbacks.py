"""Callbacks, against a scripted server."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from postdate import Account, Callback, Conflict
from tests.client.both import Client, Server, answer, error

HERE = "https://example.com/ended"
SCHEDULE: dict[str, Any] = {
    "scheduleId": "sch_1",
    "invocationId": "inv_1",
    "status": "failed",
    "createdAt": "2026-11-23T12:00:00.000Z",
    "triggerAt": "2026-11-23T12:00:00.000Z",
    "targetUrl": "https://example.com/hook",
    "targetMethod": "GET",
    "targetHeaders": {},
    "callbackUrl": HERE,
    "callbackOn": "failed",
    "phases": None,
}
PENDING = {
    "status": "pending",
    "attempts": 1,
    "statusCode": 503,
    "errorMessage": "Service Unavailable",
    "nextAttemptAt": "2026-11-23T12:00:10.000Z",
}
AS_PENDING = Callback(
    "pending", 1, 503, "Service Unavailable", datetime(2026, 11, 23, 12, 0, 10, tzinfo=UTC)
)
CREATED = {"scheduleId": "sch_1", "invocationId": "inv_1", "triggerAt": SCHEDULE["triggerAt"]}


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, {}),
        ({"callback_url": HERE}, {"callbackUrl": HERE}),
        ({"callback_url": None}, {"callbackUrl": None}),
        ({"callback_on": "failed"}, {"callbackOn": "failed"}),
        ({"callback_on": None}, {}),
    ],
)
def test_no_callback_differs_from_none_named(
    client: Client, server: Server, given: dict[str, Any], sent: dict[str, Any]
) -> None:
    server.plays(answer(201, CREATED))
    client.schedule("https://example.com/hook", delay="1h", **given)
    [request] = server.requests
    body = {"targetUrl": "https://example.com/hook", "delay": "1h", **sent}
    assert json.loads(request.content) == body


def test_a_schedule_says_how_its_callback_stands(client: Client, server: Server) -> None:
    server.plays(answer(200, SCHEDULE | {"callback": PENDING}), answer(200, SCHEDULE))
    found = client.get("sch_1")
    assert (found.callback_url, found.callback_on) == (HERE, "failed")
    assert found.callback == AS_PENDING
    assert client.get("sch_1").callback is None


def test_a_callback_is_sent_again(client: Client, server: Server) -> None:
    pending = error(409, reason="callback_pending", status="failed")
    server.plays(answer(202, PENDING), answer(202, PENDING), pending)
    assert client.resend_callback("sch_1") == AS_PENDING
    client.resend_callback("sch_1", callback_url=HERE)
    with pytest.raises(Conflict) as caught:
        client.resend_callback("sch_1")
    assert (caught.value.reason, caught.value.status) == ("callback_pending", "failed")
    assert server.asked == [("POST", "/schedule/sch_1/callback")] * 3
    assert [json.loads(each.content) for each in server.requests] == [{}, {"callbackUrl": HERE}, {}]


def test_the_accounts_callback_is_set_and_removed(client: Client, server: Server) -> None:
    body = {"paused": False, "callbackUrl": HERE, "callbackOn": "failed"}
    server.plays(answer(200, body, etag='"a"'))
    account = client.change_account(callback_url=HERE, callback_on="failed")
    assert account == Account(False, callback_url=HERE, callback_on="failed", etag='"a"')
    client.change_account(callback_url=None)
    assert [json.loads(each.content) for each in server.requests] == [
        {"callbackUrl": HERE, "callbackOn": "failed"},
        {"callbackUrl": None},
    ]
