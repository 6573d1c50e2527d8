"""Lanes: how they stand, their settings, pauses, and the banner that says what is paused."""

from __future__ import annotations

import html
import re
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest

from scheduler.errors import KeepsChanging
from scheduler.lane_settings import LONGEST_NOTE, PARALLELISM, RATE, LaneSettings, Pause
from scheduler.lanes import MOST_LANES
from scheduler.store import keys
from tests.dashboard.conftest import ORIGIN, Browser, Dashboard, rows, tiles_of
from tests.dashboard.forms import faults_of
from tests.support.plain import redis_of

LIMITS = {"rate": "100", "per": "1m", "burst": "5", "parallelism": "3", "note": "theirs"}
LANE_PAGES = ("", "/requests", "/requests/new", "/lanes", "/lanes/other", "/keys", "/account")


async def settings_of(browser: Browser, lane: str = "invoices") -> LaneSettings:
    return (await browser.store.lanes.read(browser.account_id, lane)).settings


async def set_with(browser: Browser, page: str, **fields: str) -> httpx.Response:
    """The form of a page that was loaded, with other values in it."""
    [etag] = re.findall(r'name="etag" value="([^"]*)"', page)
    return await browser.write("/lanes/invoices", etag=etag, **LIMITS | fields)


async def test_a_lane_shows_what_waits_and_runs_and_when_it_is_empty(browser: Browser) -> None:
    assert "No lane is set" in await browser.text("/lanes")
    assert (await set_with(browser, await browser.text("/lanes/invoices"))).status_code == 303
    for due_in_ms in (-5000, 3_600_000, 3_600_000):
        await browser.schedule(due_in_ms, lane="invoices")
    row = html.unescape(await browser.text("/lanes"))
    assert "100 per minute, 5 at once; 3 at a time" in row
    assert 'href="/dashboard/requests?status=scheduled&lane=invoices"' in row
    tiles = tiles_of(await browser.text("/lanes/invoices"))
    assert (tiles["waiting"], tiles["due"], tiles["running"]) == ("3", "1", "0")
    assert (tiles["state"], tiles["empty"]) == ("open", "in 59 min")


async def test_a_name_leads_to_its_lane(browser: Browser) -> None:
    there = await browser.get("/lanes", lane=" a.b:c ")
    assert there.headers["location"] == "/dashboard/lanes/a.b:c"
    bad = await browser.get("/lanes", lane="a b")
    assert (bad.status_code, "begins with a letter or digit" in bad.text) == (400, True)
    assert (await browser.get("/lanes/a%20b")).status_code == 400


async def test_settings_are_judged_as_the_api_does_and_kept_as_typed(browser: Browser) -> None:
    page = await browser.text("/lanes/invoices")
    bad = (
        ({"rate": "many"}, "<b>Rate</b>: It must be"),
        ({"rate": "100001"}, "<b>Rate</b>: It must be from 1 to 100,000."),
        ({"per": ""}, "<b>Rate</b>: It needs per."),
        ({"per": "2d"}, "<b>Per</b>: It must be from 1s to 1d."),
        ({"burst": "101"}, "<b>Burst</b>: It may be at most the rate, 100."),
        ({"parallelism": "0"}, "<b>Parallelism</b>: It must be from 1 to 10,000."),
        ({"note": "x" * (LONGEST_NOTE + 1)}, "<b>Note</b>: It may have at most"),
    )
    for fields, words in bad:
        refused = await set_with(browser, page, **fields)
        assert (refused.status_code, words in refused.text) == (400, True), refused.text
        assert f'value="{next(iter(fields.values()))}"' in refused.text
    assert await settings_of(browser) == (await settings_of(browser, "another"))


async def test_a_lane_says_which_limits_the_next_message_may_change(browser: Browser) -> None:
    for unpinned, words in (
        ({RATE, PARALLELISM}, "Parallelism and rate came with a QStash message"),
        ({RATE}, "Rate came with a QStash message"),
    ):
        settings = LaneSettings(5, 1000, None, 3, unpinned=frozenset(unpinned))
        await browser.store.lanes.put(browser.account_id, "invoices", settings)
        page = await browser.text("/lanes/invoices")
        assert words in page
    assert (await set_with(browser, page)).status_code == 303
    assert "QStash" not in await browser.text("/lanes/invoices")
    assert (await settings_of(browser)).unpinned == frozenset()


