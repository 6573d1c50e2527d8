"""Recurring schedules in a real browser: a form that shows its times while it is typed, by keyboard
alone, and with a button where there are no scripts."""

from __future__ import annotations

from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Watched, sign_in
from tests.support.servers import PostdateProcess, Receiver


def make(page: Page, base_url: str, **fields: str) -> str:
    """The id of a rule that fires each day, made by its form, whose folds are opened."""
    page.goto(f"{base_url}/dashboard/recurring/new")
    page.locator('[name="way"]').select_option("every")
    page.locator("details").evaluate_all("all => all.forEach((each) => { each.open = true; })")
    for name, text in ({"every": "1d", "targetUrl": "https://example.com/"} | fields).items():
        page.locator(f'[name="{name}"]').fill(text)
    page.get_by_role("button", name="Set it").click()
    page.wait_for_url("**/recurring/rec_*")
    return page.url.rpartition("/")[2]


def type_over(page: Page, text: str) -> None:
    """Into the field that has the focus."""
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type(text)


def tab_to(page: Page, name: str) -> None:
    """To the next field of this name, by the keyboard."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == name:
            return
    raise AssertionError(f"Tab does not lead to {name}")


def test_one_is_made_by_keyboard_and_its_times_follow_the_typing(signed_in: Watched) -> None:
    page = signed_in.page
    signed_in.go("/recurring")
    page.get_by_role("link", name="New recurring schedule").press("Enter")
    preview = page.locator("#preview")
    expect(preview).to_contain_text("At 09:00, UTC")
    tab_to(page, "cron")
    type_over(page, "30 2 * * SUN")
    expect(preview).to_contain_text("At 02:30")
    type_over(page, "30 2 * *")
    expect(preview).to_contain_text("It must have five fields")
    type_over(page, "30 2 * * SUN")
    tab_to(page, "timeZone")
    type_over(page, "Europe/Berlin")
    expect(preview.locator("tbody tr")).to_have_count(10)
    expect(preview.locator("tbody tr").first).to_contain_text("Sun 02:30:00")
    tab_to(page, "name")
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="by-keyboard")).to_be_visible()
    expect(page.locator("#tile-state")).to_have_text("active")
    signed_in.assert_quiet()


def test_without_scripts_a_button_shows_the_times(
    browser: Browser, postdate_up: PostdateProcess
) -> None:
    context = browser.new_context(java_script_enabled=False)
    sign_in(context, postdate_up)
    page = context.new_page()
    page.goto(f"{postdate_up.base_url}/dashboard/recurring/new")
    page.get_by_label("Repeats").select_option("every")
    expect(page.get_by_role("combobox", name="Cron")).to_be_hidden()
    page.get_by_role("textbox", name="Every").fill("90m")
    page.get_by_role("button", name="Show the next times").click()
    expect(page.locator("#preview")).to_contain_text("Every 1h30m")
    expect(page.get_by_role("textbox", name="Every")).to_have_value("90m")
    context.close()


def test_an_occurrence_shows_as_a_dot_without_a_reload(
    signed_in: Watched, receiver: Receiver
) -> None:
    page = signed_in.page
    rule = make(page, signed_in.base_url, name="runs", targetUrl=f"{receiver.url}/runs")
    signed_in.go(f"/recurring/{rule}")
    page.get_by_role("button", name="Run now runs").click()
    expect(page.get_by_role("status").first).to_contain_text("runs is run now")
    signed_in.look_until("#live", "completed")
    signed_in.look_until("#contact", "Live")
    words = "The last 1: 1 completed; the latest completed"
    expect(page.get_by_role("img", name=words)).to_be_visible()
    page.locator("#live table").last.get_by_role("link").first.click()
    panel = page.locator("#panel")
    panel.get_by_role("link", name="After: the one that waits").click()
    expect(panel.get_by_role("link", name="Before: completed")).to_be_visible()
    panel.get_by_role("link", name="runs", exact=True).click()
    expect(page.get_by_role("heading", name="runs")).to_be_visible()
    signed_in.assert_quiet()
