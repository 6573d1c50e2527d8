"""An operator holds all workers, sees what is in flight end, and resumes."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.browser.conftest import Watched
from tests.browser.test_every_page import serious
from tests.support.servers import Customer, Receiver


def test_a_hold_is_watched_until_it_is_safe_to_stop(
    signed_in: Watched, customer: Customer, receiver: Receiver
) -> None:
    page = signed_in.page
    signed_in.go("/system")
    page.get_by_role("link", name="Overdue", exact=True).click()
    expect(page.locator("[aria-sort=descending]")).to_contain_text("Overdue")
    page.wait_for_load_state()
    assert serious(page) == []
    slow = [customer.schedule(receiver.answer("/slow", held=True)) for _ in range(2)]
    receiver.wait_for(2, "/slow")
    signed_in.go("/system")
    page.get_by_role("link", name="Hold all workers").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Put all workers on hold?")).to_be_visible()
    page.wait_for_load_state()
    assert serious(page) == []
    page.get_by_role("button", name="Hold all workers").click()
    expect(page.get_by_text("On hold: workers claim nothing")).to_be_visible()
    signed_in.look_until("#draining", "2 in flight")
    assert serious(page) == []
    due = customer.schedule(receiver.url + "/held-back")
    receiver.let_go()
    for each in slow:
        customer.outcome(each)
    signed_in.look_until("#draining", "0 in flight, safe to stop")
    assert receiver.at("/held-back") == []
    signed_in.go("/requests")
    page.locator("main").get_by_role("link", name="System").click()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("Resumed: workers claim due schedules again")).to_be_visible()
    customer.outcome(due)
    expect(page.locator("#hold")).to_have_count(0)
    signed_in.assert_quiet()
