"""POST /schedule is not led through litestar; `/schedule/`, the same path to litestar, is."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import AsyncMock

import pytest

from scheduler.errors import OutcomeUnknown
from scheduler.models import Rate
from tests.api.conftest import CREDITS, URL, Api

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
        for path in ("/schedule", "/schedule", "/schedule/")
    ]
    assert len({answer.status_code for answer in answers}) == 1
    assert len({tuple(answer.headers) for answer in answers}) == 1
    if not answers[0].is_success:
        assert len({answer.text for answer in answers}) == 1
    tally = api.app.state.service.tally
    assert list(tally.requests.items()) == [(("/schedule", "POST", answers[0].status_code), 3)]


@pytest.mark.parametrize(("refusal", "status"), [("deactivated", 401), ("suspended", 403)])
async def test_a_known_key_is_judged_at_each_create(api: Api, refusal: str, status: int) -> None:
    assert (await api.create()).status_code == 201
    [key] = await api.store.api_keys.of_account(api.account_id)
    if refusal == "suspended":
        await api.store.changes.suspend(api.account_id)
    else:
        await api.store.api_keys.deactivate(key.key_id)
    assert [(await api.create()).status_code for _ in range(2)] == [status] * 2
    assert await api.credits() == CREDITS - 1


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


@pytest.mark.parametrize("known", [False, True], ids=["a new key", "a key that is known"])
@pytest.mark.parametrize(("error", "status"), [(OutcomeUnknown("lost"), 503), (OSError("x"), 500)])
async def test_both_ways_tell_the_same_of_a_fault(
    api: Api, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, known: bool
) -> None:
    if not known:
        monkeypatch.setattr(api.store.api_keys, "known", lambda _: None)
    await api.create()
    fault = AsyncMock(side_effect=error)
    monkeypatch.setattr(api.store.schedules, "create_by_key" if known else "create_all", fault)
    direct, routed = [
        await api.client.post(path, content=BODY) for path in ("/schedule", "/schedule/")
    ]
    assert direct.status_code == routed.status_code == status
    assert direct.text == routed.text
    assert direct.headers == routed.headers
