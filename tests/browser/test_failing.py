"""What fails on a page says so, leaves all as it was, and can be done again as it was meant."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from api.dashboard.render import _templates
from api.dashboard.requests.filters import Filter
from api.dashboard.requests.listing import Rows
from tests.browser.conftest import Watched, sign_in
from tests.servers import Customer, PostdateProcess

_SENTENCE = "The store does not answer right now."
_AWAY = f"<!doctype html><title>A moment</title><p data-sentence>{_SENTENCE}</p>"


Fail = Callable[[Route], None]


def no_contact(route: Route) -> None:
    route.abort()


def store_away(route: Route) -> None:
    route.fulfill(status=503, content_type="text/html", body=_AWAY)


FAILURES = pytest.mark.parametrize(
    ("fail", "words"), [(no_contact, "No contact with Postdate"), (store_away, _SENTENCE)]
)


def fails_then_succeeds(
    page: Page, path: str, press: Callable[[], None], fail: Fail, words: str
) -> None:
    """Presses something while its address fails; then it is done again by what the alarm offers."""
    page.evaluate("window.notReloaded = true")
    page.route(path, fail)
    press()
    expect(page.locator("#alarm")).to_contain_text(words)
    assert page.evaluate("window.notReloaded"), "what was on the page is still there"
    page.unroute(path)
    page.get_by_role("button", name="Try again").click()


@FAILURES
def test_a_zone_that_could_not_be_kept_is_the_one_that_was_meant(
    browser: Browser, postdate_up: PostdateProcess, fail: Fail, words: str
) -> None:
    """Which of a form's buttons was pressed is a part of what it says."""
    there = browser.new_context(timezone_id="Asia/Tokyo")
    sign_in(there, postdate_up)
    page = there.new_page()
    page.goto(f"{postdate_up.base_url}/dashboard")
    button = page.get_by_role("button", name="Show local time")
    fails_then_succeeds(page, "**/dashboard/zone", button.click, fail, words)
    expect(page.locator("footer")).to_contain_text("Times are of Asia/Tokyo")
    there.close()


@FAILURES
def test_a_rotation_that_failed_is_made_once_and_as_it_was_chosen(
    signed_in: Watched, fail: Fail, words: str
) -> None:
    page = signed_in.page
    signed_in.go("/keys")
    before = page.locator("summary.id").count()
    page.get_by_label("Keep the earlier ones").select_option("1h")
    button = page.get_by_role("button", name="Rotate")
    fails_then_succeeds(page, "**/signing/rotate", button.click, fail, words)
    expect(page.get_by_role("status")).to_contain_text("A new signing secret is there")
    expect(page.locator("summary.id")).to_have_count(before + 1)


@FAILURES
def test_a_cancellation_that_failed_is_told_until_it_is_made(
    signed_in: Watched, fail: Fail, words: str, customer: Customer
) -> None:
    """Contact alone, which the page finds again by itself, does not make it done."""
    page = signed_in.page
    page.on("dialog", lambda dialog: dialog.accept())
    waiting = customer.schedule("https://example.com/waits", 3600)
    signed_in.go(f"/requests/{waiting}")
    page.route("**/dashboard/**", fail)
    page.get_by_role("button", name="Cancel it").click()
    expect(page.locator("#alarm")).to_contain_text(words)
    signed_in.look()
    expect(page.locator("#contact")).to_have_class(re.compile("lost"), timeout=10_000)
    page.unroute("**/dashboard/**")
    signed_in.look()
    expect(page.locator("#contact")).to_contain_text("Live · ", timeout=10_000)
    assert customer.get(f"/schedule/{waiting}").json()["status"] == "scheduled"
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("status").first).to_contain_text("its credit is yours again")
    expect(page.locator("#alarm")).to_be_empty()


@FAILURES
def test_a_search_whose_next_step_failed_goes_on(
    signed_in: Watched, fail: Fail, words: str
) -> None:
    """It went on by itself, without a click."""
    page = signed_in.page
    wanted = Filter(q="nothing-is-like-this")
    looking = _templates.get_template("requests/looking.html").render(
        wanted=wanted, rows=Rows([], unfinished=True), side="past", paused=False
    )
    page.route("**/requests/more**", fail)
    signed_in.go("/requests?q=nothing-is-like-this")
    page.locator("#live").evaluate(
        "(each, row) => { each.innerHTML = `<table>${row}</table>`; htmx.process(each); }", looking
    )
    expect(page.locator("#alarm")).to_contain_text(words)
    page.unroute("**/requests/more**")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#live")).to_contain_text("That is all.")
    expect(page.locator("#alarm")).to_be_empty()


def test_all_that_match_are_cancelled_a_portion_at_a_time_and_it_can_be_stopped(
    signed_in: Watched, customer: Customer
) -> None:
    """It goes on by itself until the user stops it."""
    page, most = signed_in.page, 1000
    for portion in range(4):
        customer.schedule_batch(
            [
                {"targetUrl": f"https://example.com/wave/{n}", "delay": f"{portion + 9}h"}
                for n in range(most)
            ]
        )
    began = customer.credits()

    def cancel_all() -> None:
        signed_in.go("/requests?q=wave&status=scheduled")
        page.locator(".pick").first.check()
        page.get_by_label("all that match").check()
        page.locator("#picked").get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Cancel all of them").click()

    def hold_all_but_the_first(route: Route) -> None:
        if "done=" not in (route.request.post_data or ""):
            route.continue_()

    page.route("**/requests/bulk", hold_all_but_the_first)
    cancel_all()
    expect(page.get_by_role("status")).to_contain_text("So far 1,000 cancelled")
    page.get_by_role("link", name="Stop here").click()
    expect(page.get_by_role("heading", name="Requests")).to_be_visible()
    assert customer.credits() == began + most
    page.unroute("**/requests/bulk")

    cancel_all()
    expect(page.get_by_role("status")).to_contain_text("3,000 cancelled", timeout=30_000)
    expect(page).to_have_url(re.compile(r"/dashboard/requests\?status=scheduled&q=wave"))
    assert customer.credits() == began + 4 * most
