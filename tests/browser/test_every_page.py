"""Every page: axe finds nothing serious, in light or dark; customers' texts move nothing off the
screen; controls are large enough."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.conftest import PAGES, Watched, sign_in
from tests.browser.test_dashboard import make_key
from tests.browser.test_recurring import make
from tests.support.servers import Customer, PostdateProcess, Receiver

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
# Every page of the menu is seen without sweeping, and none is cut.
_CUT = """
() => [...document.querySelectorAll('nav[aria-label=Pages] a')]
  .filter(each => {
    const box = each.getBoundingClientRect();
    return box.left < 0 || box.right > document.documentElement.clientWidth;
  })
  .map(each => each.textContent)
"""
# A screen reader lists tables and dialogs by their names.
_UNNAMED = """
() => [...document.querySelectorAll('table, dialog')]
  .filter(each => !each.matches('[aria-label], [aria-labelledby]') && !each.caption)
  .map(each => each.outerHTML.slice(0, 80))
"""
_BEYOND = "() => document.documentElement.scrollWidth > window.innerWidth"
# A right-to-left override in a path would turn round what stands behind it.
_NASTY = "/" + "a" * 300 + "\u202ecod.exe"
_DARK_IS_BELOW = 60  # of 255


def test_long_and_nasty_names_move_nothing_and_targets_are_large_enough(
    signed_in: Watched, postdate_up: PostdateProcess, receiver: Receiver
) -> None:
    page, name = signed_in.page, "x" * 100
    signed_in.go("/keys")
    key = make_key(page, name)
    with Customer(postdate_up.base_url, key) as customer:
        lane = "l" * 64
        customer.schedule(receiver.url + _NASTY, due_in_s=3600, lane=lane, reference="r" * 128)
        signed_in.go(f"/lanes/{lane}")
        page.get_by_label("Note").last.fill("n" * 200)
        page.get_by_role("button", name="Pause", exact=True).click()
        page.get_by_text("due ones wait.").first.wait_for()  # and every page says so
        body = b"<html>" + b"y" * 3000
        failed = customer.schedule(receiver.answer("/fails", status=500, body=body))
        customer.outcome(failed)
    names = {"name": "n" * 64, "lane": lane, "reference": "r" * 128}
    rule = "/recurring/" + make(page, signed_in.base_url, targetUrl=receiver.url + _NASTY, **names)
    for path in (*PAGES, f"/requests/{failed}", f"/lanes/{lane}", rule, f"{rule}/change"):
        signed_in.go(path)
        for width in (320, 380, 1440):
            page.set_viewport_size({"width": width, "height": 900})
            for faults in (_BEYOND, _TOO_SMALL, _CUT, _UNNAMED):
                assert not page.evaluate(faults), (path, width)
    signed_in.assert_quiet()


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
        if each["impact"] in ("serious", "critical")
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
    assert found == []
