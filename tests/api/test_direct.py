"""POST /schedule is not led through litestar; `/schedule/`, the same path to litestar, is."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import AsyncMock

import pytest

from scheduler.errors import OutcomeUnknown
from tests.api.conftest import URL, Api

BODY = json.dumps({"targetUrl": URL, "delay": "1h"})


@pytest.mark.parametrize(
    ("query", "headers", "body"),
    [
        ("", {}, BODY),
        ("", {}, "{"),
        ("", {}, '{"targetUrl": 1}'),
        ("?limit=1", {}, BODY),
        ("", {"x-api-key": ""}, BODY),
        ("", {"x-api-key": "pd_00_none"}, BODY),
        ("", [("x-api-key", "one"), ("x-api-key", "two")], BODY),
        ("", {"content-encoding": "gzip"}, BODY),
        ("", {"idempotency-key": "no key"}, BODY),
        ("", {}, '"' + "x" * 300_000 + '"'),
    ],
)
async def test_both_ways_give_the_same_answer_and_count_as_the_same_route(
    api: Api, query: str, headers: Any, body: str
) -> None:
    answers = [
        await api.client.post(path + query, headers=headers, content=body)
        for path in ("/schedule", "/schedule/")
    ]
    assert len({answer.status_code for answer in answers}) == 1
    assert len({tuple(answer.headers) for answer in answers}) == 1
    if not answers[0].is_success:
        assert len({answer.text for answer in answers}) == 1
    tally = api.app.state.service.tally
    assert list(tally.requests.items()) == [(("/schedule", "POST", answers[0].status_code), 2)]


@pytest.mark.parametrize(("error", "status"), [(OutcomeUnknown("lost"), 503), (OSError("x"), 500)])
async def test_both_ways_tell_the_same_of_a_fault(
    api: Api, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    monkeypatch.setattr(api.store.schedules, "create_all", AsyncMock(side_effect=error))
    direct, routed = [
        await api.client.post(path, content=BODY) for path in ("/schedule", "/schedule/")
    ]
    assert direct.status_code == routed.status_code == status
    assert direct.text == routed.text
    assert direct.headers == routed.headers
