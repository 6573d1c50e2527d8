"""Lanes, the account's pause and its callback, against a scripted server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from postdate import Account, ClearedLane, Lane, PreconditionFailed
from tests.client.both import URL, Client, Server, answer

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
NOON_TEXT = "2026-11-23T12:00:00.000Z"
LANE: dict[str, Any] = {
    "lane": "partner:b", "rate": 10, "per": "1m", "burst": 1, "parallelism": None, "note": None,
    "paused": True, "pausedUntil": NOON_TEXT, "pausedBy": "ci", "pauseNote": None,
    "calmUntil": None, "state": "paused", "waiting": 7, "due": 2, "running": 1,
    "oldestDueAt": NOON_TEXT, "emptyAt": None,
}  # fmt: skip
AS_LANE = Lane(
    "partner:b", rate=10, per="1m", burst=1, paused=True, paused_until=NOON, paused_by="ci",
    state="paused", waiting=7, due=2, running=1, oldest_due_at=NOON, etag='"abc"',
)  # fmt: skip


def test_a_lane_is_read_set_changed_and_cleared(client: Client, server: Server) -> None:
    cleared = {"lane": "partner:b", "waiting": 7, "message": "Cleared"}
    server.plays(*[answer(200, LANE, etag='"abc"')] * 7, answer(200, cleared))
    assert client.lane("partner:b") == AS_LANE
    assert client.set_lane("partner:b", rate=10, per=timedelta(minutes=1)) == AS_LANE
    client.set_lane("partner:b", parallelism=3, note="x", if_match='"abc"')
    client.change_lane("partner:b", paused=True, paused_until=NOON, per=None, calm_until=None)
    assert client.pause_lane("partner:b", paused_until=NOON, pause_note="x") == AS_LANE
    assert client.resume_lane("partner:b", if_match='"abc"') == AS_LANE
    client.set_lane("partner:b", if_none_match="*")
    cleared_lane = client.clear_lane("partner:b", if_match='"abc"')
    assert cleared_lane == ClearedLane("partner:b", 7, "Cleared")
    path, methods = "/lanes/partner:b", ("GET", "PUT", "PUT", "PATCH")
    assert server.asked == [
        *((method, path) for method in methods),
        *(("POST", path + "/pause"), ("POST", path + "/resume"), ("PUT", path), ("DELETE", path)),
    ]
    changed = {"paused": True, "pausedUntil": "2026-11-23T12:00:00Z"}
    assert server.bodies[1:5] == [
        {"rate": 10, "per": "60000ms"},
        {"parallelism": 3, "note": "x"},
        {**changed, "per": None, "calmUntil": None},
        {"pausedUntil": "2026-11-23T12:00:00Z", "pauseNote": "x"},
    ]
    assert server.sent("if-match") == [None, None, '"abc"', None, None, '"abc"', None, '"abc"']
    assert server.sent("if-none-match") == [*[None] * 6, "*", None]


def test_the_account_is_paused_resumed_and_given_a_callback(client: Client, server: Server) -> None:
    body = {"paused": True, "pausedUntil": None, "pausedBy": "ci", "pauseNote": "x"}
    called = {"paused": False, "callbackUrl": URL, "callbackOn": "failed"}
    server.plays(answer(200, body, etag='"abc"'), answer(200, called, etag='"a"'))
    assert client.account() == Account(True, None, "ci", "x", etag='"abc"')
    account = client.change_account(callback_url=URL, callback_on="failed")
    assert account == Account(False, callback_url=URL, callback_on="failed", etag='"a"')
    client.change_account(paused=False, pause_note=None, callback_url=None, if_match='"abc"')
    client.pause_account(pause_note="x")
    client.resume_account()
    assert server.asked == [
        *(("GET", "/account"), ("PATCH", "/account"), ("PATCH", "/account")),
        *(("POST", "/account/pause"), ("POST", "/account/resume")),
    ]
    assert server.bodies[1:4] == [
        {"callbackUrl": URL, "callbackOn": "failed"},
        {"paused": False, "pauseNote": None, "callbackUrl": None},
        {"pauseNote": "x"},
    ]


def test_other_settings_than_those_that_were_seen(client: Client, server: Server) -> None:
    server.plays(answer(412, {"error": "No", "reason": "precondition_failed"}))
    with pytest.raises(PreconditionFailed) as caught:
        client.set_lane("a", if_match='"abc"')
    assert (caught.value.reason, caught.value.maybe_done) == ("precondition_failed", False)
    for call in (client.set_lane, client.change_lane):
        with pytest.raises(ValueError, match="if_match is the etag"):
            call("a", if_match='"a"\r\nx: y')
    with pytest.raises(ValueError, match="if_none_match is the etag"):
        client.set_lane("a", if_none_match='"a"\r\nx: y')
    assert len(server.requests) == 1
