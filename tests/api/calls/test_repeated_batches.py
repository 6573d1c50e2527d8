"""A batch that is asked for again under its key: the answer of the first time, whatever the clock,
the rules and the credits have become."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import httpx
import pytest

from api.schema.rules import MAX_PAST_MS
from scheduler.durations import DAY_MS
from scheduler.errors import StoreUnavailable
from scheduler.models import Idempotency
from scheduler.runtime.settings import Settings
from scheduler.store.lifecycle.create import creator
from scheduler.store.lifecycle.create.results import CreateResult
from scheduler.times import format_iso8601
from tests.api.conftest import CREDITS, URL, Api, client_of, payload
from tests.store.lifecycle.create.parts import at_part
from tests.support.apps import app_of

FUTURE_MS = Settings().max_horizon_days * DAY_MS
HOUR_MS = 3_600_000
PIECE = 4
# How many ms to each side of a time bound there is an item for.
AROUND_MS = 8


class SlowClock:
    """The store's clock as a slow process sees it: at each look `step_ms` more have gone by."""

    def __init__(self, ms: int) -> None:
        self.ms = ms
        self.step_ms = 1

    def now_ms(self) -> int:
        self.ms += self.step_ms
        return self.ms


@pytest.fixture
def clock(api: Api, monkeypatch: pytest.MonkeyPatch) -> SlowClock:
    clock = SlowClock(api.store.clock.now_ms())
    monkeypatch.setattr(api.store.clock, "now_ms", clock.now_ms)
    return clock


@pytest.fixture(autouse=True, params=["whole", "in parts"])
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in parts":
        monkeypatch.setattr(creator, "_MOST_AT_ONCE", PIECE)


async def away() -> None:
    raise StoreUnavailable("away")


def at_the_bounds(clock: SlowClock) -> list[dict[str, Any]]:
    """Items for every millisecond around both time bounds, and some that are wrong in themselves.
    At whatever tick they are judged, some of each kind are accepted and some are refused, and at
    the next tick these are others."""
    bounds_ms = (clock.ms - MAX_PAST_MS, clock.ms + FUTURE_MS)
    items: list[dict[str, Any]] = [
        payload(triggerAt=format_iso8601(bound_ms + more_ms))
        for more_ms in range(-AROUND_MS, AROUND_MS + 1)
        for bound_ms in bounds_ms
    ]
    items += [{}, payload(color="red"), payload(targetMethod="FLY"), payload()]
    items += [payload(triggerAt=None, delay="1h")]
    random.Random(4).shuffle(items)
    return [
        {**item, "targetUrl": f"{URL}/{place}"} if "targetUrl" in item else item
        for place, item in enumerate(items)
    ]


async def batch(
    client: httpx.AsyncClient, items: list[dict[str, Any]], key: str = "k"
) -> httpx.Response:
    """Written the same each time, so that the same items are the same batch."""
    content, headers = json.dumps({"schedules": items}), {"idempotency-key": key}
    return await client.post("/schedule/batch", content=content, headers=headers)


def is_replay(answer: httpx.Response) -> bool:
    return answer.headers.get("idempotency-replayed") == "true"


def codes_of(answer: httpx.Response) -> list[int | None]:
    return [item.get("code") for item in answer.json()["schedules"]]


def ids_of(answer: httpx.Response) -> set[str]:
    return {item["scheduleId"] for item in answer.json()["schedules"] if "scheduleId" in item}


def assert_replayed(again: httpx.Response, first: httpx.Response) -> None:
    assert (is_replay(first), is_replay(again)) == (False, True)
    assert (again.status_code, again.json()) == (first.status_code, first.json())


async def assert_sound(api: Api, answer: httpx.Response) -> None:
    """Each id and time is of the item in whose place it stands, and no other was stored or paid."""
    for place, item in enumerate(answer.json()["schedules"]):
        if "scheduleId" in item:
            stored = await api.stored(item["scheduleId"])
            assert stored.url == f"{URL}/{place}"
            assert format_iso8601(stored.trigger_at_ms) == item["triggerAt"]
    await api.holds(credits=CREDITS - len(ids_of(answer)), waiting=ids_of(answer))


@pytest.mark.parametrize("passed_ms", [1, 23 * HOUR_MS, -AROUND_MS])
async def test_items_near_bounds_keep_their_ids(api: Api, clock: SlowClock, passed_ms: int) -> None:
    items = at_the_bounds(clock)
    first = await batch(api.client, items)
    assert {None, 400} == set(codes_of(first))
    clock.ms += passed_ms
    assert_replayed(await batch(api.client, items), first)
    await assert_sound(api, first)


