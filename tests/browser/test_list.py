"""The list of requests under a pointer: rows stand still, ticks stay, and the panel opens in sight,
wherever the row is."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import Watched
from tests.support.servers import Customer

_IN_SIGHT = """() => {
  const box = document.querySelector("#panel [data-close]").getBoundingClientRect();
  return box.top >= 0 && box.bottom <= window.innerHeight;
}"""


def test_a_row_far_down_opens_its_panel_in_sight(signed_in: Watched, customer: Customer) -> None:
    page = signed_in.page
    _fill(customer, 45)
    signed_in.go("/requests?status=scheduled")
    for width, height in ((1440, 900), (1700, 600), (1100, 800), (380, 800)):
        page.set_viewport_size({"width": width, "height": height})
        page.locator("tr[data-row] a.opens").last.click()
        page.locator("#panel article").wait_for()
        assert page.evaluate(_IN_SIGHT), (width, height)
        page.keyboard.press("Escape")
        page.locator("#panel article").wait_for(state="detached")


def test_a_press_is_made_while_news_are_on_the_way(signed_in: Watched, customer: Customer) -> None:
    page = signed_in.page
    waiting = _soonest(customer, "pressed", 800)
    signed_in.go("/requests")
    page.route("**/dashboard/requests*", _no_news)
    with page.expect_request(lambda request: request.headers.get("hx-target") == "div#live"):
        signed_in.look()
    _row(page, waiting).locator("a.opens").click()
    expect(page.locator("#panel-title")).to_be_visible()


def test_a_press_with_ctrl_opens_a_tab_and_no_panel(signed_in: Watched, customer: Customer) -> None:
    page = signed_in.page
    waiting = _soonest(customer, "in-a-tab", 900)
    signed_in.go("/requests")
    with page.context.expect_page() as opened:
        _row(page, waiting).locator("a.opens").click(modifiers=["Control"])
    expect(opened.value.locator("#panel-title")).to_contain_text("in-a-tab")
    expect(page.locator("#panel article")).to_have_count(0)


def _no_news(route: Route) -> None:
    if route.request.headers.get("hx-target") != "div#live":
        route.continue_()


def _row(page: Page, schedule_id: str) -> Locator:
    return page.locator(f"#r-{schedule_id}")


def _point_away(page: Page) -> None:
    page.mouse.move(1, 1)


def _fill(customer: Customer, count: int) -> None:
    """So many that wait, for a list that can be scrolled."""
    customer.schedule_batch(
        [{"targetUrl": f"https://example.com/{i}", "delay": f"{3600 + i}s"} for i in range(count)]
    )


def _soonest(customer: Customer, path: str, due_in_s: int) -> str:
    """Waits nearer to now than those before it, so that it comes in among them."""
    return customer.schedule(f"https://example.com/{path}", due_in_s)


def test_rows_stand_still_under_the_pointer(signed_in: Watched, customer: Customer) -> None:
    """And go on changing in their places; the figures above them as well."""
    page = signed_in.page
    _fill(customer, 20)
    waiting = len(customer.log(status="scheduled"))
    aimed = _soonest(customer, "aimed", 900)
    signed_in.go("/requests?status=scheduled")
    row, pill = _row(page, aimed), page.locator("#fresh")
    row.hover()
    above = _soonest(customer, "above", 600)
    before = row.bounding_box()
    assert customer.change(aimed, targetUrl="https://example.com/changed").status_code == 200
    signed_in.look_until("#fresh", "↑ 1 new")
    expect(row).to_contain_text("/changed")
    assert row.bounding_box() == before
    expect(page.locator(".counts")).to_contain_text(f"scheduled {waiting + 2}")
    expect(_row(page, above)).to_have_count(0)
    _point_away(page)
    signed_in.look_until("#list", "/above")
    expect(pill).to_be_hidden()
    # Scrolled away from its top it waits for its button.
    page.set_viewport_size({"width": 1200, "height": 300})
    page.evaluate("document.querySelector('#list').scrollIntoView(); scrollBy(0, 60)")
    _point_away(page)
    _soonest(customer, "third", 500)
    signed_in.look_until("#fresh", "↑ 1 new")
    pill.click()
    signed_in.look_until("#list", "/third")
    expect(pill).to_be_hidden()
    signed_in.assert_quiet()


def test_ticks_outlast_news_and_their_rows(signed_in: Watched, customer: Customer) -> None:
    page = signed_in.page
    ids = [_soonest(customer, f"ticked-{i}", 400 + i) for i in range(3)]
    signed_in.go("/requests?status=scheduled")
    for each in ids:
        _row(page, each).locator("input").check()
    _point_away(page)
    assert customer.cancel(ids[0]).status_code == 200
    _soonest(customer, "beside", 300)
    signed_in.look_until("#fresh", "↑ 1 new")
    picked, pill = page.locator("#picked"), page.locator("#fresh")
    expect(picked).to_contain_text("3 selected")
    pill.click()
    signed_in.look_until("#list", "/beside")
    expect(_row(page, ids[0])).to_have_count(0)
    expect(picked).to_contain_text("3 selected, 1 no longer shown")
    expect(_row(page, ids[1]).locator("input")).to_be_checked()
    page.get_by_role("button", name="Reschedule").click()
    expect(page.get_by_role("heading", name="Reschedule 3 requests?")).to_be_visible()
    page.go_back()
    signed_in.go("/requests?status=scheduled")
    _row(page, ids[1]).locator("input").check()
    page.get_by_role("button", name="Deselect").click()
    expect(picked).to_be_hidden()
