"""Bodies and queries of recurring schedules: values, and faults with their fields."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from api.schema.query import read_query
from api.schema.recurring_fields import (
    PREVIEW,
    parse_draft,
    parse_draft_change,
    parse_put,
    timing_of,
)
from api.schema.rules import Rules
from scheduler.errors import InvalidRequest, Reason
from scheduler.masks import MASK
from scheduler.models import Request
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft, Rule, RuleState
from scheduler.target.destinations import Destinations
from scheduler.times import parse_iso8601

NOW = parse_iso8601("2026-11-23T03:00:00Z")
RULES = Rules(Destinations(), max_horizon_days=1826)
URL = "https://example.com/report"
DAILY: dict[str, Any] = {"targetUrl": URL, "cron": "0 9 * * *"}


def draft(**members: Any) -> Draft:
    return parse_draft(json.dumps(DAILY | members).encode(), RULES, NOW)


def refused(refusal: pytest.ExceptionInfo[InvalidRequest]) -> dict[str, str]:
    return {detail.field: detail.message for detail in refusal.value.details}


def test_a_body_has_a_rule_and_a_request() -> None:
    whole = draft(
        name="report.eu",
        cron=" 0 9 * * mon-fri",
        timeZone="Europe/Berlin",
        startsAt="2026-12-01T00:00:00Z",
        endsAt="2026-12-31T00:00:00Z",
        expiresAfter="1h",
        targetBody={"order": 17},
        retries=3,
        lane="reports",
    )
    starts, ends = map(parse_iso8601, ("2026-12-01T00:00:00Z", "2026-12-31T00:00:00Z"))
    assert whole.name == "report.eu"
    assert whole.timing == Timing("0 9 * * MON-FRI", None, "Europe/Berlin", starts, ends, 3_600_000)
    assert whole.request == Request(
        0, "POST", URL, body=b'{"order": 17}', method_given=False, retries=3, lane="reports"
    )


@pytest.mark.parametrize("span", ["15m", 900])
def test_an_interval_is_a_duration_or_seconds(span: str | int) -> None:
    assert draft(cron=None, every=span, timeZone=None).timing == Timing(every_ms=900_000)


@pytest.mark.parametrize(
    ("members", "field", "word"),
    [
        ({"cron": None}, "cron", "Exactly one"),
        ({"every": "1m"}, "cron", "Exactly one"),
        ({"cron": "0 0 9 * * *"}, "cron", "five fields"),
        ({"cron": 5}, "cron", "must be a string"),
        ({"cron": None, "every": "999ms"}, "every", "from 1s to 366d"),
        ({"cron": None, "every": "soon"}, "every", "duration"),
        ({"timeZone": "x" * 100_000}, "timeZone", "IANA"),
        ({"startsAt": "2040-01-01T00:00:00Z"}, "startsAt", "1,826 days ahead"),
        (
            {"startsAt": "2026-12-02T00:00:00Z", "endsAt": "2026-12-01T00:00:00Z"},
            "endsAt",
            "startsAt",
        ),
        ({"expiresAfter": 0}, "expiresAfter", "366d"),
        ({"name": "with space"}, "name", "letters"),
        ({"name": ""}, "name", "letters"),
        ({"name": "rec_01m7td70g0fw3s9s2m2v2v2v2v"}, "name", "no id"),
        ({"triggerAt": "2026-12-02T00:00:00Z"}, "triggerAt", "cron or every"),
        ({"delay": "1h"}, "delay", "startsAt"),
        ({"expiresAt": "2026-12-02T00:00:00Z"}, "expiresAt", "expiresAfter"),
        ({"onExisting": "keep"}, "onExisting", "no such field"),
        ({"targetUrl": None}, "targetUrl", "string"),
        ({"retryDelays": ["1m"]}, "retryDelays", "retries"),
    ],
)
def test_a_bad_field_is_named(members: dict[str, Any], field: str, word: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        draft(**members)
    found = refused(refusal)
    assert list(found) == [field]
    assert word in found[field]
    assert refusal.value.reason is Reason.INVALID_FIELD


def test_all_bad_fields_are_named_at_once() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        draft(cron="60 * * * *", timeZone="Mars", targetUrl="ftp://example.com", retries=99)
    assert set(refused(refusal)) == {"cron", "timeZone", "targetUrl", "retries"}


def test_the_request_is_needed() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_draft(b'{"every": "1m"}', RULES, NOW)
    assert refused(refusal) == {"targetUrl": "It is required."}


def test_a_put_takes_its_name_from_the_path() -> None:
    body = json.dumps(DAILY).encode()
    assert parse_put(body, "report", RULES, NOW).name == "report"
    same = json.dumps(DAILY | {"name": "report"}).encode()
    assert parse_put(same, "report", RULES, NOW).name == "report"
    with pytest.raises(InvalidRequest) as refusal:
        parse_put(same, "another", RULES, NOW)
    assert list(refused(refusal)) == ["name"]


BEFORE = Rule(
    recurring_id="rec_01m7td70g0fw3s9s2m2v2v2v2v",
    name="report",
    timing=Timing(cron="0 9 * * *", zone="Europe/Berlin", starts_at_ms=NOW, anchor_ms=NOW),
    request=Request(0, "GET", URL, {"X-Api-Key": "secret"}, method_given=False),
    state=RuleState.ACTIVE,
    created_at_ms=NOW,
)


KEY = "targetHeaders.X-Api-Key"


@pytest.mark.parametrize(
    ("members", "rule", "bad"),
    [
        ({}, BEFORE, None),
        ({"targetMethod": "GET", "callbackUrl": "default", "callbackOn": None}, BEFORE, None),
        ({}, None, [KEY]),  # there is none of the name
        ({"targetHeaders": {"X-Api-Key": MASK, "X-New": "1"}}, BEFORE, [KEY]),
        ({"targetUrl": "https://other.example/"}, BEFORE, [KEY]),
    ],
)
def test_in_a_put_a_mask_stands_for_the_secret_that_is_there(
    members: dict[str, Any], rule: Rule | None, bad: list[str] | None
) -> None:
    body = DAILY | {"targetHeaders": {"X-Api-Key": MASK}} | members
    wanted = parse_put(json.dumps(body).encode(), "report", RULES, NOW)
    if bad is None:
        assert wanted.of(rule).request == BEFORE.request
        return
    with pytest.raises(InvalidRequest) as refusal:
        wanted.of(rule)
    assert list(refused(refusal)) == bad


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"timeZone": None}, {"zone": "UTC"}),
        ({"cron": "0 8 * * *"}, {"cron": "0 8 * * *"}),
        ({"every": "1h"}, {"cron": None, "every_ms": 3_600_000}),
        ({"every": "1h", "cron": None}, {"cron": None, "every_ms": 3_600_000}),
        ({"startsAt": None}, {"starts_at_ms": None}),
        ({"retries": 2}, {}),
    ],
)
def test_a_change_keeps_what_it_does_not_name(
    members: dict[str, Any], expected: dict[str, Any]
) -> None:
    change = parse_draft_change(json.dumps(members).encode(), RULES, NOW)
    after = change.of(BEFORE)
    fields = ("cron", "every_ms", "zone", "starts_at_ms")
    kept = {name: getattr(BEFORE.timing, name) for name in fields}
    assert {name: getattr(after.timing, name) for name in fields} == kept | expected
    assert after.name == "report"
    assert after.request.url == URL
    assert after.request.retries == members.get("retries", 0)


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({}, "body"),
        ({"cron": None}, "cron"),
        ({"cron": "* * * * *", "every": "1h"}, "cron"),
        ({"endsAt": "2026-11-22T00:00:00Z"}, "endsAt"),
        ({"triggerAt": "2026-12-22T00:00:00Z"}, "triggerAt"),
        ({"targetUrl": "https://other.example"}, "targetHeaders.X-Api-Key"),
    ],
)
def test_a_change_is_judged_on_its_result(members: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        parse_draft_change(json.dumps(members).encode(), RULES, NOW).of(BEFORE)
    assert list(refused(refusal)) == [field]


def test_a_stored_rule_is_not_judged_anew_by_a_change_beside_its_times() -> None:
    """`*/90` was accepted once."""
    before = replace(BEFORE, timing=Timing(cron="*/90 * * * *"))
    after = parse_draft_change(b'{"retries": 2}', RULES, NOW).of(before)
    assert (after.timing, after.request.retries) == (before.timing, 2)
    with pytest.raises(InvalidRequest):
        parse_draft_change(b'{"timeZone": "Europe/Berlin"}', RULES, NOW).of(before)


def test_a_null_name_is_dropped() -> None:
    assert parse_draft_change(b'{"name": null}', RULES, NOW).of(BEFORE).name is None


def test_a_query_has_a_rule_too() -> None:
    query = b"every=900&startsAt=2026-12-01T00:00:00Z"
    starts = parse_iso8601("2026-12-01T00:00:00Z")
    assert timing_of(read_query(query, PREVIEW)) == Timing(every_ms=900_000, starts_at_ms=starts)
    query = b"cron=0+9+*+*+1-5&timeZone=Europe/Berlin"
    expected = Timing(cron="0 9 * * 1-5", zone="Europe/Berlin")
    assert timing_of(read_query(query, PREVIEW)) == expected
    with pytest.raises(InvalidRequest):
        read_query(b"every=" + b"9" * 5000, PREVIEW)
