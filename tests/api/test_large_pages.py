"""Lists of schedules with the largest bodies there may be: many short pages, no huge one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from scheduler.models import Request
from scheduler.settings import Settings
from tests.api.conftest import CREDITS, URL, Api
from tests.plain import redis_of

pytestmark = pytest.mark.usefixtures("endless_searches")
COUNT = 30
FILTERED = 50
MOST_ANSWER_BYTES = 6_000_000
MOST_BODY_BYTES = Settings().max_body_bytes


async def make(api: Api, moments: list[datetime]) -> list[str]:
    """Schedules due at these moments, each as large as a request may be."""
    content = f'{{"schedules":[{",".join(map(largest, moments))}]}}'
    answer = await api.client.post("/schedule/batch", content=content)
    return [item["scheduleId"] for item in answer.json()["schedules"]]


def largest(moment: datetime) -> str:
    fields = {"targetUrl": URL, "triggerAt": moment.isoformat(), "targetBody": {"a": ""}}
    text = json.dumps(fields)
    text = text.replace('""', f'"{"x" * (MOST_BODY_BYTES - len(text))}"')
    assert len(text) == MOST_BODY_BYTES
    return text


async def all_pages(api: Api, path: str, **query: Any) -> tuple[list[dict[str, Any]], list[int]]:
    """What all pages together have, and how many bytes each answer had."""
    found, sizes_bytes = [], []
    while query.get("cursor", "") is not None:
        answer = await api.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        sizes_bytes.append(len(answer.content))
        [(_, page), (_, query["cursor"])] = answer.json().items()
        assert page, "a page with nothing"
        found += page
    return found, sizes_bytes


async def waiting(api: Api) -> list[str]:
    soon = datetime.now(UTC) + timedelta(hours=1)
    return await make(api, [soon + timedelta(seconds=n) for n in range(COUNT)])


async def every_other_one_held(api: Api) -> list[str]:
    """Both of the store's sets have many, and what comes next is now in one, now in the other."""
    past = datetime.now(UTC) - timedelta(hours=1)
    moments = [past + timedelta(seconds=n) for n in range(COUNT)]
    held = await make(api, moments[::2])
    claimed: list[str] = []
    while some := await api.claim():
        claimed += [invocation.schedule_id for invocation in some]
    assert sorted(claimed) == sorted(held)
    waiting = await make(api, moments[1::2])
    return [each for pair in zip(held, waiting, strict=True) for each in pair]


@pytest.mark.parametrize("made", [waiting, every_other_one_held])
async def test_all_pages_together_are_complete_and_none_is_huge(
    api: Api, made: Callable[[Api], Awaitable[list[str]]]
) -> None:
    by_time = await made(api)
    for query in ({"order": "asc", "limit": 7}, {"order": "desc", "limit": 100}):
        expected = by_time if query["order"] == "asc" else by_time[::-1]
        listed, sizes_bytes = await all_pages(api, "/schedule", **query)
        assert [each["scheduleId"] for each in listed] == expected
        assert all(each["targetBody"]["a"].strip("x") == "" for each in listed)
        assert max(sizes_bytes) < MOST_ANSWER_BYTES < sum(sizes_bytes)
        for more in ({}, {"status": "scheduled"}, {"targetUrl": URL}):
            logged, sizes_bytes = await all_pages(api, "/stats/logs", **query, **more)
            assert [each["scheduleId"] for each in logged] == expected
            assert sum(sizes_bytes) < MOST_ANSWER_BYTES
    assert await api.credits() == CREDITS - COUNT
    assert await api.store.check() == []


async def test_a_page_reads_a_bounded_part_of_what_it_searches(api: Api) -> None:
    account, schedules = api.account_id, api.store.schedules
    due_ms = api.store.clock.now_ms() + 3_600_000
    body = b'{"a":"%s"}' % (b"x" * 250_000)
    large = [Request(due_ms + n, "POST", f"{URL}/{n}", {}, body) for n in range(FILTERED)]
    await schedules.create_all(account, large)
    wanted = f"{URL}/{FILTERED - 1}"
    found, read_bytes = [], []
    query: dict[str, Any] = {"status": "scheduled", "targetUrl": wanted, "order": "asc"}
    while query.get("cursor", "") is not None:
        before = await sent_bytes(api)
        answer = await api.client.get("/stats/logs", params=query)
        read_bytes.append(await sent_bytes(api) - before)
        found += [each["targetUrl"] for each in answer.json()["logs"]]
        query["cursor"] = answer.json()["nextCursor"]
    assert found == [wanted]
    assert max(read_bytes) < MOST_ANSWER_BYTES
    assert sum(read_bytes) > FILTERED * 250_000


async def sent_bytes(api: Api) -> int:
    """What the store has sent, to whomever."""
    return int((await redis_of(api.store).info("stats"))["total_net_output_bytes"])
