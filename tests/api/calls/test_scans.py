"""Calls that look through an account's requests, beyond what they may."""

from __future__ import annotations

from typing import Any
from unittest.mock import AsyncMock

import pytest

from scheduler.store.scans import Scans
from tests.api.conftest import CREDITS, URL, Api
from tests.api.errors import error_of
from tests.api.letters import fail

FILTER = {"targetUrl": URL}
SEARCHES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "waiting": ("GET", "/schedule", {"params": FILTER}),
    "dead letters": ("GET", "/schedule", {"params": {**FILTER, "status": "failed"}}),
    "log": ("GET", "/stats/logs", {"params": FILTER}),
    "cancel": ("POST", "/schedule/cancel", {"json": {**FILTER, "status": "scheduled"}}),
    "replay": ("POST", "/schedule/replay", {"json": {**FILTER, "status": "failed"}}),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
async def test_a_search_too_many_is_a_429_that_says_when(
    api: Api, search: tuple[str, str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    method, path, given = search
    await fail(api)
    waiting = await api.create_id()
    with monkeypatch.context() as indebted:
        indebted.setattr(Scans, "_count", AsyncMock(return_value=1700))
        answer = await api.client.request(method, path, **given)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
        assert error_of(answer) == {
            "error": "Too much was searched; try again in 2 s",
            "reason": "searches_limited",
        }
        assert (await api.client.get("/schedule")).status_code == 200
    await api.holds(credits=CREDITS - 2, waiting={waiting})
    assert (await api.client.request(method, path, **given)).status_code == 200
