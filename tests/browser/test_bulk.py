"""A group of failures is run again, and what becomes of it stays on the pages."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Watched
from tests.browser.test_every_page import _BEYOND, _TOO_SMALL, serious
from tests.support.servers import Customer, Receiver


def test_a_group_that_runs_again_is_followed_by_keyboard_through_reloads(
    signed_in: Watched, customer: Customer, receiver: Receiver
) -> None:
    page, host = signed_in.page, receiver.url.removeprefix("http://")
    bad = receiver.answer("/again", status=503)
    for schedule_id in [customer.schedule(bad) for _ in range(3)]:
        assert customer.outcome(schedule_id)["status"] == "failed"
    receiver.answer("/again")
    signed_in.go()
    page.get_by_role("button", name=f"Run again 3 failures of {host}").press("Enter")
    page.get_by_role("button", name="Run again 3", exact=True).press("Enter")
    strip, drawer = page.locator(".bulk-action"), page.locator("#drawer summary")
    expect(drawer).to_have_text(re.compile("^1 bulk action"))
    drawer.press("Enter")
    expect(strip).to_contain_text("3 run again")
    expect(strip).to_contain_text(f"host {host}")
    # The list is a search, and stands still; its strip does not.
    signed_in.look_until(".bulk-action", "3 run again: 3 completed.")
    for path in ("", "/requests"):
        signed_in.go(path)
        expect(strip).to_contain_text("3 run again: 3 completed.")
    expect(drawer).to_have_text("1 bulk action ended")
    drawer.press("Enter")
    assert serious(page) == []
    for width in (320, 380):
        page.set_viewport_size({"width": width, "height": 800})
        assert not page.evaluate(_BEYOND), width
        assert page.evaluate(_TOO_SMALL) == [], width
    page.get_by_role("link", name="Show them").click()
    expect(page.locator("tr[data-row]")).to_have_count(3)
    drawer.press("Enter")
    page.get_by_role("button", name="Close: Run again").press("Enter")
    expect(strip).to_have_count(0)
    page.reload()
    expect(page.locator("h1")).to_have_text("Requests")
    expect(strip).to_have_count(0)
    signed_in.assert_quiet()
