"""The dashboard in a real browser: one account holder's afternoon, and smaller things."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import Watched, follow, sign_in_link
from tests.servers import Customer, PostdateProcess, Receiver, in_days, postdate_json

PAGES = ("", "/schedules", "/logs", "/keys", "/credits", "/account", "/system")
PASSWORD = "a quiet morning in may"
_HOUR_S = 3600


def tile(page: Page, name: str) -> str:
    return page.locator(f"#tile-{name}").inner_text()


def fresh_link(up: PostdateProcess, account: str = "default", *flags: str) -> str:
    """A link that signs in, made while `up` runs."""
    made = postdate_json("account", "link", account, *flags, data_dir=up.data_dir, port=_port(up))
    return str(made["link"])


def _port(up: PostdateProcess) -> int:
    return int(up.base_url.rpartition(":")[2])


def make_key(page: Page, name: str) -> str:
    """By keyboard alone: the field, the name, Enter."""
    page.get_by_label("What is it for?").focus()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    return page.locator(".new .copyable code").first.inner_text()


def painted(page: Page, chart: str, name: str) -> bool:
    """Whether a chart's canvas has a dot of this colour of the style sheet."""
    script = """([chart, name]) => {
        const canvas = document.querySelector(`[data-chart=${chart}] canvas`);
        const probe = document.createElement("i");
        probe.style.color = getComputedStyle(document.documentElement).getPropertyValue(name);
        document.body.append(probe);
        const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
        probe.remove();
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        for (let i = 0; i < data.length; i += 4) {
            if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255) {
                return true;
            }
        }
        return false;
    }"""
    return bool(page.evaluate(script, [chart, name]))


def test_an_afternoon(
    watched: Watched, context: BrowserContext, postdate_up: PostdateProcess, receiver: Receiver
) -> None:
    page = watched.page
    follow(page, sign_in_link(postdate_up))
    expect(page).to_have_url(f"{postdate_up.base_url}/dashboard")
    expect(page.locator(".empty")).to_contain_text(f"curl {postdate_up.base_url}/schedule")
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
        page.get_by_role("link", name="Schedules").click()
        expect(page.locator("tbody tr")).to_contain_text(["/later"])
        page.get_by_role("link", name="Overview").click()
        expect(page.locator("#tile-waiting")).to_have_text("1")
        expect(page.locator("[data-chart=coming] canvas")).to_be_visible()
        assert painted(page, "coming", "--wait")
        assert not painted(page, "fired", "--bar")

        # Another fires, and is seen to, without a reload.
        page.evaluate("window.notReloaded = true")
        customer.schedule(f"{receiver.url}/soon", 0.1)
        receiver.wait_for(1, "/soon")
        expect(page.locator("#tile-fired")).to_have_text("1", timeout=10_000)
        expect(page.locator("#latest-rows")).to_contain_text("/soon")
        expect(page.locator("[data-chart=fired]")).to_have_attribute(
            "aria-label", "Executions: 1 fired, 0 of them failed", timeout=10_000
        )
        assert painted(page, "fired", "--bar")
        assert page.evaluate("window.notReloaded")
        assert int(tile(page, "credits").replace(",", "")) == before - 2

        # It is in the log, with a curl line while its schedule is kept.
        page.get_by_role("link", name="Logs").click()
        page.locator("tr", has_text="/soon").locator("xpath=..").get_by_text("Details").click()
        expect(page.locator("details[open] code")).to_contain_text(
            f"curl --request GET {receiver.url}"
        )

        # The other one is cancelled, and its credit comes back.
        page.goto(f"{postdate_up.base_url}/dashboard/schedules?q={later}")
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Cancel it").click()
        expect(page.get_by_role("status")).to_contain_text("its credit is yours again")
        page.get_by_role("link", name="Credits").click()
        expect(page.locator("#balance")).to_have_text(f"{before - 1:,}")

        # The one that was executed runs again, as a new one.
        page.goto(f"{postdate_up.base_url}/dashboard/logs?status=completed")
        page.get_by_text("Details").first.click()
        page.get_by_role("link", name="The schedule, with its request").click()
        page.get_by_role("button", name="Run again").click()
        expect(page.get_by_role("status")).to_contain_text("took one credit")
        receiver.wait_for(2, "/soon")

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
    watched: Watched, postdate_up: PostdateProcess, receiver: Receiver
) -> None:
    page, day = watched.page, f"{in_days(70):%Y-%m-%d}"
    follow(page, fresh_link(postdate_up))
    with Customer(postdate_up.base_url, postdate_up.api_key) as customer:
        waiting = customer.schedule(f"{receiver.url}/moved", _HOUR_S)
    watched.go(f"/schedules/{waiting}")
    page.get_by_label("Trigger at (UTC)").fill(f"{day}T04:05:06.789")
    page.get_by_role("button", name="Change the time").click()
    expect(page.get_by_role("status")).to_contain_text("no credit moved")
    expect(page.locator(".facts").first).to_contain_text(f"{day} 04:05:06.789")
    page.get_by_label("Trigger at (UTC)").fill("1999-01-01T00:00")
    page.get_by_role("button", name="Change the time").click()
    expect(page.get_by_role("alert")).to_contain_text("24 hours")
    page.reload()
    expect(page.locator(".facts").first).to_contain_text(f"{day} 04:05:06.789")


def test_a_password_is_set_by_link_and_signs_in(
    browser: Browser, postdate_up: PostdateProcess
) -> None:
    made = postdate_json(
        *("account", "create", "grace", "--email", "grace@example.com"),
        data_dir=postdate_up.data_dir,
        port=_port(postdate_up),
    )
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
    expect(page.locator("[data-chart=coming] canvas")).to_be_visible()
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


def test_it_is_usable_on_a_narrow_screen_and_in_the_dark(
    browser: Browser, postdate_up: PostdateProcess
) -> None:
    """Nothing sticks out at 380 pixels; the dark is dark."""
    context = browser.new_context(viewport={"width": 380, "height": 800}, color_scheme="dark")
    watched = Watched(context.new_page(), postdate_up.base_url)
    page = watched.page
    follow(page, fresh_link(postdate_up))
    for path in PAGES:
        watched.go(path)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= 380, path
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert all(int(part) < 60 for part in re.findall(r"\d+", background)[:3])
    watched.assert_quiet()
    context.close()


def test_it_is_usable_by_keyboard(watched: Watched, postdate_up: PostdateProcess) -> None:
    """The first Tab offers to skip the menu; what has the focus is seen to have it."""
    page = watched.page
    follow(page, fresh_link(postdate_up))
    page.keyboard.press("Tab")
    focused = page.locator(":focus")
    expect(focused).to_have_text("Skip to the content")
    names = []
    for _ in range(4):
        page.keyboard.press("Tab")
        names.append(focused.inner_text())
        outline = focused.evaluate("each => getComputedStyle(each).outlineStyle")
        assert outline == "solid"
    assert [name.strip() for name in names] == ["Postdate", "Overview", "Schedules", "Logs"]
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/dashboard/logs$"))
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input:not([type=hidden]), select, button')]"
        ".filter(each => !(each.labels?.length || each.innerText || each.ariaLabel)).length"
    )
    assert unnamed == 0
    watched.assert_quiet()
