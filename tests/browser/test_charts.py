"""Charts in Chromium: what they paint, how they are read, and where a marked stretch leads."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TypedDict

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Watched, follow, fresh_link
from tests.browser.test_ticks import tick
from tests.support.servers import Customer, PostdateProcess, Receiver

_BURST, _FEW = 2300, 30
# Of a column of a chart: where it is on the page, and the colours of its pixels, from its foot up.
_COLUMN = """([name, at]) => {
  const figure = document.querySelector(`#chart-${name}`);
  const canvas = figure.querySelector('.u-under canvas, canvas');
  const over = figure.querySelector('.u-over').getBoundingClientRect();
  const place = canvas.getBoundingClientRect();
  const rows = figure.querySelectorAll('tr[data-values]');
  const x = over.left + (at + 0.5) / rows.length * over.width;
  const scale = canvas.width / place.width;
  const left = (x - place.left) * scale, top = (over.top - place.top) * scale;
  const pixels = canvas.getContext('2d').getImageData(left, top, 1, over.height * scale).data;
  const colours = [];
  for (let i = pixels.length - 4; i >= 0 && pixels[i + 3]; i -= 4) {
    colours.push([...pixels.slice(i, i + 3)].join());
  }
  return {x, y: over.top + 20, colours};
}"""


def values(page: Page) -> list[list[float]]:
    """The figures of each column."""
    rows = page.locator("#chart-activity tr[data-values]")
    given = rows.evaluate_all("rows => rows.map(row => row.dataset.values)")
    return [[float(each) if each else 0 for each in text.split(" ")] for text in given]


class Column(TypedDict):
    x: float
    y: float
    colours: list[str]


def column(page: Page, at: int) -> Column:
    found: Column = page.evaluate(_COLUMN, ["activity", at])
    return found


def height(page: Page, at: int) -> int:
    return len(column(page, at)["colours"])


@pytest.fixture
def chart(signed_in: Watched, customer: Customer, receiver: Receiver) -> Page:
    """Overview, with something past, a burst in ten minutes and a few in twenty."""
    customer.outcome(customer.schedule(receiver.url))
    customer.outcome(customer.schedule(receiver.answer("/fails", status=500)))
    items = [{"targetUrl": "https://example.com/a", "delay": "10m"}] * _BURST
    items += [{"targetUrl": "https://example.com/b", "delay": "20m"}] * _FEW
    for begin in range(0, len(items), 1000):
        customer.schedule_batch(items[begin : begin + 1000])
    signed_in.go()
    signed_in.look_until("#tile-waiting", ",")
    return signed_in.page


def test_a_chart_is_read_marked_and_kept(
    chart: Page, signed_in: Watched, browser: Browser, postdate_up: PostdateProcess
) -> None:
    """One story, for it takes a filled account: painting, reading, marking; ticks; no scripts."""
    page, told = chart, chart.locator("#readout-activity")
    rows = values(page)
    burst = next(n for n, row in enumerate(rows) if row[2] >= _BURST / 2)
    few = next(n for n, row in enumerate(rows) if n > burst + 5 and row[2] >= _FEW / 2)
    past = next(n for n, row in enumerate(rows) if row[1])

    # A burst leaves room for the rest; only what is still to come is hatched.
    assert height(page, burst) > 100
    assert height(page, few) >= 8 * rows[few][2] / _FEW
    solid, hatched = (set(column(page, each)["colours"]) for each in (past, few))
    assert len(solid) < len(hatched)

    # The crosshair of a mouse reads all three.
    at = column(page, past)
    page.mouse.move(at["x"] - 2, at["y"])
    page.mouse.move(at["x"], at["y"])
    expect(told).to_contain_text("1 completed")
    for name, words in (("lateness", r"p50 ≤ \d+"), ("response", r"p95 \d+")):
        expect(page.locator(f"#readout-{name}")).to_have_text(re.compile(words))
    page.mouse.move(1, 1)
    expect(told).to_be_empty()

    # Arrows read column by column, in words; ticks leave the canvas, the mark and the words.
    over = page.locator("#chart-activity .u-over")
    page.evaluate("window.canvas = document.querySelector('#chart-activity canvas')")
    page.get_by_role("link", name="30 d").focus()
    page.keyboard.press("Tab")
    expect(over).to_be_focused()
    now = int(over.get_attribute("aria-valuenow") or 0)
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    expect(over).to_have_attribute("aria-valuenow", str(now + 3))
    expect(told).to_have_text(re.compile(r"\d\d:\d\d to \d\d:\d\d · nothing"))
    words = told.inner_text()
    for _ in range(10):
        tick(page, signed_in)
    assert page.evaluate("window.canvas === document.querySelector('#chart-activity canvas')")
    expect(told).to_have_text(words)
    assert over.get_attribute("aria-valuetext") == words
    page.keyboard.press("Enter")
    page.wait_for_url("**/requests?from=*")
    assert minutes(page) == 2

    # A mouse marks by a drag; a width and a theme that change are painted.
    signed_in.go()
    first, last = column(page, 3), column(page, 9)
    page.mouse.move(first["x"], first["y"])
    page.mouse.down()
    page.mouse.move(last["x"], last["y"], steps=3)
    page.mouse.up()
    page.wait_for_url("**/requests?from=*")
    assert minutes(page) == 7
    signed_in.go()
    light = column(page, past)["colours"][0]
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"() => ({_COLUMN})(['activity', {past}]).colours[0] !== '{light}'")
    page.set_viewport_size({"width": 500, "height": 900})
    expect(page.locator("#chart-activity .uplot")).to_have_js_property("scrollWidth", width(page))
    assert height(page, burst) > 100
    signed_in.assert_quiet()

    without_scripts(browser, postdate_up)


def minutes(page: Page) -> float:
    """How long the period in the address is."""
    found = re.findall(r"(?:from|to)=([^&]+)", page.url.replace("%3A", ":"))
    begin, end = map(datetime.fromisoformat, found)
    return (end - begin).total_seconds() / 60


def width(page: Page) -> int:
    found: int = page.locator("#plot-activity").evaluate("plot => plot.clientWidth")
    return found


def without_scripts(browser: Browser, up: PostdateProcess) -> None:
    """A sentence stands in a chart's place, and its table leads to the same lists."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    follow(page, fresh_link(up))
    expect(page.locator("#plot-activity")).to_contain_text("The chart needs scripts")
    height = page.locator("#plot-activity").evaluate("plot => plot.clientHeight")
    assert height < 60, "a sentence needs no more"
    page.get_by_text("Requests as a table").click()
    page.locator("#table-activity a").first.click()
    expect(page.locator("tr[data-row]").first).to_be_visible()
    assert minutes(page) == 1
    context.close()


