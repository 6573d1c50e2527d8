"""POST /schedule is not led through litestar."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.callers import Rate
from tests.api.conftest import URL, Api
from tests.api.errors import error_of

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
async def test_all_ways_give_the_same_answer_and_count_as_the_same_route(
    api: Api, query: str, headers: Any, body: str
) -> None:
    """The first request looks up the key by itself, the others while they store."""
    answers = [
        await api.client.post(path + query, headers=headers, content=body)
        for path in ["/schedule"] * 3
    ]
    assert len({answer.status_code for answer in answers}) == 1
    assert len({tuple(answer.headers) for answer in answers}) == 1
    if not answers[0].is_success:
        assert len({repr(error_of(answer)) for answer in answers}) == 1
    tally = api.app.state.service.tally
    assert list(tally.requests.items()) == [(("/schedule", "POST", answers[0].status_code), 3)]


async def test_a_known_key_beyond_its_rate_has_no_body_read(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def used_up(*arguments: Any) -> None:
        arguments[-1](Rate(limit=10, remaining=0, full_in_s=1, wait_s=3))

    await api.create()
    monkeypatch.setattr(api.store.schedules, "create_by_key", used_up)
    answer = await api.create()
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")
    assert api.store.api_keys.known(api.key) is None
