"""The list by keyboard alone, and what a press that waits looks like."""

from __future__ import annotations

import re

from playwright.sync_api import Route, expect

from tests.browser.conftest import Watched
from tests.servers import Customer


def test_the_list_is_read_ticked_and_opened_by_keys(signed_in: Watched, customer: Customer) -> None:
    first, second = [customer.schedule("https://example.com/a", 7200 - n) for n in range(2)]
    page = signed_in.page
    signed_in.go("/requests?status=scheduled")
    keys = page.keyboard
    row = page.locator(f"#r-{second} a.opens")
    keys.press("j")
    expect(row).to_be_focused()
    keys.press("j")
    expect(page.locator(f"#r-{first} a.opens")).to_be_focused()
    keys.press("k")
    keys.press("x")
    expect(page.locator(f"#r-{second} .pick")).to_be_checked()
    expect(page.locator("#picked")).to_contain_text("1 selected")
    keys.press("x")
    keys.press("Enter")
    expect(page.locator("#panel-title")).to_be_focused()
    keys.press("Escape")
    expect(page.locator("#panel article")).to_have_count(0)
    expect(row).to_be_focused()
    keys.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    keys.press("j")
    keys.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    expect(row).to_be_focused()
    keys.press("/")
    expect(page.locator("#q")).to_be_focused()
    keys.type("jk?x")
    expect(page.locator("#q")).to_have_value("jk?x")
    signed_in.assert_quiet()


def test_a_press_without_an_answer_is_seen_to_wait(signed_in: Watched, customer: Customer) -> None:
    waiting = customer.schedule("https://example.com/b", 3600)
    held: list[Route] = []
    page = signed_in.page
    signed_in.go("/requests")
    page.route(f"**/requests/{waiting}*", lambda route: held.append(route))
    page.locator(f"#r-{waiting} a.opens").click()
    root = page.locator("html")
    expect(root).to_have_class("busy")
    held[0].continue_()
    expect(page.locator("#panel-title")).to_be_visible()
    expect(root).not_to_have_class(re.compile("busy"))
