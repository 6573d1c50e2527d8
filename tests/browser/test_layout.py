"""What customers write moves nothing off the screen, and what is to be hit can be hit."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Watched, follow
from tests.browser.test_dashboard import fresh_link, make_key
from tests.servers import Customer, PostdateProcess, Receiver

_PAGES = ("", "/requests", "/requests/new", "/keys", "/credits", "/account", "/system")
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
# What is wider scrolls by itself.
_OUTSIDE_THE_PANEL = """
() => {
  const panel = document.querySelector('#panel article').getBoundingClientRect();
  return [...document.querySelectorAll('#panel dd, #panel pre, #panel td, #panel rect')]
    .filter(each => {
      const box = each.getBoundingClientRect();
      return box.left < panel.left - 1 || box.right > panel.right + 1;
    })
    .map(each => each.outerHTML.slice(0, 80));
}
"""
_BEYOND = "() => document.documentElement.scrollWidth > window.innerWidth"
# A right-to-left override in a path would turn round what stands behind it.
_NASTY = "/" + "a" * 300 + "\u202ecod.exe"


@pytest.mark.parametrize("width", [320, 380, 1440])
def test_long_and_nasty_names_move_nothing_and_targets_are_large_enough(
    watched: Watched, postdate_up: PostdateProcess, receiver: Receiver, width: int
) -> None:
    page = watched.page
    page.set_viewport_size({"width": width, "height": 900})
    follow(page, fresh_link(postdate_up))
    watched.go("/keys")
    name = f"{width}".rjust(100, "x")
    key = make_key(page, name)
    assert not page.evaluate(_BEYOND), "the page of a new key"
    page.get_by_role("link", name=f"Deactivate {name}").click()
    page.get_by_role("button", name="Deactivate it").wait_for()
    assert not page.evaluate(_BEYOND), "the question about it"
    with Customer(postdate_up.base_url, key) as customer:
        customer.schedule(receiver.url + _NASTY, due_in_s=3600)
        body = b"<html>" + b"y" * 3000
        failed = customer.schedule(receiver.answer("/fails", status=500, body=body))
        customer.outcome(failed)
    for path in (*_PAGES, f"/requests/{failed}"):
        watched.go(path)
        assert not page.evaluate(_BEYOND), path
        assert page.evaluate(_TOO_SMALL) == [], path
        assert page.evaluate(_CUT) == [], path
    assert page.evaluate(_OUTSIDE_THE_PANEL) == []
    bars = page.locator("#panel .waterfall tr")
    assert [each.split("\t")[0] for each in bars.all_inner_texts()][-2:] == [
        "First byte",
        "Last byte",
    ]
    assert all((each.bounding_box() or {})["width"] > 0 for each in bars.locator("rect").all())
    watched.go("/requests")
    boxes = [page.locator(each).bounding_box() or {} for each in ("#pick-all", ".pick >> nth=0")]
    assert all(box["height"] >= 15 and box["width"] >= 15 for box in boxes), "they can be seen"
    row = page.locator("tr[data-row] .url").first
    assert (
        page.evaluate("each => getComputedStyle(each).whiteSpace", row.element_handle()) == "nowrap"
    )
    isolated = "each => [...each.querySelectorAll('bdi')].length > 0"
    assert page.evaluate(isolated, row.element_handle())
