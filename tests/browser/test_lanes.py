"""Lanes in a real browser: paused and resumed with a press."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Watched
from tests.browser.test_dashboard import store_away
from tests.support.servers import Customer


def test_a_lane_is_paused_and_resumed_with_a_press(signed_in: Watched, customer: Customer) -> None:
    waiting = customer.schedule("https://example.com/waits", 3600, lane="once")
    page = signed_in.page
    signed_in.go()
    page.get_by_role("link", name="Lanes", exact=True).click()
    page.get_by_role("button", name="Pause once", exact=True).click()
    banner = page.locator(".stopped")
    expect(banner).to_contain_text("Lane once is paused until it is resumed.")
    assert banner.evaluate("each => each.offsetHeight") <= 44
    expect(page).to_have_url(re.compile("/lanes$"))
    page.get_by_role("link", name="1 that wait in once").click()
    expect(page.locator(f"#r-{waiting}")).to_contain_text("once")
    banner.get_by_role("button", name="Resume").click()
    expect(banner).to_have_count(0)
    expect(page).to_have_url(re.compile("lane=once$"))


def test_the_banner_of_an_open_page_goes_once_nothing_is_paused(
    signed_in: Watched, customer: Customer
) -> None:
    page = signed_in.page
    customer.schedule("https://example.com/waits", 3600, lane="pressed")
    signed_in.go("/lanes")
    page.get_by_role("button", name="Pause pressed").click()
    banner = page.locator(".stopped")
    expect(banner).to_contain_text("Lane pressed is paused")
    other = page.context.new_page()
    other.goto(page.url)
    signed_in.go("/requests/new")
    page.get_by_role("searchbox").fill("https://example.com/typed")
    other.get_by_role("button", name="Resume pressed").click()
    expect(other.locator(".stopped")).to_have_count(0)
    signed_in.look()
    expect(banner).to_have_count(0)
    expect(page.get_by_role("searchbox")).to_have_value("https://example.com/typed")
    signed_in.assert_quiet()


def test_a_save_that_failed_is_told_until_it_is_made(signed_in: Watched) -> None:
    """And a second tab does not overwrite the first one's unseen."""
    page = signed_in.page
    signed_in.go("/lanes/invoices")
    other = page.context.new_page()
    other.goto(page.url)
    page.get_by_label("Parallelism").fill("3")
    page.route("**/dashboard/lanes/**", store_away)
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#alarm")).to_contain_text("The store does not answer right now.")
    page.unroute("**/dashboard/lanes/**")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("status").first).to_contain_text("Saved: 3 at a time.")
    other.get_by_label("Parallelism").fill("7")
    other.get_by_role("button", name="Save").click()
    expect(other.get_by_role("alert").first).to_contain_text("somebody changed this lane meanwhile")
    expect(other.get_by_label("Parallelism")).to_have_value("7")
    other.get_by_role("button", name="Save").click()
    expect(other.get_by_role("status").first).to_contain_text("Saved: 7 at a time.")
