"""What keeps due schedules from starting: in lists, of one, as a filter, and afterwards."""

from __future__ import annotations

import html
import re

import pytest

from api.dashboard.causes import held_words
from scheduler.lane_settings import HeldBy, HoldCause
from tests.dashboard.conftest import Browser, listed

NOW_MS = 1_795_161_600_000


@pytest.mark.parametrize(
    ("held_by", "words"),
    [
        (HeldBy(HoldCause.SERVICE_HOLD), "the service is held"),
        (HeldBy(HoldCause.NO_WORKER), "no worker runs"),
        (
            HeldBy(HoldCause.ACCOUNT_PAUSED, until_ms=NOW_MS + 60_000),
            "the account is paused, ends in 1 min",
        ),
        (HeldBy(HoldCause.LANE_PAUSED, "eu", ahead=3), "lane eu is paused, 3 go first"),
        (
            HeldBy(HoldCause.LANE_RATE, "eu", NOW_MS + 2000, estimated=True, ahead=1),
            "lane eu has used up its rate, starts about in 2 s, 1 goes first",
        ),
    ],
)
def test_a_cause_in_words(held_by: HeldBy, words: str) -> None:
    assert held_words(held_by, NOW_MS) == words


async def test_what_is_held_says_why_and_can_be_listed_and_cancelled(browser: Browser) -> None:
    await browser.store.workers.beat("a worker", {"pid": 1})
    await browser.write("/lanes/eu/pause")
    first, held = [await browser.schedule(due, lane="eu") for due in (-5000, -4000)]
    coming = await browser.schedule(60_000, lane="eu")
    due = await browser.schedule(-4000)
    assert set(await listed(browser)) == {coming, due, held, first}
    assert await listed(browser, status="scheduled", held="yes") == [first, held]
    page = html.unescape(await browser.text("/requests", status="scheduled", held="yes"))
    assert re.findall(r'status scheduled">(\w+)<', page)[:2] == ["held", "held"]
    assert "<bdi>is paused, 1 goes first</bdi>" in page
    one = await browser.text(f"/requests/{held}")
    assert "<dt>Held</dt><dd>lane eu is paused, 1 goes first</dd>" in one
    assert "<dt>Held</dt>" not in await browser.text(f"/requests/{due}")
    assert "status=scheduled&amp;lane=eu&amp;held=yes" in await browser.text("/lanes/eu")
    of_filter = {"status": "scheduled", "held": "yes", "scope": "matching", "action": "cancel"}
    asked = await browser.write("/requests/bulk", **of_filter)
    assert re.findall(r'name="id" value="(\w+)"', asked.text) == [held, first]


async def test_a_late_one_of_a_lane_says_that_its_rate_held_it(browser: Browser) -> None:
    await browser.write("/lanes/eu", rate="1", per="1m", burst="", parallelism="", note="", etag="")
    late = await browser.schedule(-20_000, lane="eu")
    await browser.end(200)
    text = await browser.text(f"/requests/{late}")
    assert re.search(
        r"It was due for [\d.]+ s: for 100 % of that time lane eu had used up its rate", text
    )
