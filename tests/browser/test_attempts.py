"""The line of attempts under a pointer, with scripts and without."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from tests.browser.conftest import Watched, sign_in
from tests.support.servers import Customer, PostdateProcess, Receiver


def test_a_dot_shows_its_attempt(
    signed_in: Watched,
    customer: Customer,
    receiver: Receiver,
    browser: Browser,
    postdate_up: PostdateProcess,
) -> None:
    failing = receiver.answer("/fails", status=503)
    failed = customer.schedule(failing, retries=2, retryDelays=["1s"])
    customer.outcome(failed)
    page = signed_in.page
    signed_in.go(f"/requests/{failed}")
    opened = page.locator("details.attempt[open]")
    expect(opened).to_have_count(0)
    for number in (2, 1):
        page.locator(f'[data-attempt="{number}"]').click()
        expect(opened).to_have_count(1)
        expect(opened).to_contain_text(f"Postdate-Attempt: {number}")
        expect(page.locator("summary:focus")).to_have_text(opened.locator("summary").inner_text())
    expect(page).to_have_url(f"{signed_in.base_url}/dashboard/requests/{failed}")
    signed_in.assert_quiet()
    bare = browser.new_context(java_script_enabled=False)
    sign_in(bare, postdate_up)
    plain = bare.new_page()
    plain.goto(f"{signed_in.base_url}/dashboard/requests/{failed}")
    plain.locator('[data-attempt="3"]').click()
    expect(plain.get_by_text("Postdate-Attempt: 3")).to_be_visible()
    bare.close()
