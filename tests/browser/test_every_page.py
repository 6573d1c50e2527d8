"""Every page: axe finds nothing serious, in light or dark; customers' texts move nothing off the
screen; controls are large enough."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import PAGES, Watched, follow, fresh_link, sign_in
from tests.browser.test_dashboard import make_key
from tests.browser.test_recurring import make
from tests.dashboard.conftest import ACCEPTED
from tests.support.servers import Customer, PostdateProcess, Receiver, postdate_json

# Links within sentences flow with them, and of a row the whole opens what its link does.
_TOO_SMALL = """
() => [...document.querySelectorAll('a, button, input:not([type=hidden]), select, summary')]
  .filter(each => !each.closest('p, label, svg, .unseen, .skip') && !each.matches('.opens'))
  .filter(each => {
    const box = each.getBoundingClientRect();
    return box.width > 1 && box.height > 0 && (box.height < 23.9 || box.width < 23.9);
  })
  .map(each => each.textContent.trim().slice(0, 30) || each.outerHTML.slice(0, 80))
"""
# A word of the interface stands on one line, and all of it is seen. Customers' words are `bdi`s.
_BROKEN = """
() => {
  const parts = 'button, .button, h1, h2, h3, th, dt, label, summary, nav a, .status, .hint';
  const found = new Set();
  for (const part of document.querySelectorAll(parts)) {
    const words = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    for (let text = words.nextNode(); text; text = words.nextNode()) {
      const holder = text.parentElement;
      if (holder.closest('bdi, select, textarea, pre, code, .id, .unseen, .cut')) {
        continue;
      }
      for (const word of text.data.matchAll(/[^\\s-]+/g)) {
        const range = document.createRange();
        range.setStart(text, word.index);
        range.setEnd(text, word.index + word[0].length);
        const boxes = [...range.getClientRects()].filter(box => box.width > 0.5);
        const lines = new Set(boxes.map(box => Math.round(box.top)));
        let cut = false;
        for (let around = holder; around !== document.body; around = around.parentElement) {
          if (['hidden', 'clip'].includes(getComputedStyle(around).overflowX)) {
            const room = around.getBoundingClientRect();
            cut ||= boxes.some(box => box.right > room.right + 1 || box.left < room.left - 1);
            if (room.width <= 1) {  // it is there for screen readers
              cut = false;
              break;
            }
          }
        }
        if (lines.size > 1 || cut) {
          found.add(`${cut ? 'cut' : 'broken'}: ${word[0]} of ${part.outerHTML.slice(0, 120)}`);
        }
      }
    }
  }
  return [...found];
}
"""
# A screen reader lists tables and dialogs by their names.
_UNNAMED = """
() => [...document.querySelectorAll('table, dialog')]
  .filter(each => !each.matches('[aria-label], [aria-labelledby]') && !each.caption)
  .map(each => each.outerHTML.slice(0, 80))
"""
_BEYOND = "() => document.documentElement.scrollWidth > window.innerWidth"
_WIDTHS = (320, 380, 768, 1024, 1440)
# As long as the most that a phone may give to the bar: the list begins below it.
_BAR = "() => document.querySelector('body > header').getBoundingClientRect().height"
_MENU = """
() => [...document.querySelectorAll('#menu a, #menu button')]
  .filter(each => {
    const box = each.getBoundingClientRect();
    return !box.height || box.left < 0 || box.right > document.documentElement.clientWidth;
  })
  .map(each => each.textContent)
