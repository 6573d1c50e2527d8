"""The dashboard in a real browser: one account holder's afternoon, and smaller things."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.browser.conftest import Watched, follow, fresh_link, sign_in_link
from tests.support.servers import Customer, PostdateProcess, Receiver

_HOUR_S = 3600
_OPACITIES = """text => {
  document.body.innerHTML = text;
  return [...document.querySelectorAll("button")].map(each => getComputedStyle(each).opacity);
}"""
_AWAY = "The store does not answer right now."


def tile(page: Page, name: str) -> str:
    return page.locator(f"#tile-{name}").inner_text()


def make_key(page: Page, name: str) -> str:
    """By keyboard alone: the field, the name, Enter."""
    page.get_by_label("What is it for?").focus()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    return page.locator(".new .copyable code").first.inner_text()


def drawn(page: Page, kind: str) -> int:
    """How many columns of the picture have some of this."""
    chart = page.locator("[data-chart=activity]")
    place = chart.locator("th").evaluate_all(
        "(all, kind) => all.findIndex(each => each.dataset.kind === kind) - 1", kind
    )
    rows = chart.locator("tr[data-values]").evaluate_all(
        "all => all.map(row => row.dataset.values)"
    )
    return sum(row.split(" ")[place] != "0" for row in rows)


@pytest.fixture
def first_start() -> Iterator[PostdateProcess]:
    """A Postdate of its own, without a sign-in or a schedule yet."""
    with PostdateProcess() as up:
        yield up


def test_a_form_that_was_sent_dims_its_buttons_and_a_part_that_asks_for_news_does_not(
    signed_in: Watched,
) -> None:
    signed_in.go()
    sent = [f"<{tag} class=htmx-request><button>1</button></{tag}>" for tag in ("div", "form")]
    assert signed_in.page.evaluate(_OPACITIES, "".join(sent)) == ["1", "0.6"]


def test_an_afternoon(
    first_start: PostdateProcess, context: BrowserContext, receiver: Receiver
) -> None:
    watched = Watched(context.new_page(), first_start.base_url)
    page = watched.page
    follow(page, sign_in_link(first_start))
    expect(page).to_have_url(f"{first_start.base_url}/dashboard")
    expect(page.locator(".welcome")).to_contain_text(f"curl {first_start.base_url}/schedule")
    before = int(tile(page, "credits").replace(",", ""))

    # A key: made, copied, used.
    page.get_by_role("link", name="API keys").first.click()
    key = make_key(page, "afternoon")
    assert re.fullmatch(r"pd_\d\d_[\w-]{43}", key)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the key").click()
    assert page.evaluate("navigator.clipboard.readText()") == key
    with Customer(first_start.base_url, key) as customer:
        later = customer.schedule(f"{receiver.url}/later", _HOUR_S, targetBody={"n": 1})

        # It waits.
        page.get_by_role("link", name="Requests", exact=True).click()
        expect(page.locator("tr[data-row]")).to_contain_text(["/later"])
        page.get_by_role("link", name="Overview").click()
        watched.look_until("#tile-waiting", "1")
        assert (drawn(page, "waiting"), drawn(page, "completed")) == (1, 0)

        # Another fires, and is seen to.
        customer.schedule(f"{receiver.url}/soon", 0.1)
        receiver.wait_for(1, "/soon")
        watched.look_until("#tile-fired", "1")
        expect(page.locator("#latest-rows")).to_contain_text("/soon")
        assert drawn(page, "completed") == 1
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
        page.goto(f"{first_start.base_url}/dashboard/requests?q={later}")
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
    assert key not in page.content()
    watched.assert_quiet()


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


def test_a_double_press_makes_one_request(signed_in: Watched) -> None:
    """The second one waits for the first, whose answer replaces its form."""
    page, made = signed_in.page, list[str]()
    page.on("request", lambda request: request.method == "POST" and made.append(request.url))
    signed_in.go("/keys")
    page.get_by_label("What is it for?").fill("twice")
    page.get_by_role("button", name="Create key").dblclick()
    expect(page.locator(".new .copyable code").first).to_be_visible()
    signed_in.go("/keys")
    assert len(made) == 1


def no_contact(route: Route) -> None:
    route.abort()


def store_away(route: Route) -> None:
    route.fulfill(status=503, content_type="text/html", body=f"<p data-sentence>{_AWAY}</p>")


@pytest.mark.parametrize(
    ("fail", "words"), [(no_contact, "No contact with Postdate"), (store_away, _AWAY)]
)
def test_a_cancellation_that_failed_is_told_until_it_is_made(
    signed_in: Watched, fail: Callable[[Route], None], words: str, customer: Customer
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


def test_a_page_that_gets_no_answer_at_all_does_not_call_itself_live(signed_in: Watched) -> None:
    """An API that hangs refuses nothing, and time limits are long."""
    page = signed_in.page
    page.clock.install()
    signed_in.go()
    expect(page.locator("#contact")).to_contain_text("Live · ")
    said = "<p class=well id=said><b>All is well</b></p>"
    page.locator("#live").evaluate(
        "(live, said) => live.insertAdjacentHTML('beforeend', said)", said
    )
    page.route("**/dashboard**", lambda route: None)
    page.clock.run_for(9000)
    expect(page.locator("#contact")).to_have_text(re.compile(r"No answer for \d+ s, trying on"))
    expect(page.locator("#contact")).to_have_class(re.compile("lost"))
    expect(page.locator("#said")).to_have_text("All was well")


def test_it_is_usable_by_keyboard(signed_in: Watched) -> None:
    """The first Tab offers to skip the menu; what has the focus is seen to have it."""
    page = signed_in.page
    signed_in.go()
    page.keyboard.press("Tab")
    focused = page.locator(":focus")
    expect(focused).to_have_text("Skip to the content")
    for name in ("Postdate", "Overview", "Requests", "Recurring", "Lanes", "API keys"):
        page.keyboard.press("Tab")
        expect(focused).to_have_text(name)
        expect(focused).to_have_css("outline-style", "solid")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/dashboard/keys$"))
    signed_in.assert_quiet()