async def test_of_two_tabs_the_second_sees_what_the_first_has_set(browser: Browser) -> None:
    one, other = [await browser.text("/lanes/invoices") for _ in range(2)]
    assert (await set_with(browser, one, rate="50")).status_code == 303
    met = await set_with(browser, other, rate="70")
    assert met.status_code == 412
    assert "somebody changed this lane meanwhile" in met.text
    assert "50 per minute" in met.text
    assert 'value="70"' in met.text
    assert (await settings_of(browser)).rate == 50
    again = await set_with(browser, met.text, rate="70")
    assert again.status_code == 303
    assert (await settings_of(browser)).rate == 70


async def test_a_pause_is_one_press_and_shows_on_every_page_while_it_lasts(
    dashboard: Dashboard, browser: Browser
) -> None:
    await set_with(browser, await browser.text("/lanes/invoices"))
    paused = await browser.write("/lanes/invoices/pause", back="/dashboard/lanes")
    assert paused.headers["location"] == "/dashboard/lanes"
    assert await settings_of(browser) == LaneSettings(
        *(100, 60_000, 5, 3, "theirs"),
        Pause("dashboard", since_ms=(await settings_of(browser)).pause.since_ms),  # type: ignore[union-attr]
        etag=(await settings_of(browser)).etag,
    )
    bob = await dashboard.signed_in(await dashboard.account("bob"))
    for path in LANE_PAGES:
        assert 'Lane <a href="/dashboard/lanes/invoices">' in await browser.text(path), path
        assert "paused" not in await bob.text(path) or path in ("/lanes", "/account")
    for name in ("a", "b", "c"):
        await browser.write(f"/lanes/{name}/pause", **{"for": "1h", "note": "until they mend it"})
    text = await browser.text("/keys")
    assert "<summary>4 lanes are <b>paused</b>.</summary>" in text
    assert '<a href="/dashboard/lanes">1 more</a>' in text
    lane = await settings_of(browser, "a")
    assert lane.pause is not None
    assert (lane.note, lane.pause.note) == (None, "until they mend it")
    assert lane.pause.until_ms is not None
    assert "<bdi>until they mend it</bdi>" in await browser.text("/lanes/a")
    for name in ("a", "b", "c", "invoices"):
        await browser.write(f"/lanes/{name}/resume")
    assert "stopped" not in await browser.text("/keys")


async def test_the_account_is_paused_and_resumed_from_any_page(browser: Browser) -> None:
    await browser.write("/account/pause", **{"for": "4h", "note": "we move"})
    text = await browser.text("/credits")
    assert "<b>This account is paused</b> until" in text
    assert "<bdi>we move</bdi>" in text
    await browser.write("/lanes/one/pause")
    summary = "<summary>This account and 1 lane are <b>paused</b>.</summary>"
    assert summary in await browser.text("/credits")
    resumed = await browser.write("/account/resume", back="/dashboard/credits")
    assert resumed.headers["location"] == "/dashboard/credits"
    assert "This account is paused" not in await browser.text("/credits")


async def test_a_pause_of_another_length_is_refused(browser: Browser) -> None:
    for path in ("/lanes/invoices/pause", "/account/pause"):
        for fields in ({"for": "9000d"}, {"note": "x" * (LONGEST_NOTE + 1)}):
            refused = await browser.write(path, **fields)
            assert refused.status_code == 400, (path, fields)
    assert (await browser.store.lanes.paused(browser.account_id, 9)).number == 0


async def test_clearing_a_lane_says_how_many_go_on(browser: Browser) -> None:
    await browser.write("/lanes/invoices/pause")
    for _ in range(2):
        await browser.schedule(lane="invoices")
    cleared = await browser.write("/lanes/invoices/clear")
    text = await browser.text_after(cleared)
    assert "2 that wait in it go on unlimited" in text
    assert "stopped" not in text


async def test_a_calm_lane_can_go_on(browser: Browser) -> None:
    client: Any = redis_of(browser.store)
    until_ms = browser.store.clock.now_ms() + 3_600_000
    key = keys.account(browser.account_id) + keys.LANE + "invoices"
    await client.hset(key, "calm", until_ms)
    text = await browser.text("/lanes/invoices")
    assert tiles_of(text)["state"] == "calm"
    assert "Retry-After" in text
    await browser.write("/lanes/invoices/calm")
    assert tiles_of(await browser.text("/lanes/invoices"))["state"] == "open"


