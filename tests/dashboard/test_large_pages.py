"""The dashboard's list where every schedule is as large as it may be."""

from __future__ import annotations

import html
import re

import pytest

from scheduler.models import Request
from scheduler.settings import Settings
from tests.dashboard.conftest import Dashboard

ADDRESS = "/dashboard/requests"
COUNT = 60  # more than a page
MOST_PAGE_BYTES = 1_000_000
_LISTED = re.compile(r'id="r-(sch_\w+)"')
_NEXT = re.compile(r'href="([^"]+)" rel="next"')


@pytest.mark.usefixtures("endless_searches")
async def test_its_pages_together_are_complete_and_have_no_bodies(dashboard: Dashboard) -> None:
    account = await dashboard.account("large", credits=COUNT)
    browser = await dashboard.signed_in(account)
    body = b'{"a":"%s"}' % (b"x" * (Settings().max_body_bytes - 200))
    due_ms = dashboard.store.clock.now_ms() + 3_600_000
    requests = [
        Request(due_ms + n, "POST", f"https://example.com/{n % 2}", {}, body) for n in range(COUNT)
    ]
    schedules = dashboard.store.schedules
    made = [(await schedules.create(account.account_id, each)) for each in requests]
    for query, expected in (
        ("?status=scheduled", made),
        ("?status=scheduled&q=example.com%2F1", made[1::2]),
    ):
        listed: list[str] = []
        page = query
        while True:
            answer = await browser.client.get(f"{ADDRESS}{page}")
            assert answer.status_code == 200
            assert len(answer.content) < MOST_PAGE_BYTES
            listed += _LISTED.findall(answer.text)
            more = _NEXT.search(answer.text)
            if more is None:
                break
            page = html.unescape(more[1]).removeprefix(ADDRESS)
        assert listed == expected
