"""Rate limits by plan and of searches, and the pace of refusals."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock

import pytest

from api.service import AT_ONCE, Refusals
from scheduler.callers import Caller, Rate
from scheduler.models import Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.scans import Scans
from tests.api.conftest import CREDITS, URL, Api, client_of, payload
from tests.api.errors import error_of, refusal_of
from tests.api.letters import fail
from tests.support.apps import app_of

HEADERS = ("ratelimit-limit", "ratelimit-remaining", "ratelimit-reset")
LIMITED = Rate(limit=10, remaining=7, full_in_s=1, wait_s=0)
MOST_WAITING = 600
FILTER = {"targetUrl": URL}
SEARCHES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "waiting": ("GET", "/schedule", {"params": FILTER}),
    "dead letters": ("GET", "/schedule", {"params": {**FILTER, "status": "failed"}}),
    "log": ("GET", "/stats/logs", {"params": FILTER}),
    "cancel": ("POST", "/schedule/cancel", {"json": {**FILTER, "status": "scheduled"}}),
    "replay": ("POST", "/schedule/replay", {"json": {**FILTER, "status": "failed"}}),
}
USED_UP = Rate(limit=10, remaining=0, full_in_s=1, wait_s=3)

# Each ends in another way; all of them count, and say so.
REQUESTS = [
    ("POST", "/schedule", payload(), 201),
    ("POST", "/schedule", {"targetBody": {"a": "x" * 300_000}}, 413),
    ("POST", "/schedule/batch", {}, 400),
    ("DELETE", "/schedule/sch_x", None, 404),
    ("GET", "/stats", None, 200),
    ("GET", "/nothing", None, 404),
    ("PUT", "/schedule", None, 405),
    ("HEAD", "/schedule", None, 200),
]


def limited(api: Api, monkeypatch: pytest.MonkeyPatch, rate: Rate | None) -> None:
    """From now on the account stands so with its rate."""

    caller = Caller(api.account_id, "key_00_x", Plan.FREE, rate)
    monkeypatch.setattr(api.store.api_keys, "admit", AsyncMock(return_value=caller))


@pytest.mark.parametrize(("method", "path", "body", "status"), REQUESTS)
async def test_every_answer_tells_the_rate_and_beyond_it_is_429(
    api: Api, monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: object, status: int
) -> None:
    limited(api, monkeypatch, USED_UP)
    answer = await api.client.request(method, path, json=body)
    assert answer.status_code == 429
    if method != "HEAD":
        assert error_of(answer) == {
            "error": "Too many requests; try again in 3 s",
            "reason": "rate_limited",
        }
    assert answer.headers["retry-after"] == "3"
    assert [answer.headers[name] for name in HEADERS] == ["10", "0", "1"]
    assert await api.credits() == CREDITS
    limited(api, monkeypatch, LIMITED)
    answer = await api.client.request(method, path, json=body)
    assert answer.status_code == status
    assert [answer.headers[name] for name in HEADERS] == ["10", "7", "1"]


async def test_a_plan_without_a_rate_is_told_nothing(api: Api) -> None:
    answer = await api.client.get("/stats")
    assert not set(HEADERS) & set(answer.headers)


async def test_keys_and_replicas_share_a_rate(settings: Settings, store: Store) -> None:
    account = await store.accounts.create("free", credits=5, plan=Plan.FREE)
    keys = [(await store.api_keys.create(account.account_id, name))[1] for name in "ab"]
    other_store = await Store.open(settings)
    apps = [app_of(settings, store), app_of(settings, other_store)]
    path = "/stats/remaining-credits"
    try:
        clients = [client_of(app, key) for app in apps for key in keys]
        answers = [await clients[n % 4].get(path) for n in range(24)]
        assert [answer.status_code for answer in answers[:10]] == [200] * 10  # the burst
        refused = [answer for answer in answers if answer.status_code == 429]
        assert int(refused[0].headers["retry-after"]) >= 1
        for client in clients:
            await client.aclose()
    finally:
        await other_store.aclose()


async def test_of_a_flood_without_end_all_wait_and_the_rest_is_turned_away_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("api.service.MOST_WAITING", MOST_WAITING)
    monkeypatch.setattr("api.service.LONGEST_WAIT_S", 0.1)
    refusals = Refusals()
    waiting = [asyncio.create_task(refusals.turn()) for _ in range(AT_ONCE + MOST_WAITING + 100)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    done = [task.result() for task in waiting if task.done()]
    assert len(done) == len(waiting) - MOST_WAITING
    assert done.count(False) > 50
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (await refusals.turn()) is True


@pytest.mark.parametrize("in_turn", [True, False])
async def test_who_is_turned_away_out_of_turn_loses_the_connection(
    api: Api, monkeypatch: pytest.MonkeyPatch, in_turn: bool
) -> None:
    turn = AsyncMock(return_value=in_turn)
    monkeypatch.setattr(api.app.state.service.refusals, "turn", turn)
    async with client_of(api.app, "pd_00_" + "x" * 43) as client:
        answer = await client.get("/stats")
    assert refusal_of(answer) == (401, "Invalid or inactive API key", "unauthorized")
    assert answer.headers.get("connection") == (None if in_turn else "close")


async def test_a_good_key_waits_for_no_refusal(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    turn = AsyncMock()
    monkeypatch.setattr(api.app.state.service.refusals, "turn", turn)
    assert (await api.create()).status_code == 201
    turn.assert_not_called()


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
