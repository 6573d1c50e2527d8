"""What keeps due schedules from starting: in lists, of one, as a filter, and afterwards."""

from __future__ import annotations

import html
import re

import pytest

from api.dashboard.causes import held_words
from api.dashboard.zones import zone_named
from scheduler.lane_settings import HeldBy
from scheduler.lanes import HoldCause
from tests.dashboard.conftest import Browser, listed

NOW_MS = 1_795_176_000_000  # 12:00 UTC
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("held_by", "words"),
    [
        (HeldBy(HoldCause.SERVICE_HOLD), "waits: the service is on hold"),
        (HeldBy(HoldCause.NO_WORKER), "waits: no worker runs"),
        (HeldBy(HoldCause.ACCOUNT_SUSPENDED), "waits: the account is suspended"),
        (HeldBy(HoldCause.ACCOUNT_PAUSED), "waits: the account is paused"),
        (
            HeldBy(HoldCause.ACCOUNT_PAUSED, until_ms=NOW_MS + 600_000),
            "waits: the account is paused until 13:10",
        ),
        (HeldBy(HoldCause.LANE_PAUSED, "eu", ahead=3), "waits for lane eu: paused, 3 before it"),
        (
            HeldBy(HoldCause.LANE_CALM, "eu", NOW_MS + 60_000, ahead=0),
            "waits for lane eu: its target asked for calm until 13:01:00, it is next",
        ),
        (
            HeldBy(HoldCause.LANE_PARALLELISM, "eu", ahead=1200, most=2),
            "waits for lane eu: 2 at a time, 1,200 before it",
        ),
        (
            HeldBy(HoldCause.LANE_RATE, "eu", NOW_MS + 12 * HOUR_MS, True, 241, 20, HOUR_MS),
            "waits for lane eu: 20 per hour, 241 before it, about 2026-11-21 01:00",
        ),
        (
            HeldBy(HoldCause.LANE_RATE, "eu", NOW_MS + HOUR_MS, estimated=True, ahead=2),
            "waits for lane eu: its rate is used up, 2 before it, about 14:00",
        ),
    ],
)
def test_a_cause_in_words_on_the_clock_of_the_viewer(held_by: HeldBy, words: str) -> None:
    berlin = zone_named("Europe/Berlin")
    assert berlin is not None
    assert held_words(held_by, NOW_MS, berlin) == words


async def test_what_is_held_says_why_and_can_be_listed_and_cancelled(browser: Browser) -> None:
    await browser.store.workers.beat("a worker", {"pid": 1})
    await browser.write("/lanes/eu/pause")
    first, held = [await browser.schedule(due, lane="eu") for due in (-5000, -4000)]
    coming = await browser.schedule(60_000, lane="eu")
    due = await browser.schedule(-4000)
    assert set(await listed(browser)) == {coming, due, held, first}
    assert await listed(browser, status="scheduled", held="yes") == [first, held]
    page = html.unescape(await browser.text("/requests", status="scheduled", held="yes"))
    assert re.findall(r'class="status (\w+)">held<', page)[:2] == ["held", "held"]
    assert "waits for lane eu: paused, 1 before it</bdi>" in page
    assert 'id="held"' not in await browser.text(f"/requests/{due}")
    assert "status=scheduled&amp;lane=eu&amp;held=yes" in await browser.text("/lanes/eu")
    of_filter = {"status": "scheduled", "held": "yes", "scope": "matching", "action": "cancel"}
    asked = await browser.write("/requests/bulk", **of_filter)
    assert re.findall(r'name="id" value="(\w+)"', asked.text) == [held, first]


async def test_a_panel_says_what_holds_a_request_and_ends_that(browser: Browser) -> None:
    """News have the sentence anew, and leave alone what somebody types."""
    await browser.store.workers.beat("a worker", {"pid": 1})
    await browser.write("/lanes/eu/pause")
    first, held = [await browser.schedule(due, lane="eu") for due in (-5000, -4000)]
    path = f"/requests/{held}"
    text = await browser.text(path)
    panel = text.partition('id="panel"')[2]
    assert '<span class="status held">held</span>' in panel
    assert "It waits for lane eu: paused, 1 before it." in panel
    assert 'action="/dashboard/lanes/eu/resume"' in panel
    [news] = set(re.findall(r'id="facts" hx-get="([^"]+)"', panel))
    live = await browser.client.get(html.unescape(news), headers={"hx-request": "true"})
    assert 'id="held" hx-swap-oob="true"' in live.text
    assert "<form" not in live.text
    for fields, words in (
        ({}, "Name the lane, or choose no lane."),
        ({"to_lane": "a b"}, "It must have"),
    ):
        refused = await browser.write(f"{path}/lane", **fields)
        assert (refused.status_code, words in refused.text) == (400, True), refused.text
    moved = await browser.text_after(await browser.write(f"{path}/lane", to_lane="us"))
    assert "It is in lane us now; no credit moved." in moved
    assert (await browser.kept(held)).request.lane == "us"
    out = await browser.text_after(await browser.write(f"/requests/{first}/lane", no_lane="1"))
    assert "It is in no lane now" in out
    assert (await browser.kept(first)).request.lane is None
    gone = await browser.client.get(html.unescape(news), headers={"hx-request": "true"})
    assert gone.headers["hx-retarget"] == "#panel", "nothing holds it any more"


async def test_a_late_one_of_a_lane_says_that_its_rate_held_it(browser: Browser) -> None:
    await browser.write("/lanes/eu", rate="1", per="1m", burst="", parallelism="", note="", etag="")
    late = await browser.schedule(-20_000, lane="eu")
    await browser.end(200)
    text = await browser.text(f"/requests/{late}")
    assert re.search(
        r"It was due for [\d.]+ s: for 100 % of that time lane eu had used up its rate", text
    )
