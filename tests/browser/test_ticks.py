"""A live page over many ticks: the browser puts the pieces of each answer together to the whole."""

from __future__ import annotations

import random
from itertools import pairwise

from playwright.sync_api import Page, Request, Route, expect

from api.dashboard import fragments
from tests.browser.conftest import Watched
from tests.support.servers import Customer

_KEY = "k"
# The text of a part as browsers gave it before 2025.
_OLDER = """
const { get, set } = Object.getOwnPropertyDescriptor(Element.prototype, "innerHTML");
const older = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">");
Object.defineProperty(Element.prototype, "innerHTML", {
  get() { return get.call(this).replace(/="[^"]*"/g, older); }, set, configurable: true,
});
"""


def is_tick(request: Request) -> bool:
    return request.headers.get("hx-target") == "div#live"


def tick(page: Page, watched: Watched) -> Request:
    """The viewer is back, and what that asked for has come to its end."""
    with page.expect_event("requestfinished", is_tick) as asked:
        watched.look()
    return asked.value


class Server:
    """Answers ticks with a part of `text`, as ours does; or not at all, or with what cannot be."""

    def __init__(self) -> None:
        self.text, self.mode = "", "news"
        self.asked: list[tuple[str, str]] = []

    def __call__(self, route: Route) -> None:
        if not is_tick(route.request):
            return route.continue_()
        header = route.request.headers["postdate-has"]
        self.asked.append((self.mode, header))
        if self.mode == "lost":
            return route.abort()
        has = fragments.names_of(header)
        assert has is not None
        body = fragments.news(self.text, _KEY, (), has)
        body = "<!--old 0 200--><!--end-->" if self.mode == "strange" else body
        return route.fulfill(status=200, content_type="text/html", body=body)


def text_of(dice: random.Random, rows: list[int]) -> str:
    lines = "".join(f'<tr id="row-{row}"><td>{row // 3}</td></tr>' for row in rows)
    figure = f'<figure class="x"><svg><g><a>{dice.random()}</a></g></svg></figure>'
    return f"<h2>{len(rows)}</h2>{figure}<table><tbody>{lines}</tbody></table><p>end</p>"


def test_a_page_is_whole_whatever_changed_and_whatever_was_lost(signed_in: Watched) -> None:
    page, server, dice = signed_in.page, Server(), random.Random(5)
    page.route("**/dashboard**", server)
    signed_in.go("/lanes")
    rows = list(range(20))
    for number in range(30):
        server.mode = "lost" if number % 10 == 4 else "strange" if number % 10 == 7 else "news"
        if number % 6 == 0:
            dice.shuffle(rows)
        rows[dice.randrange(20)] = 100 + number
        server.text = text_of(dice, rows)
        if server.mode == "lost":
            with page.expect_event("requestfailed", is_tick):
                signed_in.look()
            continue
        tick(page, signed_in)
        if server.mode == "news":
            page.wait_for_function(
                "text => document.querySelector('#live').innerHTML === text", arg=server.text
            )
    for (before, _), (_, header) in pairwise(server.asked):
        assert (header == "-") == (before == "strange"), "who lacks a piece asks for all"


def test_the_first_tick_of_a_page_gets_what_changed_and_no_mark_stays(
    signed_in: Watched, customer: Customer
) -> None:
    page = signed_in.page
    customer.schedule("https://example.com/first", 3600)
    signed_in.go("/requests")
    assert "<!--new " in page.content()
    answer = tick(page, signed_in).response()
    assert answer is not None
    assert answer.text().startswith("<!--old 0 ")
    expect(page.locator("tr[data-row]")).to_contain_text(["/first"])
    page.wait_for_function("() => !document.querySelector('#live').innerHTML.includes('<!--')")
    customer.schedule("https://example.com/second", 1800)
    signed_in.look_until("#list", "/second")
    signed_in.assert_quiet()


def test_what_looks_like_a_mark_in_an_attribute_is_none(signed_in: Watched) -> None:
    """A target words its answers, and older browsers do not escape < and > in attributes."""
    page = signed_in.page
    page.add_init_script(_OLDER)

    def marked(route: Route) -> None:
        answer, words = route.fetch(), '<b aria-label="&lt;!--new AAAAAAAA--&gt;"></b><!--end-->'
        route.fulfill(response=answer, body=answer.text().replace("<!--end-->", words, 1))

    page.route("**/dashboard/lanes", marked, times=1)
    signed_in.go("/lanes")
    expect(page.locator("#live b[aria-label*=AAAAAAAA]")).to_have_count(1)
    assert tick(page, signed_in).headers["postdate-has"] == "-"
    page.wait_for_function("() => !document.querySelector('#live').innerHTML.includes('<!--')")
    assert len(tick(page, signed_in).headers["postdate-has"]) >= 8
    signed_in.assert_quiet()


def no_news(route: Route) -> None:
    """Ticks stay without an answer."""
    if not is_tick(route.request):
        route.continue_()


def test_a_press_inside_the_live_part_is_made_while_news_are_on_their_way(
    signed_in: Watched, customer: Customer
) -> None:
    """A form there shares no queue with the ticks."""
    page = signed_in.page
    customer.schedule("https://example.com/held", 3600, lane="pressed")
    signed_in.go("/lanes")
    page.route("**/dashboard/lanes", no_news)
    with page.expect_request(is_tick):
        signed_in.look()
    page.get_by_role("button", name="Pause pressed").click()
    expect(page.get_by_role("button", name="Resume pressed")).to_be_visible()
    page.unroute_all()
    after = tick(page, signed_in)
    assert len(after.headers["postdate-has"]) > 8, "the page of the press named its pieces"
    page.get_by_role("button", name="Resume pressed").click()
    expect(page.get_by_role("button", name="Pause pressed")).to_be_visible()
    signed_in.assert_quiet()