"""
# A right-to-left override in a path would turn round what stands behind it.
_NASTY = "/" + "a" * 300 + "\u202ecod.exe"
_DARK_IS_BELOW = 60  # of 255


# Texts of customers: long, without a space, from right to left.
_LONG, _ARABIC, _HEBREW = "x" * 60, "\u062a\u0630\u0643\u064a\u0631 " * 8, "\u05ea" * 60


def _fill(signed_in: Watched, up: PostdateProcess, receiver: Receiver) -> tuple[str, ...]:
    """Texts that are hard to set, wherever an account has texts. The pages of some of them."""
    page, lane = signed_in.page, "l" * 64
    where = {"redis_url": up.redis_url}
    for name in (_LONG, _ARABIC, _HEBREW):
        email = f"{len(name)}{name[:2].encode().hex()}{'m' * 50}@{'d' * 60}.example.com"
        postdate_json("account", "create", name, "--email", email, **where)
        signed_in.go("/keys")
        key = make_key(page, name)
    with Customer(up.base_url, key) as customer:
        customer.schedule(receiver.url + _NASTY, due_in_s=3600, lane=lane, reference="r" * 128)
        customer.schedule(f"{receiver.url}/{'p' * 8000}", due_in_s=3600)
        for name, note in ((lane, _LONG), ("paid", _ARABIC)):
            signed_in.go(f"/lanes/{name}")
            page.get_by_label("Note").last.fill(note)
            page.get_by_role("button", name="Save").click()
            page.get_by_label("Why").fill(_HEBREW)
            page.get_by_role("button", name="Pause", exact=True).click()
            page.get_by_text("due ones wait.").first.wait_for()  # and every page says so
        body = b"<html>" + b"y" * 3000
        failed = customer.schedule(receiver.answer("/fails", status=500, body=body))
        customer.outcome(failed)
    names = {"name": "n" * 64, "lane": lane, "reference": "r" * 128}
    rule = "/recurring/" + make(page, signed_in.base_url, targetUrl=receiver.url + _NASTY, **names)
    return f"/requests/{failed}", f"/lanes/{lane}", rule, f"{rule}/change"


def test_long_and_nasty_texts_move_nothing_and_no_word_of_ours_is_broken(
    signed_in: Watched, postdate_up: PostdateProcess, receiver: Receiver
) -> None:
    """Themes differ in colours alone, so one of them is looked at."""
    page, found = signed_in.page, []
    for path in (*PAGES, *_fill(signed_in, postdate_up, receiver)):
        signed_in.go(path)
        for width in _WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            faults = (page.evaluate(each) for each in (_BEYOND, _TOO_SMALL, _BROKEN, _UNNAMED))
            found += [f"{path} at {width}: {each}" for each in faults if each]
    assert found == []
    signed_in.assert_quiet()


def test_a_phone_has_a_low_bar_and_a_menu_that_needs_no_scripts(
    browser: Browser, postdate_up: PostdateProcess
) -> None:
    size = {"width": 380, "height": 800}
    context = browser.new_context(viewport=size, java_script_enabled=False)
    sign_in(context, postdate_up)
    page = context.new_page()
    page.goto(f"{postdate_up.base_url}/dashboard/requests")
    assert page.evaluate(_BAR) <= 56
    page.get_by_role("button", name="Menu").click()
    assert page.evaluate(_MENU) == []
    page.get_by_role("link", name="Credits", exact=True).click()
    page.wait_for_url("**/credits")
    context.close()


def test_a_browser_takes_what_the_budget_of_a_load_counts_on(signed_in: Watched) -> None:
    page = signed_in.page
    with page.expect_response("**/dashboard/requests") as answered:
        signed_in.go("/requests")
    assert answered.value.request.all_headers()["accept-encoding"] == ACCEPTED
    assert answered.value.all_headers()["content-encoding"] == "br"
    expect(page.get_by_label("Filter the list")).to_have_role("combobox")


def test_the_first_page_is_in_the_zone_of_the_browser_and_says_so(
    browser: Browser, postdate_up: PostdateProcess
) -> None:
    context = browser.new_context(timezone_id="Asia/Tokyo")
    page = context.new_page()
    follow(page, fresh_link(postdate_up))
    assert page.get_by_text("Times are in").inner_text() == "Times are in Asia/Tokyo."
    page.goto(f"{postdate_up.base_url}/dashboard/keys")
    assert page.locator("thead").first.inner_text().count("(Tokyo)") == 1
    page.get_by_role("button", name="Show UTC").click()
    page.get_by_text("Times are in UTC.").wait_for()
    assert page.get_by_role("button", name="Show local time (Asia/Tokyo)").is_visible()
    context.close()


def serious(page: Page) -> list[str]:
    """What axe finds on a page that matters, and where. Of what it looks at, only contrast is
    another matter in the dark."""
    # To preload what a page refers to serves rules about films and turned screens.
    options = {"resultTypes": ["violations"], "preload": False}
    found = Axe().run(page, options=options).response["violations"]
    page.emulate_media(color_scheme="dark")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert all(int(part) < _DARK_IS_BELOW for part in re.findall(r"\d+", background)[:3])
    in_dark = options | {"runOnly": ["color-contrast"]}
    found += page.evaluate("options => axe.run(options)", in_dark)["violations"]
    page.emulate_media(color_scheme="light")
    return [
        f"{page.url}: {each['id']}: {node['html'][:200]}"
        for each in found
        if each["impact"] != "minor"
        for node in each["nodes"]
    ]


def test_no_page_keeps_anybody_out_in_light_or_dark(
    watched: Watched, postdate_up: PostdateProcess, receiver: Receiver, customer: Customer
) -> None:
    page = watched.page
    watched.go("/sign-in")
    found = serious(page)
    sign_in(page.context, postdate_up)
    waiting = customer.schedule(f"{receiver.url}/waits", 3600, targetBody={"a": "b" * 300})
    failed = customer.schedule(receiver.answer("/fails", status=500))
    customer.outcome(failed)
    customer.outcome(customer.schedule(f"{receiver.url}/well"))
    customer.schedule(f"{receiver.url}/laned", 3600, lane="invoices")
    watched.go("/lanes/invoices")
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_text("due ones wait.").first.wait_for()
    rule = "/recurring/" + make(page, watched.base_url)
    own = (f"/requests/{waiting}", f"/requests/{failed}", rule, f"{rule}/change")
    for path in (*PAGES, "/none", *own):
        watched.go(path)
        if page.locator("#contact").count() and page.locator("[data-live]").count():
            watched.look_until("#contact", "Live")
        found += serious(page)
    assert not found, "\n".join(found)
