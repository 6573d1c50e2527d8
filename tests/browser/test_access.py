"""Nothing that keeps anybody out: axe finds nothing serious on any page, in light or dark."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.browser.conftest import Watched, follow
from tests.browser.test_dashboard import fresh_link
from tests.servers import Customer, PostdateProcess, Receiver

_PAGES = ("", "/requests", "/requests/new", "/keys", "/credits", "/account", "/system", "/none")
# Of what axe looks at only contrast is another matter in the dark.
_RUNS: dict[str, dict[str, Any]] = {
    "light": {"resultTypes": ["violations"]},
    "dark": {"resultTypes": ["violations"], "runOnly": ["color-contrast"]},
}


def serious(page: Page, look: str) -> list[str]:
    """What axe finds on a page that matters, and where."""
    found = Axe().run(page, options=_RUNS[look]).response["violations"]
    return [
        f"{page.url}: {each['id']}: {node['html'][:200]}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("look", list(_RUNS))
def test_no_page_keeps_anybody_out(
    watched: Watched, postdate_up: PostdateProcess, receiver: Receiver, look: str
) -> None:
    page = watched.page
    page.emulate_media(color_scheme="dark" if look == "dark" else "light")
    watched.go("/sign-in")
    found = serious(page, look)
    follow(page, fresh_link(postdate_up))
    with Customer(postdate_up.base_url, postdate_up.api_key) as customer:
        waiting = customer.schedule(f"{receiver.url}/waits", 3600, targetBody={"a": "b" * 300})
        failed = customer.schedule(receiver.answer("/fails", status=500))
        customer.outcome(failed)
        customer.outcome(customer.schedule(f"{receiver.url}/well"))
    for path in (*_PAGES, f"/requests/{waiting}", f"/requests/{failed}"):
        watched.go(path)
        if page.locator("#contact").count() and page.locator("[data-live]").count():
            page.locator("#contact", has_text="Live").wait_for()
        found += serious(page, look)
    page.locator("#r-" + waiting + " .pick").check()
    page.locator("#picked").get_by_role("button", name="Cancel").click()
    page.get_by_role("heading", name="Cancel 1 request?").wait_for()
    assert found + serious(page, look) == []
