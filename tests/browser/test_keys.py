"""The list by keyboard alone, and what a press that waits looks like."""

from __future__ import annotations

import re

from playwright.sync_api import Route, expect

from tests.browser.conftest import Watched
from tests.support.servers import Customer, until

# Of what can be reached by Tab, in that order: its line, and its place in that line.
_PLACES = """() => [...document.querySelectorAll("#filters :is(input, select, button, a)")]
  .filter(each => each.offsetParent)
  .map(each => each.getBoundingClientRect())
  .map(box => [Math.round((box.top + box.bottom) / 40), box.left])
"""


def test_the_list_is_read_ticked_and_opened_by_keys(signed_in: Watched, customer: Customer) -> None:
    first, second = [customer.schedule("https://example.com/a", 300 - n) for n in range(2)]
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


def test_what_is_ticked_is_cancelled_by_keys_and_heard_of(
    signed_in: Watched, customer: Customer
) -> None:
    """No Tab leads through the rest of the list to the buttons."""
    for number in range(3):
        customer.schedule(f"https://example.com/keys-{number}", 600 - number, reference="by-keys")
    page = signed_in.page
    signed_in.go("/requests?status=scheduled&reference=by-keys")
    keys, told = page.keyboard, page.locator("#announced")
    keys.press("b")  # there is nothing to lead to
    keys.press("j")
    keys.press("x")
    expect(told).to_have_text("1 selected")
    keys.press("j")
    keys.press("x")
    expect(told).to_have_text("2 selected")
    keys.press("Enter")
    expect(page.locator("#panel-title")).to_be_focused()
    expect(page.locator("tr.shown [aria-current=true]")).to_contain_text("keys-1")
    signed_in.look()
    keys.press("Escape")
    expect(page.locator("tr [aria-current]")).to_have_count(0)
    keys.press("b")
    expect(page.locator("#picked").get_by_role("button", name="Cancel")).to_be_focused()
    keys.press("Enter")
    expect(page.get_by_role("heading", name="Cancel 2 requests?")).to_be_visible()
    page.get_by_role("button", name="Cancel 2").focus()
    keys.press("Enter")
    page.wait_for_url("**/requests?status=scheduled&reference=by-keys")
    expect(page.locator("tr[data-row]")).to_have_count(1)
    signed_in.assert_quiet()


def test_keys_of_one_letter_can_be_switched_off(signed_in: Watched, customer: Customer) -> None:
    """In this browser, until they are switched on: speech input types letters (WCAG 2.1.4)."""
    customer.schedule("https://example.com/a", 7200)
    page = signed_in.page
    signed_in.go("/requests?status=scheduled")
    page.keyboard.press("?")
    page.get_by_label("Single-key shortcuts").uncheck()
    page.keyboard.press("Escape")
    signed_in.go("/requests?status=scheduled")
    for key in "jx/?":
        page.keyboard.press(key)
    expect(page.locator("a.opens:focus, .pick:checked, #q:focus, dialog[open]")).to_have_count(0)
    page.get_by_role("button", name="Keys").click()
    expect(page.get_by_label("Single-key shortcuts")).not_to_be_checked()
    page.get_by_label("Single-key shortcuts").check()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    expect(page.locator("a.opens:focus")).to_have_count(1)
    signed_in.assert_quiet()


def test_tab_goes_as_the_eye_does(signed_in: Watched) -> None:
    """Through the filters, folded and unfolded, on a phone."""
    page = signed_in.page
    page.set_viewport_size({"width": 380, "height": 800})
    signed_in.go("/requests")
    for unfold in (False, True):
        page.locator("#unfolded").set_checked(unfold)
        places = page.evaluate(_PLACES)
        assert len(places) == (10 if unfold else 3)
        assert places == sorted(places)


def test_a_press_without_an_answer_is_seen_to_wait(signed_in: Watched, customer: Customer) -> None:
    waiting = customer.schedule("https://example.com/b", 3600)
    held: list[Route] = []
    page = signed_in.page
    signed_in.go("/requests")
    page.route(f"**/requests/{waiting}*", lambda route: held.append(route))
    page.locator(f"#r-{waiting} a.opens").click()
    root = page.locator("html")
    expect(root).to_have_class("busy")
    until(lambda: page.wait_for_timeout(10) or held)  # the browser's events come meanwhile
    held[0].continue_()
    expect(page.locator("#panel-title")).to_be_visible()
    expect(root).not_to_have_class(re.compile("busy"))
