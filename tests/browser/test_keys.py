"""The list by keyboard alone, and what a press that waits looks like."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, Route, expect

from tests.browser.conftest import Watched, sign_in
from tests.browser.test_every_page import serious
from tests.support.servers import Customer, PostdateProcess, until

# Of what can be reached by Tab, in that order: its line, and its place in that line.
_PLACES = """() => [...document.querySelectorAll("#filters :is(input, button, a)")]
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
    """Through the filters, on a phone."""
    page = signed_in.page
    page.set_viewport_size({"width": 380, "height": 800})
    signed_in.go("/requests?status=failed&lane=a&host=b.test")
    places = page.evaluate(_PLACES)
    assert len(places) == 6  # three chips, the box, and two that act
    assert places == sorted(places)


def test_filters_are_chosen_and_removed_by_keys(signed_in: Watched, customer: Customer) -> None:
    customer.schedule("https://example.com/a", 3600, lane="customer-17")
    page = signed_in.page
    signed_in.go("/requests")
    keys, box, options = page.keyboard, page.locator("#q"), page.get_by_role("option")
    keys.press("/")
    keys.type("lan")
    expect(options).to_have_count(1)
    keys.press("ArrowDown")
    expect(options).to_have_attribute("aria-selected", "true")
    assert serious(page) == []
    keys.press("Enter")
    expect(box).to_have_value("lane:")
    keys.type("cust")
    expect(options).to_have_text("lane:customer-17")
    keys.press("ArrowUp")
    keys.press("Enter")
    page.wait_for_url("**/requests?lane=customer-17")
    keys.press("/")
    keys.type("status:lost")
    keys.press("Enter")
    expect(page.get_by_role("alert").first).to_contain_text("status:lost There is no such status")
    expect(page.locator("tr[data-row]")).to_have_count(1)
    assert serious(page) == []
    box.fill("")
    expect(options.first).to_be_visible()
    keys.press("Escape")
    expect(page.locator("#suggestions")).to_be_hidden()
    keys.press("Backspace")
    page.wait_for_url("**/dashboard/requests")
    expect(box).to_be_focused()
    signed_in.complaints.clear()  # of the page that named a bad filter, the status of 400
    signed_in.assert_quiet()


def test_filters_need_no_scripts(browser: Browser, postdate_up: PostdateProcess) -> None:
    bare = browser.new_context(java_script_enabled=False)
    sign_in(bare, postdate_up)
    page = bare.new_page()
    page.goto(f"{postdate_up.base_url}/dashboard/requests?status=failed")
    page.get_by_label("Filter the list").fill('answer:"Not Found"')
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**/requests?status=failed&answer=Not+Found")
    page.get_by_role("link", name="Remove the filter status:failed").click()
    page.wait_for_url("**/requests?answer=Not+Found")
    bare.close()


def test_an_open_request_goes_along_with_the_keys(signed_in: Watched, customer: Customer) -> None:
    for number in range(3):
        customer.schedule(f"https://example.com/along-{number}", 600 - number, reference="along")
    page = signed_in.page
    signed_in.go("/requests?status=scheduled&reference=along")
    keys, title, row = page.keyboard, page.locator("#panel-title"), page.locator("tr.shown")
    keys.press("j")
    expect(title).to_have_count(0)
    keys.press("Enter")
    expect(title).to_contain_text("along-2")
    for key, path in (("j", "along-1"), ("j", "along-0"), ("j", "along-0"), ("k", "along-1")):
        keys.press(key)
        expect(title).to_contain_text(path)
        expect(row).to_contain_text(path)
        expect(row.locator("a.opens")).to_be_focused()
    assert f"{row.get_attribute('id')}"[2:] in page.url
    keys.press("Escape")
    expect(title).to_have_count(0)
    expect(page.locator("a.opens:focus")).to_contain_text("along-1")
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
    until(lambda: page.wait_for_timeout(10) or held)  # the browser's events come meanwhile
    held[0].continue_()
    expect(page.locator("#panel-title")).to_be_visible()
    expect(root).not_to_have_class(re.compile("busy"))
