"""The list of requests under a pointer: the panel opens in sight, wherever the row is."""

from __future__ import annotations

from tests.browser.conftest import Watched
from tests.servers import Customer

_IN_SIGHT = """() => {
  const box = document.querySelector("#panel [data-close]").getBoundingClientRect();
  return box.top >= 0 && box.bottom <= window.innerHeight;
}"""


def test_a_row_far_down_opens_its_panel_in_sight(signed_in: Watched, customer: Customer) -> None:
    page = signed_in.page
    customer.schedule_batch(
        [{"targetUrl": f"https://example.com/{i}", "delay": f"{3600 + i}s"} for i in range(45)]
    )
    signed_in.go("/requests?status=scheduled")
    for width, height in ((1440, 900), (1700, 600), (1100, 800), (380, 800)):
        page.set_viewport_size({"width": width, "height": height})
        page.locator("tr[data-row] a.opens").last.click()
        page.locator("#panel article").wait_for()
        assert page.evaluate(_IN_SIGHT), (width, height)
        page.keyboard.press("Escape")
        page.locator("#panel article").wait_for(state="detached")