def test_a_finger_reads_first_and_marks_sideways(
    browser: Browser, postdate_up: PostdateProcess, customer: Customer
) -> None:
    customer.schedule("https://example.com/finger", 3600)  # a new account has no chart
    context = browser.new_context(viewport={"width": 380, "height": 700}, has_touch=True)
    watched = Watched(context.new_page(), postdate_up.base_url)
    page = watched.page
    follow(page, fresh_link(postdate_up))
    told, at = page.locator("#readout-activity"), column(page, 20)
    address = page.url
    page.locator("#chart-activity").scroll_into_view_if_needed()
    page.touchscreen.tap(at["x"], column(page, 20)["y"])
    expect(told).to_have_text(re.compile(r"\d\d:\d\d · "))
    assert page.url == address
    send = context.new_cdp_session(page).send

    def finger(kind: str, *points: tuple[float, float]) -> None:
        where = [{"x": x, "y": y} for x, y in points]
        send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": where})

    # Down the page: it scrolls, and nothing is marked.
    x, y = at["x"], column(page, 20)["y"]
    finger("touchStart", (x, y + 60))
    for step in range(1, 12):
        finger("touchMove", (x, y + 60 - 12 * step))
    finger("touchEnd")
    page.wait_for_function("scrollY > 40")
    assert page.url == address
    page.evaluate("scrollTo(0, 0)")
    page.locator("#chart-activity").scroll_into_view_if_needed()
    y = column(page, 20)["y"]
    finger("touchStart", (x, y))
    for step in range(1, 9):
        finger("touchMove", (x + 5 * step, y))
    expect(told).to_contain_text(" to ")
    finger("touchEnd")
    page.wait_for_url("**/requests?from=*")
    assert minutes(page) > 5
    watched.assert_quiet()
    context.close()
