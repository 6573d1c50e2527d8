"""What the first screen of Requests has, with all that can stand above the list; and a row and its
panel however long a URL is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from playwright.sync_api import Page, expect

from cli.options import with_store
from scheduler.events import Kind as EventKind
from scheduler.ids import new_schedule_ids
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.bulk.records import Asked, Kind, Progress, State, packed_ids
from tests.browser.conftest import Watched
from tests.support.servers import Customer, PostdateProcess, Receiver

_MARKS = 10
_TOP = "selector => document.querySelector(selector).getBoundingClientRect().top"
_WHOLE_ROWS = """() => [...document.querySelectorAll("tr[data-row]")]
  .filter(row => row.getBoundingClientRect().bottom <= innerHeight).length"""
_BEYOND = "() => document.documentElement.scrollWidth > innerWidth"
# How many letters of each path are seen that are there, but for an ellipsis.
_LETTERS = """() => [...document.querySelectorAll("tr[data-row] .path")].map(path => {
  const letter = document.createElement("span");
  letter.textContent = "0";
  path.append(letter);
  const width = letter.getBoundingClientRect().width;
  letter.remove();
  const end = path.closest("a").getBoundingClientRect().right;
  return Math.floor((end - path.getBoundingClientRect().left) / width);
})"""


async def _crowd(store: Store) -> None:
    """The store was away now and then in the last hour; and two bulk actions have done 43 of 100,
    and go on in ten minutes."""
    now_ms, [[account], _] = store.clock.now_ms(), await store.accounts.some()
    for number in range(_MARKS, 0, -1):
        since_ms = now_ms - number * 300_000
        words = ("k", EventKind.STORE_AWAY, "s", since_ms, "u", since_ms + 2000)
        await store.server.call("XADD", keys.SERVICE_EVENTS, "*", *words)
    chosen = packed_ids(new_schedule_ids(100, now_ms))
    asked = Asked(Kind.CANCEL, "dashboard", now_ms, chosen, {}, now_ms, {})
    left = 2
    for number in range(20):
        await store.bulks.add(account.account_id, f"crowds-{number:09}", asked)
        taken = await store.bulks.take(account.account_id)
        if taken is None:  # an API process was faster
            continue
        half = Progress(done=43)
        await store.bulks.note(account.account_id, taken, half, State.RUNNING, 600_000)
        left -= 1
        if not left:
            return
    raise AssertionError("every bulk action was taken")


@pytest.fixture(scope="module")
def _crowds(postdate_up: PostdateProcess) -> None:
    with ThreadPoolExecutor(1) as thread:  # an event loop of its own
        settings = Settings(redis_url=postdate_up.redis_url)
        thread.submit(with_store, settings, _crowd).result()


@pytest.fixture
def crowded(
    _crowds: None,
    signed_in: Watched,
    postdate_up: PostdateProcess,
    customer: Customer,
    receiver: Receiver,
) -> Iterator[Watched]:
    """A paused lane, two bulk actions under way and ten marks, above a page of requests."""
    lane = f"{postdate_up.base_url}/lanes/stands"
    httpx.patch(lane, headers=customer.headers, json={"paused": True}).raise_for_status()
    well = [f"{receiver.url}/well/{number}" for number in range(12)]
    items = [{"targetUrl": url, "delay": delay} for url in well for delay in ("0s", "1h")]
    customer.schedule_batch(items)
    for number in range(len(well)):
        receiver.wait_for(1, f"/well/{number}")
    yield signed_in
    httpx.patch(lane, headers=customer.headers, json={"paused": False}).raise_for_status()


def test_the_list_comes_first_whatever_stands_above_it(crowded: Watched) -> None:
    page = crowded.page
    page.set_viewport_size({"width": 1440, "height": 900})
    crowded.go("/requests")
    drawer = page.locator("#drawer summary")
    expect(drawer).to_have_text("2 bulk actions · 43 %")
    expect(page.locator(".stopped")).to_contain_text("stands")
    expect(page.locator(".causes")).to_contain_text("the store was away")
    assert page.evaluate(_TOP, "#list") <= 300
    assert page.evaluate(_WHOLE_ROWS) >= 16
    expect(page.locator(".bulk-action").first).to_be_hidden()
    drawer.press("Enter")
    expect(page.locator(".bulk-action").last).to_be_visible()
    crowded.look_until("#contact", "Live")  # news leave it open
    expect(page.locator(".bulk-action").last).to_be_visible()
    page.set_viewport_size({"width": 380, "height": 800})
    crowded.go("/requests")
    assert page.evaluate(_TOP, "tr[data-row]") <= 360
    for width in (320, 380, 768, 1024, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        assert not page.evaluate(_BEYOND), width
    crowded.assert_quiet()


def test_the_bar_has_what_can_be_done_to_what_is_ticked(crowded: Watched) -> None:
    page = crowded.page
    crowded.go("/requests")
    acts = page.locator("#picked [name=action]:visible")
    page.locator("#coming .pick").first.check()
    expect(acts).to_have_text(["Cancel", "Reschedule", "Move to another lane"])
    page.locator("#past .pick").first.check()
    expect(acts).to_have_text(["Cancel", "Run again", "Reschedule", "Move to another lane"])
    page.locator("#coming .pick").first.uncheck()
    expect(acts).to_have_text(["Run again"])
    page.get_by_label("all that match").check()
    expect(acts).to_have_text(["Cancel", "Run again", "Reschedule", "Move to another lane"])


def _opened(page: Page, schedule_id: str) -> None:
    page.locator(f"#r-{schedule_id} a.opens").click()
    page.locator("#panel article").wait_for()


def test_a_long_url_hides_neither_its_row_nor_what_can_be_done(
    signed_in: Watched, customer: Customer, receiver: Receiver
) -> None:
    page = signed_in.page
    url = receiver.url + "/long/" + "path/" * 1600
    long = customer.schedule(url, lane="l" * 60, reference="r" * 100)
    customer.outcome(long)
    page.set_viewport_size({"width": 1440, "height": 900})
    signed_in.go("/requests?q=/long/")
    _opened(page, long)
    assert min(page.evaluate(_LETTERS)) >= 24
    heading = page.locator("#panel-title")
    line = float(heading.evaluate("each => parseFloat(getComputedStyle(each).lineHeight)"))
    for width in (1440, 380):
        page.set_viewport_size({"width": width, "height": 800})
        assert heading.bounding_box()["height"] <= 3 * line + 1  # type: ignore[index]
        top = page.locator("#panel article").bounding_box()["y"]  # type: ignore[index]
        again = page.get_by_role("button", name="Run again").last.bounding_box()
        assert again
        assert again["y"] + again["height"] - top <= 220
    page.get_by_text("Whole URL").click()
    expect(page.locator(".whole code")).to_have_text(re.compile(r"(path/){1600}$"))
    signed_in.assert_quiet()
