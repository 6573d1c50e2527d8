"""Nothing that keeps anybody out: axe finds nothing serious on any page, in light or dark."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.conftest import Watched, sign_in
from tests.servers import Customer, PostdateProcess, Receiver

_PAGES = (
    *("", "/requests", "/requests/new", "/keys", "/signing/rotate", "/credits", "/account"),
    *("/system", "/none"),
)
_DARK_IS_BELOW = 60  # of 255


def serious(page: Page) -> list[str]:
    """What axe finds on a page that matters, and where. Of what it looks at, only contrast is
    another matter in the dark."""
    found = Axe().run(page).response["violations"]
    page.emulate_media(color_scheme="dark")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert all(int(part) < _DARK_IS_BELOW for part in re.findall(r"\d+", background)[:3])
    dark = "axe.run({resultTypes: ['violations'], runOnly: ['color-contrast']})"
    found += page.evaluate(dark)["violations"]
    page.emulate_media(color_scheme="light")
    return [
        f"{page.url}: {each['id']}: {node['html'][:200]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


def test_no_page_keeps_anybody_out_in_light_or_dark(
    watched: Watched, postdate_up: PostdateProcess, receiver: Receiver
) -> None:
    page = watched.page
    watched.go("/sign-in")
    found = serious(page)
    sign_in(page.context, postdate_up)
    with Customer(postdate_up.base_url, postdate_up.api_key) as customer:
        waiting = customer.schedule(f"{receiver.url}/waits", 3600, targetBody={"a": "b" * 300})
        failed = customer.schedule(receiver.answer("/fails", status=500))
        customer.outcome(failed)
        customer.outcome(customer.schedule(f"{receiver.url}/well"))
    for path in (*_PAGES, f"/requests/{waiting}", f"/requests/{failed}"):
        watched.go(path)
        if page.locator("#contact").count() and page.locator("[data-live]").count():
            page.locator("#contact", has_text="Live").wait_for()
        found += serious(page)
    page.locator("#r-" + waiting + " .pick").check()
    page.locator("#picked").get_by_role("button", name="Cancel").click()
    page.get_by_role("heading", name="Cancel 1 request?").wait_for()
    assert found + serious(page) == []
