"""What goes out, and what comes back, against a scripted server."""

from __future__ import annotations

import copy
import pickle
from datetime import datetime, timedelta
from typing import Any

import pytest

from postdate import (
    Callback,
    Cancelled,
    Conflict,
    Created,
    HeldBy,
    InsufficientCredits,
    InvalidRequest,
    LogEntry,
    NewSchedule,
    Phases,
    PostdateError,
    RateLimited,
    Replayed,
    Resent,
    Schedule,
)
from tests.client.both import (
    BASE_URL,
    CREATED,
    KEY,
    MORNING,
    MORNING_TEXT,
    URL,
    Client,
    Server,
    answer,
    error,
)
from tests.client.test_lanes import LANE
from tests.client.test_recurring import RULE

SCHEDULE: dict[str, Any] = {
    **CREATED, "status": "scheduled", "createdAt": MORNING_TEXT, "targetUrl": URL,
    "targetMethod": "POST", "targetHeaders": {"X-A": "1"}, "targetBody": {"n": 1},
    "delivery": "at-least-once", "expiresAt": None, "executedAt": None, "statusCode": None,
    "responseTimeMs": None, "errorMessage": None,
}  # fmt: skip
AS_SCHEDULE = Schedule(
    "sch_1", "inv_1", "scheduled", MORNING, MORNING, target_url=URL, target_method="POST",
    target_headers={"X-A": "1"}, target_body={"n": 1},
)  # fmt: skip


def test_a_schedule_with_all_that_it_may_say(client: Client, server: Server) -> None:
    server.plays(answer(201, {**CREATED, "message": "Scheduled"}))
    created = client.schedule(
        URL, at=MORNING, json={"text": "für später"}, method="PUT", headers={"X-A": "1"},
        delivery="at-most-once", expires_at=MORNING + timedelta(hours=1),
        timeout=timedelta(seconds=5), idempotency_key="mine",
    )  # fmt: skip
    assert created == Created("sch_1", "inv_1", MORNING, "Scheduled")
    [request] = server.requests
    assert (request.method, str(request.url)) == ("POST", f"{BASE_URL}/schedule")
    assert request.headers["x-api-key"] == KEY
    assert request.headers["idempotency-key"] == "mine"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("postdate-client")
    assert server.bodies == [
        {
            "targetUrl": URL, "triggerAt": "2026-11-20T08:00:00Z", "targetMethod": "PUT",
            "targetHeaders": {"X-A": "1"}, "targetBody": {"text": "für später"},
            "delivery": "at-most-once", "expiresAt": "2026-11-20T09:00:00Z", "timeout": "5000ms",
        }
    ]  # fmt: skip


def test_one_that_waits_is_meant_by_its_reference(client: Client, server: Server) -> None:
    server.plays(answer(200, {**CREATED, "existing": True}))
    fields = {"reference": "order-1", "on_existing": "replace", "max_wait": timedelta(minutes=1)}
    made = client.schedule(URL, delay="10s", **fields)
    assert made == Created("sch_1", "inv_1", MORNING, existing=True)
    [body] = server.bodies
    asked = {"reference": "order-1", "onExisting": "replace", "maxWait": "60000ms"}
    assert body == {"targetUrl": URL, "delay": "10s", **asked}


