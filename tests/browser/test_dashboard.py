"""The dashboard in a real browser: one account holder's afternoon, and smaller things."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import PAGES, Watched, command_json, follow, fresh_link, sign_in_link
from tests.servers import Customer, PostdateProcess, Receiver, in_days

PASSWORD = "a quiet morning in may"
_HOUR_S = 3600


def tile(page: Page, name: str) -> str:
    return page.locator(f"#tile-{name}").inner_text()


def make_key(page: Page, name: str) -> str:
    """By keyboard alone: the field, the name, Enter."""
    page.get_by_label("What is it for?").focus()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    return page.locator(".new .copyable code").first.inner_text()


def drawn(page: Page, kind: str) -> int:
    """How many rectangles of the picture stand for this."""
    return page.locator(f"[data-chart=activity] rect.{kind}").count()


def test_an_afternoon(
    watched: Watched, context: BrowserContext, postdate_up: PostdateProcess, receiver: Receiver
) -> None:
    page = watched.page
    follow(page, sign_in_link(postdate_up))
    expect(page).to_have_url(f"{postdate_up.base_url}/dashboard")
    expect(page.locator(".welcome")).to_contain_text(f"curl {postdate_up.base_url}/schedule")
    before = int(tile(page, "credits").replace(",", ""))

    # A key: made, copied, used.
    page.get_by_role("link", name="API keys").first.click()
    key = make_key(page, "afternoon")
    assert re.fullmatch(r"pd_\d\d_[\w-]{43}", key)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the key").click()
    assert page.evaluate("navigator.clipboard.readText()") == key
    with Customer(postdate_up.base_url, key) as customer:
        later = customer.schedule(f"{receiver.url}/later", _HOUR_S, targetBody={"n": 1})

        # It waits.
        page.get_by_role("link", name="Requests", exact=True).click()
        expect(page.locator("tr[data-row]")).to_contain_text(["/later"])
        page.get_by_role("link", name="Overview").click()
        watched.look_until("#tile-waiting", "1")
        assert (drawn(page, "waiting"), drawn(page, "completed")) == (1, 0)

        # Another fires, and is seen to, without a reload.
        page.evaluate("window.notReloaded = true")
        customer.schedule(f"{receiver.url}/soon", 0.1)
        receiver.wait_for(1, "/soon")
        watched.look_until("#tile-fired", "1")
        expect(page.locator("#latest-rows")).to_contain_text("/soon")
        assert drawn(page, "completed") == 1
        assert page.evaluate("window.notReloaded")
        assert int(tile(page, "credits").replace(",", "")) == before - 2

        # It opens beside the list, at an address of its own, with a curl line.
        page.get_by_role("link", name="Requests", exact=True).click()
        expect(page).to_have_url(re.compile("/requests$"))  # a click does not wait for the page
        page.evaluate("window.notReloaded = true")
        page.locator("tr", has_text="/soon").get_by_role("link").click()
        panel = page.locator("#panel")
        expect(panel.locator("code").last).to_contain_text(f"curl --request GET {receiver.url}")
        expect(page).to_have_url(re.compile(r"/requests/sch_\w+\?at=\d+"))
        expect(page).to_have_title(re.compile("^GET 127"))

        # It runs again, as a new one, which the panel follows to its end.
        panel.get_by_role("button", name="Run again").click()
        expect(panel.get_by_role("status")).to_contain_text("took one credit")
        receiver.wait_for(2, "/soon")
        watched.look_until("#panel .status.completed", "")
        page.keyboard.press("Escape")
        expect(panel.locator("article")).to_have_count(0)
        expect(page).to_have_url(re.compile("/requests$"))
        assert page.evaluate("window.notReloaded")

        # The other one is cancelled, and its credit comes back.
        page.goto(f"{postdate_up.base_url}/dashboard/requests?q={later}")
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Cancel it").click()
        expect(panel.get_by_role("status")).to_contain_text("its credit is yours again")
        page.get_by_role("link", name="Credits").first.click()
        expect(page.locator("#balance")).to_have_text(f"{before - 2:,}")

        # The key goes.
        page.get_by_role("link", name="API keys").first.click()
        page.get_by_role("link", name="Deactivate afternoon").click()
        page.get_by_role("button", name="Deactivate it").click()
        expect(page.locator("tr", has_text="afternoon")).to_contain_text("inactive")
        assert customer.get("/stats").status_code == 401

    # Its value is nowhere any more: on no page, and in nothing that the browser keeps.
    for path in PAGES:
        watched.go(path)
        assert key not in page.content()
    kept = page.evaluate(
        "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    )
    assert key not in kept
    page.go_back()
    assert key not in page.content()
    watched.assert_quiet()


def test_a_waiting_schedule_is_moved_to_another_time(
    signed_in: Watched, receiver: Receiver, customer: Customer
) -> None:
    page, day = signed_in.page, f"{in_days(70):%Y-%m-%d}"
    waiting = customer.schedule(f"{receiver.url}/moved", _HOUR_S)
    signed_in.go(f"/requests/{waiting}")
    page.get_by_label("Due (UTC)").fill(f"{day}T04:05:06.789")
    page.get_by_role("button", name="Reschedule").click()
    expect(page.get_by_role("status")).to_contain_text("no credit moved")
    expect(page.locator(".facts").first).to_contain_text(f"{day} 04:05:06.789")
    page.get_by_label("Due (UTC)").fill("1999-01-01T00:00")
    page.get_by_role("button", name="Reschedule").click()
    expect(page.get_by_role("alert")).to_contain_text("24 hours")
    page.reload()
    expect(page.locator(".facts").first).to_contain_text(f"{day} 04:05:06.789")


def test_a_request_can_be_closed_as_soon_as_it_is_drawn(
    signed_in: Watched, receiver: Receiver, customer: Customer
) -> None:
    page = signed_in.page
    waiting = customer.schedule(f"{receiver.url}/closed", _HOUR_S)
    signed_in.go("/requests")
    page.evaluate(
        """document.addEventListener("htmx:afterSwap", () => {
             const close = document.querySelector("#panel [data-close]");  // or the list has news
             if (close) setTimeout(() => { window.notReloaded = true; close.click(); });
           })"""
    )
    page.locator(f"#r-{waiting}").get_by_role("link").click()
    page.wait_for_function("() => window.notReloaded")
    expect(page.locator("#panel article")).to_have_count(0)
    expect(page).to_have_url(re.compile("/requests$"))
    assert page.evaluate("window.notReloaded")


def test_a_password_is_set_by_link_and_signs_in(
    browser: Browser, postdate_up: PostdateProcess
) -> None:
    create = ("account", "create", "grace", "--email", "grace@example.com")
    made = command_json(postdate_up, *create)
    context = browser.new_context()
    page = context.new_page()
    page.goto(made["link"])
    page.get_by_label("New password").fill(PASSWORD)
    page.get_by_label("The same again").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.locator("#tile-credits")).to_have_text("0")
    expect(page.get_by_role("link", name="System")).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/sign-in$"))
    page.get_by_label("E-mail").fill("grace@example.com")
    page.get_by_label("Password").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("do not match")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/dashboard$"))
    expect(page.locator(".welcome")).to_be_visible()
    page.get_by_role("link", name="grace").click()
    page.get_by_role("button", name="Sign out everywhere").click()
    expect(page).to_have_url(re.compile("/sign-in$"))
    context.close()


def test_without_scripts_all_can_be_read_and_written(
    browser: Browser, postdate_up: PostdateProcess
) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    follow(page, fresh_link(postdate_up))
    page.get_by_role("link", name="API keys").first.click()
    key = make_key(page, "no scripts")
    answer = httpx.get(
        f"{postdate_up.base_url}/stats/remaining-credits", headers={"x-api-key": key}
    )
    assert answer.status_code == 200
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    context.close()


def test_a_page_without_contact_says_so_and_loses_nothing(
    signed_in: Watched, receiver: Receiver, customer: Customer
) -> None:
    """Choices survive live updates; a failed action can be repeated."""
    page = signed_in.page
    waiting = customer.schedule(f"{receiver.url}/kept", _HOUR_S)
    signed_in.go("/requests")
    box = page.locator(f"#r-{waiting} input")
    box.check()
    expect(page.locator("#picked")).to_contain_text("1 selected")
    expect(page.locator("#contact")).to_contain_text("Live · ")
    first = page.locator("#now")
    first.evaluate("each => { each.same = true; }")
    customer.schedule(f"{receiver.url}/more", _HOUR_S)
    expect(page.locator("tr[data-row]", has_text="/more")).to_be_visible(timeout=10_000)
    expect(box).to_be_checked()
    expect(box).to_be_focused()
    assert first.evaluate("each => each.same"), "rows are not made anew"

    # The API is gone: the page says so, and a cancel that was not made.
    page.locator(f"#r-{waiting}").get_by_role("link").click()
    page.get_by_label("Due (UTC)").fill("2029-03-04T05:06")
    page.route("**/dashboard/**", lambda route: route.abort())
    expect(page.locator("#contact")).to_contain_text("Lost contact", timeout=10_000)
    page.locator("#panel").get_by_role("button", name="Reschedule").click()
    expect(page.get_by_role("alert")).to_contain_text("No contact with Postdate")
    expect(page.get_by_label("Due (UTC)")).to_have_value(re.compile("2029-03-04T05:06"))
    page.unroute("**/dashboard/**")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("status").first).to_contain_text("no credit moved")
    expect(page.locator("#contact")).to_contain_text("Live · ", timeout=10_000)

    # The right half of a column is its own, and a press leads to what happened in it.
    column = page.locator("[data-chart=activity] .columns > a").nth(7)
    area = column.bounding_box()
    assert area is not None
    page.mouse.move(area["x"] + 0.9 * area["width"], area["y"] + 20)
    words = column.get_attribute("data-words")
    expect(page.locator("[data-readout=activity]")).to_have_text(words or "?")
    page.mouse.click(area["x"] + 0.9 * area["width"], area["y"] + 20)
    expect(page).to_have_url(re.compile(r"/requests\?from=\d{4}-.*&to="))


def test_a_page_that_gets_no_answer_at_all_does_not_call_itself_live(signed_in: Watched) -> None:
    """An API that hangs refuses nothing, and time limits are long."""
    page = signed_in.page
    page.clock.install()
    signed_in.go()
    expect(page.locator("#contact")).to_contain_text("Live · ")
    page.route("**/dashboard**", lambda route: None)
    page.clock.run_for(9000)
    expect(page.locator("#contact")).to_have_text(re.compile(r"No answer for \d+ s, trying on"))
    expect(page.locator("#contact")).to_have_class(re.compile("lost"))


def test_a_list_that_does_not_follow_says_of_when_it_is(signed_in: Watched) -> None:
    page = signed_in.page
    signed_in.go("/requests?q=kept")
    expect(page.locator(".as-of")).to_contain_text("List as of 20")
    signed_in.go("/requests")
    expect(page.locator(".as-of")).to_have_count(0)


def test_secrets_end_at_once_after_a_question(signed_in: Watched) -> None:
    page = signed_in.page
    signed_in.go("/keys")
    before = page.locator("summary.id").all_inner_texts()
    for answer in ("Leave them as they are", "Rotate, and end them now"):
        page.get_by_label("Keep the earlier ones").select_option("0s")
        page.get_by_role("button", name="Rotate").click()
        expect(page).to_have_url(re.compile("/signing/rotate$"))
        page.reload()  # it has an address of its own
        page.get_by_text(answer).click()
        expect(page).to_have_url(re.compile("/dashboard/keys$"))
        if answer.startswith("Leave"):
            expect(page.locator("summary.id")).to_have_text(before)
    expect(page.get_by_role("status")).to_contain_text("the earlier ones are no longer good")
    expect(page.locator("summary.id")).to_have_count(1)
    expect(page.locator("summary.id")).not_to_have_text(before)
    signed_in.assert_quiet()


def test_who_leaves_a_question_is_at_the_address_of_the_page_before(
    signed_in: Watched, customer: Customer
) -> None:
    page = signed_in.page
    waiting = customer.schedule("https://example.com/stays", _HOUR_S)
    signed_in.go("/requests")
    page.locator(f"#r-{waiting} .pick").check()
    page.locator("#picked").get_by_role("button", name="Cancel").click()
    page.get_by_role("link", name="Leave them as they are").click()
    expect(page).to_have_url(re.compile("/dashboard/requests$"))
    signed_in.go("/keys")
    make_key(page, "stays")
    page.get_by_role("link", name="Deactivate stays").click()
    page.get_by_role("link", name="Leave it active").click()
    expect(page).to_have_url(re.compile("/dashboard/keys$"))
    signed_in.assert_quiet()


def test_it_is_usable_by_keyboard(signed_in: Watched) -> None:
    """The first Tab offers to skip the menu; what has the focus is seen to have it."""
    page = signed_in.page
    signed_in.go()
    page.keyboard.press("Tab")
    focused = page.locator(":focus")
    expect(focused).to_have_text("Skip to the content")
    names = []
    for _ in range(4):
        page.keyboard.press("Tab")
        names.append(focused.inner_text())
        outline = focused.evaluate("each => getComputedStyle(each).outlineStyle")
        assert outline == "solid"
    assert [name.strip() for name in names] == ["Postdate", "Overview", "Requests", "API keys"]
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/dashboard/keys$"))
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input:not([type=hidden]), select, button')]"
        ".filter(each => !(each.labels?.length || each.innerText || each.ariaLabel)).length"
    )
    assert unnamed == 0
    signed_in.assert_quiet()
