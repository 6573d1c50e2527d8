"""Lanes in a real browser: paused and resumed with a press."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import expect

from tests.browser.conftest import Watched
from tests.browser.test_dashboard import store_away
from tests.browser.test_every_page import serious
from tests.support.servers import Customer, Receiver, until


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


def test_what_a_lane_holds_says_why_and_goes_out_once_it_is_moved(
    signed_in: Watched, customer: Customer, receiver: Receiver
) -> None:
    page, url = signed_in.page, receiver.answer("/held")
    page.set_viewport_size({"width": 1440, "height": 900})
    slow = {"rate": 1, "per": "1d"}
    httpx.put(f"{customer.base_url}/lanes/slow", headers=customer.headers, json=slow)
    made = [customer.schedule(url, 0, lane="slow") for _ in range(4)]
    until(lambda: len(receiver.at("/held")) == 1, "the first to be sent")
    signed_in.go("/lanes/slow")
    signed_in.look_until("#backlog", "3 are due and wait: 1 per day.")
    page.get_by_role("link", name="List them", exact=True).click()
    row = page.locator(f"#r-{made[-1]}")
    expect(row.locator(".status")).to_have_text("held")
    expect(row.locator(".why")).to_contain_text(
        "waits for lane slow: 1 per day, 2 before it, about"
    )
    assert row.locator(".why").evaluate("each => each.scrollWidth - each.clientWidth") <= 1, "whole"
    row.locator("a.opens").click()
    panel = page.locator("#panel")
    expect(panel).to_contain_text("It waits for lane slow: 1 per day, 2 before it, about")
    panel.get_by_label("Another lane").fill("fast")
    # One before it is gone: the sentence says so, and what was typed stays.
    customer.cancel(made[1])
    signed_in.look_until("#held", "1 before it")
    expect(panel.get_by_label("Another lane")).to_have_value("fast")
    panel.get_by_role("button", name="Move", exact=True).click()
    expect(panel).to_contain_text("It is in lane fast now; no credit moved.")
    assert serious(page) == []
    until(lambda: len(receiver.at("/held")) == 2, "the moved one to be sent")
    signed_in.go("/lanes/slow")
    page.get_by_role("button", name="Move to another lane").click()
    expect(page.locator("h1")).to_have_text("Move to another lane: 1 request?")
    page.get_by_role("button", name="To no lane").click()
    expect(page.locator(".bulk-action")).to_contain_text("Move out of lanes · 1 moved.")
    until(lambda: len(receiver.at("/held")) == 3, "the last one to be sent")
    signed_in.assert_quiet()


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
    page.locator("#q").fill("https://example.com/typed")
    other.get_by_role("button", name="Resume pressed").click()
    expect(other.locator(".stopped")).to_have_count(0)
    signed_in.look()
    expect(banner).to_have_count(0)
    expect(page.locator("#q")).to_have_value("https://example.com/typed")
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