async def test_a_refusal_says_so_and_keeps_what_was_typed(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await browser.text("/lanes/invoices")
    monkeypatch.setattr(browser.store.lanes, "put", AsyncMock(side_effect=KeepsChanging()))
    refused = await set_with(browser, page)
    assert refused.status_code == 409
    assert "<b>Not saved</b>: Other calls keep changing these settings" in refused.text
    assert 'value="1m"' in refused.text
    monkeypatch.setattr(browser.store.lanes, "change", AsyncMock(side_effect=KeepsChanging()))
    assert "Too late" not in (await browser.write("/lanes/invoices/pause")).text


async def test_a_lane_too_many_is_refused_by_its_name(browser: Browser) -> None:
    many = {f"lane-{n:05}": 0 for n in range(MOST_LANES)}
    client: Any = redis_of(browser.store)
    page = await browser.text("/lanes/invoices")
    await client.zadd(keys.account(browser.account_id) + keys.LANES, many)
    given = {"targetUrl": "https://example.com/x", "delay": "1h", "once": "1", "lane": "one-more"}
    refused = await browser.write("/requests/new", **given)
    assert (refused.status_code, [*faults_of(refused.text)]) == (409, ["lane"])
    refused = await set_with(browser, page)
    assert (refused.status_code, "<b>Lane</b>: " in refused.text) == (409, True)
    paused = await browser.write("/lanes/one-more/pause")
    assert (paused.status_code, "10,000 lanes already" in paused.text) == (409, True)
    assert "Too late" not in paused.text


async def test_a_request_in_a_lane_is_composed_found_and_shown(browser: Browser) -> None:
    assert 'value="invoices"' in await browser.text("/requests/new", lane="invoices")
    waiting = await browser.schedule(lane="invoices")
    await browser.schedule()
    assert rows(await browser.text("/requests", lane="invoices")) == [waiting]
    text = await browser.text(f"/requests/{waiting}")
    assert '<dt>Lane</dt><dd class="id"><a href="/dashboard/lanes/invoices">' in text
    assert 'title="Lane">invoices</span>' in text
    bad = {"targetUrl": "https://example.com/x", "delay": "1h", "once": "2", "lane": "a b"}
    refused = await browser.write("/requests/new", **bad)
    assert (refused.status_code, [*faults_of(refused.text)]) == (400, ["lane"])
    matching = {"action": "cancel", "scope": "matching", "lane": "invoices"}
    asked = await browser.write("/requests/bulk", **matching)
    assert re.findall(r'name="id" value="([^"]*)"', asked.text) == [waiting]
    assert (await browser.get("/requests", lane="a b")).status_code == 400


@pytest.mark.parametrize("path", ["/lanes/invoices/pause", "/account/pause"])
async def test_what_a_pause_holds_back_is_not_shown_as_overdue(browser: Browser, path: str) -> None:
    await browser.write(path)
    held = await browser.schedule(-60_000, lane="invoices" if "lanes" in path else None)
    for page in ("/requests", ""):
        text = await browser.text(page)
        assert held in text
        assert '<span class="status overdue">overdue' not in text
        assert '<span class="status held">held' in text


async def test_a_damaged_pause_takes_no_page_away(browser: Browser) -> None:
    client: Any = redis_of(browser.store)
    account = keys.account(browser.account_id)
    await browser.write("/lanes/invoices/pause")
    await client.hset(account + keys.ACCOUNT, "paused", "?")
    for path in LANE_PAGES:
        page = await browser.get(path)
        assert (page.status_code, "whether more is paused" in page.text) == (200, True), path
    assert "It is damaged and cannot be read." in await browser.text("/account")
    await client.set(account + keys.LANES_PAUSED, "?")
    assert "whether anything is paused" in await browser.text("/keys")


async def test_the_banner_of_an_open_page_goes_with_its_pause(
    dashboard: Dashboard, browser: Browser
) -> None:
    headers = {"hx-request": "true", "hx-current-url": f"{ORIGIN}/dashboard/requests?q=a"}
    assert 'hx-get="/dashboard/banner"' in await browser.text("/requests/new")
    await browser.write("/lanes/invoices/pause")
    banner = (await browser.client.get("/dashboard/banner", headers=headers)).text
    assert "<html" not in banner
    assert 'name="back" value="/dashboard/requests?q=a"' in banner
    # The page that a press is answered with cannot be asked for again.
    answer = (await browser.write("/keys/no-such-key/deactivate")).text
    assert set(re.findall(r'name="back" value="([^"]*)"', answer)) == {"/dashboard"}
    await browser.write("/lanes/invoices/resume")
    assert (await browser.text("/banner")).strip() == ""
    stranger = await dashboard.browser().client.get("/dashboard/banner", headers=headers)
    assert (stranger.status_code, "hx-redirect" in stranger.headers) == (204, False)
