"""An operator looks at an account; the view survives links, news, a brush and a jump."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Watched
from tests.browser.test_every_page import serious
from tests.support.servers import Customer, PostdateProcess, Receiver, postdate_json


def test_an_operator_looks_at_an_account_and_leaves_it(
    signed_in: Watched, postdate_up: PostdateProcess, receiver: Receiver
) -> None:
    where = {"data_dir": postdate_up.data_dir}
    made = postdate_json("account", "create", "acme", "--credits", "9", "--plan", "free", **where)
    account_id = made["accountId"]
    key = postdate_json("key", "create", "acme", "--name", "theirs", **where)["key"]
    page, view = signed_in.page, f"/dashboard/as/{account_id}"
    with Customer(postdate_up.base_url, key) as customer:
        done = customer.schedule(receiver.url + "/looked-at")
        customer.outcome(done)
        waits = customer.schedule(receiver.url + "/waits", due_in_s=3600, lane="slow")
    banner = page.get_by_role("region", name="Whose pages these are")

    def looks(path: str) -> None:
        page.wait_for_url(re.compile(re.escape(view + path) + r"(\?.*)?$"))
        expect(banner).to_contain_text("You look at acme as an operator")

    signed_in.go("/system")
    page.get_by_role("link", name="acme", exact=True).click()
    looks("")
    assert serious(page) == []
    signed_in.look_until("#live", "looked-at")
    for name, path in (("Recurring", "/recurring"), ("Lanes", "/lanes"), ("Credits", "/credits")):
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        looks(path)
    page.get_by_role("link", name="Requests", exact=True).click()
    looks("/requests")
    expect(page.locator("tr[data-row]")).to_have_count(2)
    assert page.locator("input.pick:visible").count() == 0
    page.locator("tr[data-row]", has_text="waits").get_by_role("link").first.click()
    looks(f"/requests/{waits}")
    panel = page.locator("#panel")
    expect(panel).to_contain_text("Operators see neither bodies nor the values of headers")
    assert panel.get_by_role("button").count() == 0
    assert serious(page) == []
    signed_in.look_until("#live", "looked-at")
    page.get_by_label("Close this request").click()
    looks("/requests")
    plot = page.locator("#chart-activity .u-over").bounding_box()
    assert plot
    page.mouse.move(plot["x"] + 20, plot["y"] + 5)
    page.mouse.down()
    page.mouse.move(plot["x"] + plot["width"] - 5, plot["y"] + 5, steps=3)
    page.mouse.up()
    page.wait_for_url(re.compile(re.escape(view) + r"/requests\?.*from=.*to="))
    page.keyboard.press("Control+k")
    page.keyboard.type("slow")
    expect(page.locator("#found a").first).to_contain_text("slow")
    page.keyboard.press("Enter")
    looks("/lanes/slow")
    for width in (320, 380, 1440):
        page.set_viewport_size({"width": width, "height": 900})
        assert not page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
    banner.get_by_role("link", name="Leave").click()
    page.wait_for_url("**/dashboard/system?q=*")
    # A link that the holder sent opens in the view; another tab is what it was.
    other = page.context.new_page()
    other.goto(f"{postdate_up.base_url}/dashboard/requests/{done}")
    other.wait_for_url(f"**{view}/requests/{done}")
    signed_in.go("/requests")
    expect(page.locator(".looks")).to_have_count(0)
    signed_in.assert_quiet()
