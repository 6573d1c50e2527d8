"""Lists of schedules with the largest bodies there may be: many short pages, no huge one."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.models import Request
from tests.api.conftest import URL, Api
from tests.support.plain import redis_of

pytestmark = pytest.mark.usefixtures("endless_searches")
COUNT = 50
BODY_BYTES = 250_000
MOST_BYTES = 6_000_000


async def make(api: Api) -> list[str]:
    """Large schedules, each of a URL of its own."""
    due_ms = api.store.clock.now_ms() + 3_600_000
    body = b'{"a":"%s"}' % (b"x" * BODY_BYTES)
    large = [Request(due_ms + n, "POST", f"{URL}/{n}", {}, body) for n in range(COUNT)]
    return (await api.store.schedules.create_all(api.account_id, large)).schedule_ids


async def sent_bytes(api: Api) -> int:
    """What the store has sent, to whomever."""
    return int((await redis_of(api.store).info("stats"))["total_net_output_bytes"])


async def test_all_pages_together_are_complete_and_none_is_huge(api: Api) -> None:
    made = await make(api)
    found, sizes_bytes = [], []
    query: dict[str, Any] = {"order": "desc", "limit": 100}
    while query.get("cursor", "") is not None:
        answer = await api.client.get("/schedule", params=query)
        sizes_bytes.append(len(answer.content))
        found += [each["scheduleId"] for each in answer.json()["schedules"]]
        query["cursor"] = answer.json()["nextCursor"]
    assert found == made[::-1]
    assert max(sizes_bytes) < MOST_BYTES < sum(sizes_bytes)


async def test_a_page_reads_a_bounded_part_of_what_it_searches(api: Api) -> None:
    await make(api)
    wanted = f"{URL}/{COUNT - 1}"
    found, read_bytes = [], []
    query: dict[str, Any] = {"status": "scheduled", "targetUrl": wanted, "order": "asc"}
    while query.get("cursor", "") is not None:
        before = await sent_bytes(api)
        answer = await api.client.get("/stats/logs", params=query)
        read_bytes.append(await sent_bytes(api) - before)
        found += [each["targetUrl"] for each in answer.json()["logs"]]
        query["cursor"] = answer.json()["nextCursor"]
    assert found == [wanted]
    assert max(read_bytes) < MOST_BYTES
    assert sum(read_bytes) > COUNT * BODY_BYTES
