"""The forms of a request: a fault stands beside its field, which gets the focus, and two people who
edit one request."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Watched
from tests.browser.test_every_page import serious
from tests.support.servers import Customer


def test_a_fault_is_shown_where_it_was_typed_and_mended(signed_in: Watched) -> None:
    page = signed_in.page
    signed_in.go("/requests/new")
    panel = page.locator("#panel")
    expect(panel.get_by_label("Retries", exact=True)).to_be_hidden()
    panel.locator("summary", has_text="If it fails").click()
    panel.get_by_label("Retries", exact=True).fill("2")
    waits = panel.get_by_label("Waits before retries")
    waits.fill("1s soon")
    panel.locator("summary", has_text="How it is sent").click()
    lane = panel.get_by_label("Lane", exact=True)
    lane.fill("a lane")  # which the pattern of the field refuses
    panel.get_by_role("button", name="Schedule it").click()
    assert lane.evaluate("lane => lane.validity.patternMismatch")
    lane.fill("a-lane.0:_")
    panel.get_by_label("When").select_option("at a time")
    expect(panel.get_by_label("Delay", exact=True)).to_be_hidden()
    panel.get_by_label("Time (UTC)").fill("2030-01-02T03:04:05.678")
    panel.get_by_role("button", name="Schedule it").click()
    expect(panel.get_by_role("alert")).to_have_text("1 field to correct: Waits before retries.")
    expect(waits).to_be_focused()
    expect(waits).to_have_accessible_description(re.compile("It must be a duration"))
    assert serious(page) == []
    waits.fill("1s, 2s")
    page.keyboard.press("Enter")
    expect(panel).to_contain_text("2030-01-02 03:04:05.678")
    expect(panel).to_contain_text("a-lane.0:_")
    assert [each for each in signed_in.complaints if "status of 400" not in each] == []


def test_of_two_tabs_that_edit_a_request_the_second_is_told(
    signed_in: Watched, customer: Customer
) -> None:
    waits = customer.schedule("https://example.com/edited", due_in_s=3600)
    page = signed_in.page
    other = page.context.new_page()
    for each in (page, other):
        each.goto(f"{signed_in.base_url}/dashboard/requests/{waits}?status=scheduled")
        each.locator("#panel").get_by_role("link", name="Edit", exact=True).click()
        each.wait_for_url(f"**/requests/{waits}/edit?status=scheduled")
        each.locator("#panel summary", has_text="Found by").click()
    for each, reference in ((page, "order-1"), (other, "order-2")):
        each.locator("#panel").get_by_label("Reference").fill(reference)
        each.locator("#panel").get_by_role("button", name="Save").click()
    expect(page.locator("#panel")).to_contain_text("It is changed; no credit moved.")
    expect(page).to_have_url(f"{signed_in.base_url}/dashboard/requests/{waits}?status=scheduled")
    panel = other.locator("#panel")
    expect(panel.get_by_role("alert")).to_contain_text("somebody changed it meanwhile")
    expect(panel.get_by_label("Reference")).to_have_value("order-2")
    panel.get_by_role("link", name="Close").click()
    expect(panel).to_contain_text("order-1")
    other.close()
    signed_in.assert_quiet()
