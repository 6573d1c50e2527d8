"""What an account may have stored, as its customers meet it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing

import msgspec
import pytest

from scheduler.models import Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from tests.api.conftest import CREDITS, Api, api_of, payload
from tests.api.errors import error_of
from tests.support.apps import app_of

FULL = {
    "error": "Storage quota exceeded: your schedules take up as much as your plan allows, those"
    " that wait and ended ones for as long as they are kept",
    "reason": "quota_exceeded",
}


@pytest.fixture
async def bounded(settings: Settings) -> AsyncIterator[Api]:
    """An account that may have 10,000 bytes stored."""
    quota = {Plan.FREE: 10_000}
    settings = msgspec.structs.replace(settings, stored_bytes=quota, rate_limits={})
    async with (
        aclosing(await Store.open(settings)) as store,
        api_of(app_of(settings, store), store, CREDITS, Plan.FREE) as api,
    ):
        yield api


def large(size: int = 9000) -> dict[str, object]:
    return payload(targetBody={"text": "x" * size})


async def test_the_account_shows_what_it_has_and_what_its_plan_allows(bounded: Api) -> None:
    none = {"plan": "free", "requestsPerSecond": None, "storedBytes": 0, "storedBytesLimit": 10_000}
    none |= {"creditsRemaining": CREDITS, "lanes": 0, "recurring": 0}
    before = await bounded.client.get("/account")
    assert none.items() <= before.json().items()
    await bounded.create_id(lane="a")
    await bounded.client.put("/lanes/b", json={"parallelism": 1})
    rule = {"targetUrl": "https://example.com", "every": "1h"}
    assert (await bounded.client.post("/recurring", json=rule)).status_code == 201
    after = await bounded.client.get("/account")
    stored_bytes = await bounded.store.accounts.stored_bytes(bounded.account_id)
    some = {"storedBytes": stored_bytes, "creditsRemaining": CREDITS - 2}
    assert after.json() == before.json() | some | {"lanes": 2, "recurring": 1}
    assert after.headers["etag"] == before.headers["etag"]
    if_match = {"If-Match": before.headers["etag"]}
    url = {"callbackUrl": "https://example.com/done"}
    changed = await bounded.client.patch("/account", json=url, headers=if_match)
    assert changed.json() == after.json() | url | {"callbackOn": "executed"}
    paused = await bounded.client.post("/account/pause", json={"pauseNote": "x"})
    now = {"paused": True, "pausedBy": "test", "pauseNote": "x"}
    assert paused.json() == changed.json() | now
    assert (await bounded.client.post("/account/resume")).json() == changed.json()


async def test_what_is_over_the_quota_is_a_413_and_costs_nothing(bounded: Api) -> None:
    first = await bounded.create_id(**large())
    headers = {"Idempotency-Key": "k"}
    for path, body in (("", large()), ("/batch", {"schedules": [large(), payload()]})):
        answer = await bounded.client.post(f"/schedule{path}", json=body, headers=headers)
        assert (answer.status_code, error_of(answer)) == (413, FULL)
    answer = await bounded.client.patch(
        f"/schedule/{first}", json={"targetBody": {"a": "x" * 9990}}
    )
    assert (answer.status_code, error_of(answer)) == (413, FULL)
    await bounded.holds(credits=CREDITS - 1, waiting={first})