@pytest.mark.parametrize(
    ("delay", "text"),
    [("1h30m", "1h30m"), (0.0001, "1ms"), (timedelta(days=2, microseconds=1), "172800001ms")],
)
def test_a_delay_is_counted_by_the_server(
    client: Client, server: Server, delay: timedelta | float | str, text: str
) -> None:
    server.plays(answer(201, CREATED), answer(200, SCHEDULE))
    client.schedule(URL, delay=delay)
    client.change("sch_1", delay=delay)
    assert server.bodies == [{"targetUrl": URL, "delay": text}, {"delay": text}]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "Say when"),
        ({"at": MORNING, "in_": 5}, "Say when"),
        ({"delay": -1}, "cannot be negative"),
        ({"in_": 1e12}, "further ahead than there are years"),
        ({"at": MORNING.replace(tzinfo=None)}, "at has no time zone"),
        ({"at": MORNING, "expires_at": datetime(2026, 11, 20)}, "expires_at has no time zone"),  # noqa: DTZ001
        ({"at": MORNING, "json": {"n": float("nan")}}, "not JSON compliant"),
        ({"at": MORNING.date()}, "at must be a datetime or a str, not date"),
        ({"at": MORNING, "retry_delays": "10s"}, "must be a list"),
        ({"att": MORNING}, "att"),
    ],
)
def test_what_only_the_caller_can_mean_is_refused(
    client: Client, server: Server, arguments: dict[str, Any], says: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        client.schedule(URL, **arguments)
    assert server.requests == []


def test_a_batch_answers_each_item_with_what_schedule_would_have(
    client: Client, server: Server
) -> None:
    bad = {"code": 400, "error": "Bad", "details": [{"field": "targetUrl", "message": "No."}]}
    unpaid = {"code": 402, "error": "No", "reason": "insufficient_credits", "details": []}
    headers = {"idempotency_replayed": "true", "postdate_request_id": "req_1"}
    server.plays(answer(200, {"schedules": [CREATED, bad, unpaid]}, **headers))
    new = [NewSchedule(URL, at=MORNING), NewSchedule("x", in_=1), NewSchedule(URL, at=MORNING)]
    created, invalid, poor = client.schedule_batch(iter(new), idempotency_key="mine")
    assert created == Created("sch_1", "inv_1", MORNING, replayed=True)
    assert isinstance(invalid, InvalidRequest)
    assert [(each.field, each.message) for each in invalid.details] == [("targetUrl", "No.")]
    assert isinstance(poor, InsufficientCredits)
    assert (poor.reason, poor.request_id) == ("insufficient_credits", "req_1")
    assert server.asked == [("POST", "/schedule/batch")]
    assert [each["targetUrl"] for each in server.bodies[0]["schedules"]] == [URL, "x", URL]
    assert server.sent("idempotency-key") == ["mine"]


PENDING = {
    "status": "pending",
    "attempts": 1,
    "statusCode": 503,
    "errorMessage": "Service Unavailable",
    "nextAttemptAt": MORNING_TEXT,
}
AS_PENDING = Callback("pending", 1, 503, "Service Unavailable", MORNING)


def test_phases_and_a_callback_are_values_of_their_own(client: Client, server: Server) -> None:
    told = {"connectionReused": False, "resolveMs": None, "connectMs": 2, "newPhaseMs": 1}
    both = {"phases": told, "callbackUrl": URL, "callbackOn": "failed", "callback": PENDING}
    server.plays(answer(200, SCHEDULE | both), answer(200, SCHEDULE | {"phases": None}))
    found = client.get("sch_1")
    assert (found.phases, found.callback) == (Phases(False, None, 2), AS_PENDING)
    assert (found.callback_url, found.callback_on) == (URL, "failed")
    assert client.get("sch_1") == AS_SCHEDULE


def test_what_holds_a_schedule_is_a_value_of_its_own(client: Client, server: Server) -> None:
    of_lane = {"cause": "lane_rate", "lane": "eu", "until": MORNING_TEXT, "ahead": 3}
    page = {"schedules": [{**SCHEDULE, "heldBy": {**of_lane, "estimated": True}}]}
    done = {"schedules": [], "creditsRemaining": 1, "occurrencesLeft": 0, "nextCursor": None}
    server.plays(answer(200, {**page, "nextCursor": None}), answer(200, done))
    [found] = client.list(held=True, lane="eu")
    assert found.held_by == HeldBy("lane_rate", "eu", MORNING, estimated=True, ahead=3)
    assert client.cancel_many(held=True) == ()
    assert str(server.requests[0].url).endswith("/schedule?lane=eu&held=true&limit=100")
    assert server.bodies[-1] == {"held": True, "status": "scheduled", "limit": 1000}
    with pytest.raises(TypeError, match="held must be True or False, not str"):
        client.cancel_many(held="true")  # type: ignore[arg-type]


def test_no_callback_differs_from_none_named(client: Client, server: Server) -> None:
    server.plays(answer(201, CREATED))
    given = {"callback_url": URL, "callback_on": "failed"}
    for more in ({}, given, dict.fromkeys(given)):
        client.schedule(URL, delay="1h", **more)
    plain = {"targetUrl": URL, "delay": "1h"}
    named = {**plain, "callbackUrl": URL, "callbackOn": "failed"}
    assert server.bodies == [plain, named, {**plain, "callbackUrl": None}]


def test_a_callback_is_sent_again(client: Client, server: Server) -> None:
    pending = error(409, reason="callback_pending", status="failed")
    server.plays(answer(202, PENDING), answer(202, PENDING), pending)
    assert client.resend_callback("sch_1") == AS_PENDING
    client.resend_callback("sch_1", callback_url=URL)
    with pytest.raises(Conflict) as caught:
        client.resend_callback("sch_1")
    assert (caught.value.reason, caught.value.status) == ("callback_pending", "failed")
    assert server.asked == [("POST", "/schedule/sch_1/callback")] * 3
    assert server.bodies == [{}, {"callbackUrl": URL}, {}]


def test_many_callbacks_are_sent_again(client: Client, server: Server) -> None:
    item = {"scheduleId": "sch_1", "callback": PENDING}
    limited = refused("scheduleId", "sch_2", 429) | {"reason": "rate_limited"}
    server.plays(
        answer(200, {"schedules": [item, limited], "nextCursor": None}),
        answer(200, {"schedules": [item], "nextCursor": "c"}),
        answer(200, {"schedules": [item], "nextCursor": None}),
        answer(200, {"schedules": [], "nextCursor": None}),
    )
    done, late = client.resend_callbacks(["sch_1", "sch_2"])
    assert done == Resent("sch_1", AS_PENDING)
    assert isinstance(late, RateLimited)
    assert late.schedule_id == "sch_2"
    assert client.resend_callbacks(lane="a", limit=2) == (done, done)
    assert client.resend_callbacks(callback="delivered") == ()
    assert server.asked == [("POST", "/schedule/callback")] * 4
    assert server.bodies == [
        {"ids": ["sch_1", "sch_2"]},
        {"lane": "a", "callback": "failed", "limit": 2},
        {"lane": "a", "callback": "failed", "limit": 1, "cursor": "c"},
        {"callback": "delivered", "limit": 1000},
    ]
    with pytest.raises(ValueError, match="not both"):
        client.resend_callbacks(["sch_1"], callback="failed")


def test_change_sends_what_is_given_and_null_clears(client: Client, server: Server) -> None:
    server.plays(answer(200, SCHEDULE))
    assert client.change("sch_1", at=MORNING, json=None, headers={}) == AS_SCHEDULE
    client.change("sch_1", url=URL, method=None, delivery="at-most-once", expires_at=None)
    client.change("sch_1", expires_at=MORNING)
    assert server.asked == [("PATCH", "/schedule/sch_1")] * 3
    assert server.bodies == [
        {"triggerAt": "2026-11-20T08:00:00Z", "targetBody": None, "targetHeaders": {}},
        {"targetUrl": URL, "targetMethod": None, "delivery": "at-most-once", "expiresAt": None},
        {"expiresAt": "2026-11-20T08:00:00Z"},
    ]


def test_a_change_and_a_cancel_are_bound_to_what_was_read(client: Client, server: Server) -> None:
    cancelled = {"scheduleId": "sch_1", "creditsRemaining": 1, "status": "cancelled"}
    server.plays(*[answer(200, SCHEDULE, etag='"abc"')] * 2, answer(200, cancelled))
    found = client.get("sch_1")
    assert found.etag == '"abc"'
    assert client.change("sch_1", if_match=found.etag, retries=1) == found
    assert client.cancel("sch_1", if_match=found.etag) == Cancelled("sch_1", 1)
    assert server.sent("if-match") == [None, '"abc"', '"abc"']
    assert server.bodies[1] == {"retries": 1}


def refused(name: str, schedule_id: str, code: int = 409) -> dict[str, Any]:
    return {"code": code, "error": "No", "details": [], name: schedule_id, "status": None}


def test_a_replay_says_what_is_to_be_another(client: Client, server: Server) -> None:
    server.plays(answer(201, {**CREATED, "replayOf": "sch_0"}))
    replayed = client.replay("sch_0", url=URL, delay="10s", headers=None, idempotency_key="k")
    assert replayed == Replayed("sch_1", "inv_1", MORNING, "sch_0")
    assert server.asked == [("POST", "/schedule/sch_0/replay")]
    assert server.sent("idempotency-key") == ["k"]
    client.replay("sch_0")
    assert server.bodies == [{"targetUrl": URL, "delay": "10s", "targetHeaders": None}, {}]
    assert all(server.sent("idempotency-key"))


def test_more_than_a_thousand_are_replayed_in_several_calls(client: Client, server: Server) -> None:
    def replayed(n: str) -> Replayed:
        return Replayed(f"xsch_{n}", "inv_1", MORNING, f"sch_{n}")

    ids = [f"sch_{n}" for n in range(1500)]
    done = [{**CREATED, "scheduleId": "x" + name, "replayOf": name} for name in ids]
    done[7] = refused("replayOf", "sch_7", 402)
    server.plays(
        answer(200, {"schedules": done[:1000], "nextCursor": None}),
        answer(200, {"schedules": done[1000:], "nextCursor": None}),
    )
    results = client.replay_many([*ids, "sch_3"], idempotency_key="k")
    assert len(results) == 1501
    assert results[-1] == results[3] == replayed("3")
    assert results[8] == replayed("8")
    assert isinstance(results[7], InsufficientCredits)
    assert results[7].schedule_id == "sch_7"
    assert server.bodies == [{"ids": ids[:1000]}, {"ids": ids[1000:]}]
    assert server.sent("idempotency-key") == ["k", "k-2"]


def test_what_failed_is_replayed_to_the_end_of_the_list(client: Client, server: Server) -> None:
    item = {**CREATED, "replayOf": "sch_0"}
    server.plays(
        answer(200, {"schedules": [item] * 2, "nextCursor": "c"}),
        answer(200, {"schedules": [], "nextCursor": "d"}),
        answer(200, {"schedules": [item], "nextCursor": None}),
    )
    results = client.replay_many(url=URL, from_=MORNING_TEXT, limit=7)
    assert results == (Replayed("sch_1", "inv_1", MORNING, "sch_0"),) * 3
    chosen = {"targetUrl": URL, "from": MORNING_TEXT, "status": "failed"}
    assert server.bodies == [
        {**chosen, "limit": 7},
        {**chosen, "limit": 5, "cursor": "c"},
        {**chosen, "limit": 5, "cursor": "d"},
    ]


def test_many_are_cancelled_and_an_id_that_is_given_twice_has_its_result_twice(
    client: Client, server: Server
) -> None:
    items = [
        {"scheduleId": "sch_1", "status": "cancelled"},
        {**refused("scheduleId", "sch_2"), "status": "completed"},
        {"scheduleId": "sch_3", "status": "failed"},
    ]
    server.plays(answer(200, {"schedules": items, "creditsRemaining": 9, "nextCursor": None}))
    ids = ["sch_1", "sch_2", "sch_3"]
    first, second, third, again = client.cancel_many([*ids, "sch_2"])
    assert (first, third) == (Cancelled("sch_1", 9), Cancelled("sch_3", 9, status="failed"))
    assert isinstance(second, Conflict)
    assert (second.schedule_id, second.status) == ("sch_2", "completed")
    assert isinstance(again, Conflict)
    assert again.schedule_id == "sch_2"
    assert server.bodies == [{"ids": ids}]


def test_what_waits_and_matches_is_cancelled_and_occurrences_that_were_left_are_added_up(
    client: Client, server: Server
) -> None:
    item = {"scheduleId": "sch_1", "status": "cancelled"}
    rest = {"creditsRemaining": 9}
    server.plays(
        answer(200, {"schedules": [item], "nextCursor": "c", "occurrencesLeft": 2, **rest}),
        answer(200, {"schedules": [], "nextCursor": None, "occurrencesLeft": 1, **rest}),
        answer(200, {"schedules": [item], "nextCursor": None, "occurrencesLeft": 0, **rest}),
    )
    done = client.cancel_many(url=URL)
    assert (done, done.occurrences_left) == ((Cancelled("sch_1", 9),), 3)
    asked = {"targetUrl": URL, "status": "scheduled"}
    assert server.bodies[:2] == [{**asked, "limit": 1000}, {**asked, "limit": 1000, "cursor": "c"}]
    for copied in (copy.copy(done), pickle.loads(pickle.dumps(done))):
        assert (copied, copied.occurrences_left) == (done, 3)
    assert client.cancel_many(["sch_1"]).occurrences_left == 0


def test_an_answer_for_other_ids_is_no_answer(client: Client, server: Server) -> None:
    item = {"scheduleId": "sch_1", "status": "cancelled"}
    server.plays(answer(200, {"schedules": [item], "creditsRemaining": 9, "nextCursor": None}))
    with pytest.raises(PostdateError, match="from Postdate: it is for 1 schedules") as caught:
        client.cancel_many(["sch_1", "sch_2"])
    assert caught.value.maybe_done


@pytest.mark.parametrize("asked", [{}, {"idempotency_key": "k"}])
def test_a_later_call_that_fails_names_the_key_of_the_whole(
    client: Client, server: Server, asked: dict[str, Any]
) -> None:
    done = [{**CREATED, "replayOf": f"sch_{n}"} for n in range(1000)]
    server.plays(answer(200, {"schedules": done, "nextCursor": None}), answer(500, {"error": "No"}))
    with pytest.raises(PostdateError) as caught:
        client.replay_many([f"sch_{n}" for n in range(1001)], **asked)
    first, second = server.sent("idempotency-key")
    assert caught.value.idempotency_key == first == asked.get("idempotency_key", first)
    assert second == f"{first}-2"
    assert caught.value.maybe_done  # the first part was


@pytest.mark.parametrize("name", ["cancel_many", "replay_many", "resend_callbacks"])
def test_ids_and_a_choice_are_not_both_meant(client: Client, server: Server, name: str) -> None:
    call = getattr(client, name)
    with pytest.raises(TypeError, match=r"^schedule_ids\[1\] must be a str, not None"):
        call(["sch_1", None])
    with pytest.raises(ValueError, match="not both"):
        call(["sch_1"], url=URL)
    with pytest.raises(ValueError, match="at least one id"):
        call([])
    assert server.requests == []


ENTRY = {
    "invocationId": "inv_1", "scheduleId": "sch_1", "createdAt": MORNING_TEXT,
    "scheduledAt": MORNING_TEXT, "executedAt": None, "targetUrl": URL, "targetMethod": "GET",
    "status": "cancelled", "statusCode": 0, "responseTimeMs": 0, "errorMessage": "",
}  # fmt: skip
READ = {
    "list": AS_SCHEDULE,
    "logs": LogEntry("inv_1", "sch_1", MORNING, MORNING, None, URL, "GET", "cancelled", 0, 0, ""),
}
SPAN = {"from_": MORNING, "to": "2026-11-21T00:00:00Z"}
SPAN_ASKED = {"from": "2026-11-20T08:00:00Z", "to": "2026-11-21T00:00:00Z"}
CHOSEN = {"status": "failed", "order": "asc"}


@pytest.mark.parametrize(
    ("name", "key", "item", "given", "asked"),
    [
        ("list", "schedules", SCHEDULE, {"url": URL, **SPAN, **CHOSEN},
         {"targetUrl": URL, **SPAN_ASKED, **CHOSEN}),
        ("logs", "logs", ENTRY, {"status": ("executed", "cancelled")},
         {"status": "executed,cancelled"}),
        ("lanes", "lanes", LANE, {}, {}),
        ("recurring_all", "recurring", {**RULE, "next": None}, {"state": "active"},
         {"state": "active"}),
    ],
)  # fmt: skip
def test_lists_are_read_page_by_page(
    client: Client,
    server: Server,
    name: str,
    key: str,
    item: dict[str, Any],
    given: dict[str, Any],
    asked: dict[str, str],
) -> None:
    pages = [([item] * 2, "c1"), ([], "c2"), ([item], None)]
    server.plays(*(answer(200, {key: some, "nextCursor": cursor}) for some, cursor in pages))
    first, *others = getattr(client, name)(**given)
    assert others == [first] * 2
    if name in READ:
        assert first == READ[name]
    else:
        assert first.etag is None
    asked = {**asked, "limit": "100"}
    assert server.queries == [asked, {**asked, "cursor": "c1"}, {**asked, "cursor": "c2"}]


def test_statistics_are_of_a_time_range(client: Client, server: Server) -> None:
    told = dict.fromkeys(("totalInvocations", "failedInvocations", "successfulInvocations"), 2)
    span = {"from": MORNING_TEXT, "to": MORNING_TEXT}
    server.plays(answer(200, {**told, "averageResponseTime": 7, "timeRange": span}))
    found = client.stats(from_=MORNING)
    assert (found.total_invocations, found.average_response_time) == (2, 7)
    assert (found.time_range.from_, found.time_range.to) == (MORNING, MORNING)
    assert server.queries == [{"from": "2026-11-20T08:00:00Z"}]
