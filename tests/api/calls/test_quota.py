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