async def test_an_id_stays_though_the_rules_change(api: Api, settings: Settings) -> None:
    narrow = app_of(Settings(redis_url=settings.redis_url, max_horizon_days=1), api.store)
    two_days = format_iso8601(api.store.clock.now_ms() + 2 * DAY_MS)
    items = [payload(targetUrl=f"{URL}/0", triggerAt=two_days), payload(targetUrl=f"{URL}/1"), {}]
    async with client_of(narrow, api.key) as client:
        first = await batch(client, items, "narrow")
        second = await batch(api.client, items, "narrow")
        assert codes_of(first) == codes_of(second) == [400, None, 400]
        assert second.json()["schedules"][1:] == first.json()["schedules"][1:]
        assert "by rules that have changed since" in second.json()["schedules"][0]["error"]
        await assert_sound(api, first)


async def test_of_two_at_once_that_judge_differently_one_is_the_answer_of_both(
    api: Api, clock: SlowClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, both = api.store.schedules.created_before, asyncio.Barrier(2)

    async def look_together(account_id: str, once: Idempotency) -> CreateResult | None:
        found = await look(account_id, once)
        await both.wait()
        return found

    monkeypatch.setattr(api.store.schedules, "created_before", look_together)
    items = at_the_bounds(clock)
    answers = await asyncio.gather(*(batch(api.client, items) for _ in range(2)))
    first, again = sorted(answers, key=is_replay)
    assert_replayed(again, first)
    await assert_sound(api, first)


async def test_one_that_finds_nothing_acceptable_any_more_looks_again(
    api: Api, clock: SlowClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked before the other one had stored anything, and judged too late."""
    look, looked, stored = api.store.schedules.created_before, asyncio.Event(), asyncio.Event()

    async def look_and_wait(account_id: str, once: Idempotency) -> CreateResult | None:
        found = await look(account_id, once)
        looked.set()
        await stored.wait()
        return found

    clock.step_ms = 0
    items = [payload(targetUrl=URL + "/0", triggerAt=format_iso8601(clock.ms - MAX_PAST_MS))]
    with monkeypatch.context() as patched:
        patched.setattr(api.store.schedules, "created_before", look_and_wait)
        clock.ms += 1
        late = asyncio.create_task(batch(api.client, items))
        await looked.wait()
    clock.ms -= 1
    first = await batch(api.client, items)
    assert codes_of(first) == [None]
    stored.set()
    assert_replayed(await late, first)
    await assert_sound(api, first)


@pytest.mark.parametrize("number", [1, 2, 4])
async def test_a_repeat_stores_the_rest_of_a_batch_that_was_cut_off(
    api: Api, clock: SlowClock, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """By the judgement of the first call, an hour later."""
    monkeypatch.setattr(creator, "_MOST_AT_ONCE", PIECE)
    items = at_the_bounds(clock)
    with monkeypatch.context() as patch:
        at_part(patch, number, away)
        cut = await batch(api.client, items)
    stored = PIECE * (number - 1)
    reason = "outcome_unknown" if stored else "store_unavailable"
    assert (cut.status_code, cut.json()["reason"]) == (503, reason)
    assert await api.credits() == CREDITS - stored
    clock.ms += HOUR_MS if stored else 0
    first = await batch(api.client, items)
    assert is_replay(first) == bool(stored)
    assert {None, 400} == set(codes_of(first))
    assert len(ids_of(first)) > stored
    await assert_sound(api, first)
    clock.ms += HOUR_MS
    again = await batch(api.client, items)
    assert (is_replay(again), again.json()) == (True, first.json())
    assert await api.store.check() == []


async def test_the_rest_is_refused_where_the_rules_have_changed(
    api: Api, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creator, "_MOST_AT_ONCE", PIECE)
    two_days = format_iso8601(api.store.clock.now_ms() + 2 * DAY_MS)
    items = [payload(targetUrl=f"{URL}/{n}") for n in range(PIECE + 1)]
    items.append(payload(triggerAt=two_days))
    with monkeypatch.context() as patch:
        at_part(patch, 2, away)
        assert (await batch(api.client, items)).status_code == 503
    narrow = app_of(Settings(redis_url=settings.redis_url, max_horizon_days=1), api.store)
    async with client_of(narrow, api.key) as client:
        answers = [await batch(client, items) for _ in range(2)]
    assert [codes_of(each) for each in answers] == [[None] * PIECE + [400, 400]] * 2
    assert "was cut off" in answers[0].json()["schedules"][-1]["error"]
    # With the old rules the rest is stored.
    done = await batch(api.client, items)
    assert codes_of(done) == [None] * len(items)
    assert ids_of(answers[0]) < ids_of(done)
