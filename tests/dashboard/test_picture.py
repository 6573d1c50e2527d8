"""The picture of the Requests page shows what its list is filtered by, and counts the same."""

from __future__ import annotations

import html
import re

import pytest

from api.dashboard.requests import picture
from api.dashboard.requests.filters import PER_PAGE
from benchmarks.support.history import Past, fill
from scheduler.errors import TooManyScans
from scheduler.models import Outcome, Request, Status
from scheduler.store.log.logs import LogPage, LogQuery
from tests.dashboard.conftest import Browser

_OTHER = "https://other.test/hook"
_DAY_MS = 86_400_000


def legend(text: str) -> dict[str, int]:
    """What the picture says that it shows."""
    found = re.findall(r'<i class="key \w+"></i>(\w+) <b>([\d,]+)</b>', text)
    return {label: int(count.replace(",", "")) for label, count in found}


def bars(text: str) -> dict[str, int]:
    """The same from its table."""
    [table] = re.findall(r'id="table-activity".*?</details>', text, re.DOTALL)
    labels = [each.lower() for each in re.findall(r'data-kind="\w+">(\w+)<', table)]
    cells = re.findall(r'<td class="n">([\d,]+)<', table)
    return {label: sum(map(int, cells[n :: len(labels)])) for n, label in enumerate(labels)}


async def test_it_shows_what_the_list_has(browser: Browser) -> None:
    for _ in range(2):
        await browser.execute(503)
    await browser.execute(200)
    await browser.execute(200, url=_OTHER)
    await browser.schedule(-1000)
    await browser.end(503, again_in_ms=600_000)  # and waits for its second attempt
    await browser.cancel(await browser.schedule(url=_OTHER))
    await browser.schedule(reference="order-1", lane="mail")
    everything = {"failed": 2, "completed": 2, "waiting": 2}
    for query, shown in (
        ({}, everything),
        ({"when": "1h"}, everything),
        ({"status": "failed"}, {"failed": 2}),
        ({"status": "completed"}, {"completed": 2}),
        ({"status": "scheduled"}, {"waiting": 2}),
        ({"status": "retrying"}, {"other": 1}),
        ({"status": "cancelled"}, {"other": 1}),
        ({"host": "other.test"}, {"completed": 1, "other": 1}),
        ({"q": "example.com"}, {"failed": 2, "completed": 1, "waiting": 2, "other": 1}),
        ({"q": "example.com", "status": "failed"}, {"failed": 2}),
        ({"lane": "mail"}, {"waiting": 1}),
        ({"reference": "order-*"}, {"waiting": 1}),
        ({"answer": "503"}, {"failed": 2, "other": 1}),
        ({"q": "nowhere"}, {"failed": 0, "completed": 0, "waiting": 0}),
    ):
        text = await browser.text("/requests", **query)
        assert legend(text) == bars(text) == shown, query
        if query and query != {"when": "1h"}:
            assert sum(shown.values()) == text.count("data-row"), query
        if set(query) - {"status", "when"}:
            assert f"found <b>{sum(shown.values())}</b>" in text
        assert "there may be more" not in text


async def test_without_a_period_it_reaches_as_far_as_what_is_found(browser: Browser) -> None:
    store, now_ms = browser.store, browser.store.clock.now_ms()
    done = Outcome(Status.COMPLETED, 200, 12, "")
    days = [Past(at, Request(at, "POST", _OTHER), done) for at in (now_ms - 3 * _DAY_MS, now_ms)]
    await fill(store, browser.account_id, iter(days))
    await browser.schedule(2 * _DAY_MS, url=_OTHER)
    assert legend(await browser.text("/requests", host="other.test")) == {
        "completed": 2,
        "waiting": 1,
    }
    assert legend(await browser.text("/requests", host="other.test", when="1h")) == {"completed": 1}


async def test_it_says_where_it_shows_but_a_part(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(PER_PAGE + 2):
        await browser.schedule()
    query = {"q": "example.com", "status": "scheduled"}
    assert "found <b>52</b>" in await browser.text("/requests", **query)
    monkeypatch.setattr(picture, "MOST_FOUND", 51)
    text = await browser.text("/requests", **query, host="example.com")
    assert ("found <b>51+</b>" in text, legend(text)) == (True, {"waiting": 51})
    [later] = re.findall(r'href="([^"]+)" rel="next"', text)
    second = (await browser.client.get(html.unescape(later))).text
    assert (second.count("data-row"), legend(second)) == (2, {"waiting": 51})


async def test_it_shows_what_was_found_before_the_account_searched_too_much(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    await browser.schedule()
    await browser.execute()
    read = browser.store.logs.page

    async def page(account_id: str, query: LogQuery) -> LogPage:
        if query.descending:
            raise TooManyScans(1000)
        return await read(account_id, query)

    monkeypatch.setattr(browser.store.logs, "page", page)
    text = await browser.text("/requests", q="example.com")
    assert legend(text) == {"waiting": 1}
    assert "found <b>1+</b>" in text


async def test_a_column_leads_to_its_minute_of_the_same_list(browser: Browser) -> None:
    await browser.execute(503)
    await browser.execute(200)
    text = await browser.text("/requests", status="failed", when="1h")
    [address] = re.findall(r'data-values="1"><td><a href="([^"]+)"', text)
    assert address.startswith("/dashboard/requests?status=failed&amp;from=")
    listed = (await browser.client.get(html.unescape(address))).text
    assert (listed.count("data-row"), legend(listed)) == (1, {"failed": 1})


async def test_only_pages_with_a_chart_load_what_draws_it(browser: Browser) -> None:
    await browser.execute()
    loads = {path: "uPlot" in await browser.text(path) for path in ("", "/requests", "/credits")}
    assert all(loads.values()), loads
    for path in ("/lanes", "/recurring", "/keys", "/account"):
        assert "uPlot" not in await browser.text(path)
