"""The dialog that jumps, by keyboard; and its page, without scripts."""

from __future__ import annotations

from playwright.sync_api import Browser, Route, expect

from tests.browser.conftest import Watched, sign_in
from tests.browser.test_every_page import serious
from tests.support.servers import Customer, PostdateProcess


def test_a_few_letters_and_enter_jump_there(signed_in: Watched, customer: Customer) -> None:
    wanted = customer.schedule("https://example.com/jumps", 7200, reference="jump-1")
    other = customer.schedule("https://example.com/jumps", 7100, reference="jump-2")
    page = signed_in.page
    signed_in.go("/keys")
    keys = page.keyboard
    keys.press("Control+k")
    box = page.get_by_role("dialog", name="Jump to").get_by_role("textbox")
    expect(box).to_be_focused()
    keys.type("jump-")
    places = page.locator("#found a")
    expect(places).to_have_count(3)
    expect(page.locator("#found-count")).to_have_text("3 found")
    assert serious(page) == []
    keys.press("ArrowDown")
    expect(places.nth(0)).to_be_focused()
    keys.press("ArrowDown")
    expect(places.nth(1)).to_be_focused()
    keys.press("Enter")
    page.wait_for_url(f"**/dashboard/requests/{other}")
    keys.press("Control+k")
    keys.type("jump-1")
    expect(places.first).to_contain_text("jump-1")
    keys.press("Enter")
    page.wait_for_url(f"**/dashboard/requests/{wanted}")
    page.locator("[data-jump]").click()
    expect(box).to_be_focused()
    keys.press("Escape")
    expect(box).to_be_hidden()
    signed_in.assert_quiet()


def test_a_search_that_fails_is_told_in_the_dialog_and_can_be_repeated(signed_in: Watched) -> None:
    """Nothing outside of an open dialog can be pressed."""
    page = signed_in.page
    signed_in.go("/keys")
    page.route("**/dashboard/jump**", lambda route: route.fulfill(status=503, body="away"))
    page.keyboard.press("Control+k")
    page.keyboard.type("credits")
    expect(page.locator("#alarm")).to_contain_text("Postdate could not do that")
    page.unroute("**/dashboard/jump**")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#found a").first).to_contain_text("Credits")


def test_a_verb_and_a_name_do_it_and_the_dialog_says_so(
    signed_in: Watched, customer: Customer
) -> None:
    for lane in ("verbs-a", "verbs-b"):
        customer.schedule("https://example.com/verbs", 7200, lane=lane)
    page, keys = signed_in.page, signed_in.page.keyboard
    signed_in.go()
    found, done = page.locator("#found button"), page.locator("#found .done")
    keys.press("Control+k")
    keys.type("verbs pause")
    expect(page.locator("#found-count")).to_have_text("2 found")
    assert serious(page) == []
    keys.press("Enter")  # of several it does none
    expect(found.first).to_be_focused()
    keys.press("ArrowDown")
    keys.press("Enter")
    expect(done).to_contain_text("Lane verbs-b is paused")
    expect(page.locator("#banner")).to_contain_text("verbs-b")
    expect(page.get_by_role("dialog").get_by_role("textbox")).to_be_focused()
    keys.type("resume verbs")
    expect(found).to_have_text("Resume lane verbs-b")
    keys.press("Enter")
    expect(done).to_have_text("Lane verbs-b is resumed.")
    expect(page.locator("#banner")).not_to_contain_text("verbs-b")
    signed_in.assert_quiet()


def test_it_asks_once_a_pause_in_typing(signed_in: Watched) -> None:
    page = signed_in.page
    page.clock.install(time=0)
    signed_in.go("/keys")
    page.clock.pause_at(3_600_000)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.keyboard.press("Control+k")
    page.keyboard.type("credits")
    expect(page.locator("#jump input")).to_have_value("credits")
    page.clock.run_for(299)
    assert [url for url in asked if "/jump?" in url] == []
    page.clock.run_for(1)
    expect(page.locator("#found a").first).to_contain_text("Credits")
    assert len([url for url in asked if "/jump?" in url]) == 1


def no_places(route: Route) -> None:
    """The dialog's question is never answered; the page's own is."""
    if "hx-request" not in route.request.headers:
        route.continue_()


def test_enter_before_there_are_places_finds_them_on_a_page(
    signed_in: Watched, browser: Browser, postdate_up: PostdateProcess
) -> None:
    page = signed_in.page
    signed_in.go()
    page.route("**/jump?*", no_places)
    page.keyboard.press("Control+k")
    page.keyboard.type("credits")
    page.keyboard.press("Enter")
    expect(page.locator("main #found a").first).to_have_text("Creditspage")
    bare = browser.new_context(java_script_enabled=False)
    sign_in(bare, postdate_up)
    plain = bare.new_page()
    plain.goto(f"{signed_in.base_url}/dashboard/keys")
    plain.locator("[data-jump]").click()
    plain.get_by_role("textbox").fill("credits")
    plain.get_by_role("button", name="Find").click()
    plain.locator("main #found a").first.click()
    expect(plain).to_have_url(f"{signed_in.base_url}/dashboard/credits")
    bare.close()
