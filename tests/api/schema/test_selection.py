"""The schedules that a bulk call selects, and its errors."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import Any

import pytest

from api.calls.bulk import FAILED, parse_selection
from scheduler.errors import InvalidRequest
from scheduler.masks import MASK
from scheduler.store.queries.listing import Selection
from scheduler.times import parse_iso8601
from tests.api.conftest import URL
from tests.api.letters import UNKNOWN

FAR = "2030-01-01T00:00:00Z"
STATUS = {"status": "failed"}

BAD_SELECTIONS: list[tuple[Any, list[str]]] = [
    ({}, ["status"]),
    ([], ["body"]),
    ({"status": "completed"}, ["status"]),
    ({"targetUrl": URL}, ["status"]),
    ({"ids": []}, ["ids"]),
    ({"ids": ["x", UNKNOWN, 1, None, "\ud800"]}, ["ids[2]", "ids[3]", "ids[4]"]),
    ({"ids": [UNKNOWN], "status": "failed", "limit": 1}, ["status", "limit"]),
    ({"ids": [UNKNOWN] * 1001}, ["ids"]),
    ({"status": "failed", "limit": 1001}, ["limit"]),
    ({"status": "failed", "limit": 1e300}, ["limit"]),
    ({"status": "failed", "targetUrl": 1, "from": "x", "to": 2}, ["targetUrl", "from", "to"]),
    ({"status": "failed", "from": FAR, "to": "2026-01-01T00:00:00Z"}, ["from"]),
    ({"status": "failed", "targetUrl": f"https://a.example/?token={MASK}"}, ["targetUrl"]),
    ({"status": "failed", "cursor": "x"}, ["cursor"]),
    ({"status": "failed", "lane": "-"}, ["lane"]),
]


def parsed(body: Any) -> Any:
    return parse_selection(json.dumps(body).encode(), "/path", FAILED)


@pytest.mark.parametrize(("body", "bad"), BAD_SELECTIONS)
def test_every_bad_field_is_named(body: Any, bad: list[str]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parsed(body)
    assert [detail.field for detail in refused.value.details] == bad


def test_each_name_has_an_answer_and_each_schedule_is_meant_once() -> None:
    other, long = UNKNOWN[:-1] + "w", "x" * 101
    asked = parsed({"ids": [other, "sch_8" + "0" * 25, UNKNOWN, "", long, other]})
    assert asked.schedule_ids == [other, UNKNOWN]
    done = [(each, "done") for each in asked.schedule_ids]
    assert asked.answers(done, itemgetter(0), lambda name: (name, "unknown")) == [
        (other, "done"),
        ("sch_8" + "0" * 25, "unknown"),
        (UNKNOWN, "done"),
        ("", "unknown"),
        ("x" * 100 + "…", "unknown"),
        (other, "done"),
    ]


@pytest.mark.parametrize(
    ("body", "selection"),
    [
        (dict.fromkeys(("targetUrl", "from", "to", "limit", "cursor")), Selection(limit=1000)),
        ({"limit": 100.0}, Selection(limit=100)),
        (
            {"from": "1900-01-01T00:00:00Z", "to": FAR},
            Selection(from_ms=0, to_ms=parse_iso8601(FAR), limit=1000),
        ),
    ],
)
def test_null_is_as_good_as_absent(body: dict[str, Any], selection: Selection) -> None:
    asked = parsed({**STATUS, **body})
    assert (asked.schedule_ids, asked.selection) == (None, selection)
