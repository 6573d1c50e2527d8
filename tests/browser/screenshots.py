"""Makes the screenshots of the dashboard anew: `.venv/bin/python -m tests.browser.screenshots`.

It starts a Postdate of its own, gives the account a month of past and a few hours of future, lets a
request fail, and looks at every page with Debian's Chromium.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from heapq import merge
from typing import Any

import httpx
import msgspec
from playwright.sync_api import Page

from benchmarks.support.history import Past, fill
from cli.options import with_store
from scheduler.lane_settings import Pause
from scheduler.models import Occurrence, Outcome, Request, Status
from scheduler.recurrence.recurrence import Timing, upcoming
from scheduler.recurrence.recurring import Draft, Rule
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from tests.browser.chromium import chromium
from tests.browser.conftest import follow, fresh_link
from tests.support.commands import own_account
from tests.support.processes import ROOT
from tests.support.servers import Customer, PostdateProcess, Receiver

FOLDER = ROOT / "docs" / "screenshots"
_DAY_MS = 86_400_000
_WIDE, _NARROW = {"width": 1440, "height": 900}, {"width": 380, "height": 800}
_PAGES = ("keys", "credits", "system")
_TARGETS = ("invoices/remind", "reports/nightly", "carts/abandoned", "trials/ending")
_RULES = (
    ("nightly-report", Timing("30 2 * * *", zone="Europe/Berlin"), "reports/nightly"),
    ("reminders", Timing("0 9 * * MON-FRI", zone="America/New_York"), "invoices/remind"),
    (None, Timing("*/15 * * * *"), "carts/abandoned"),
    ("month-end", Timing("0 18 L * *", zone="Europe/Berlin"), "reports/month"),
    ("trials", Timing("0 */6 * * *"), "trials/ending"),
)
_RETRIED = {"retries": 3, "retryDelays": ["1s", "2s", "4s"]}
_FAILURES = (
    Outcome(Status.FAILED, 503, 84, "Service Unavailable"),
    Outcome(Status.FAILED, 0, 30_000, "Timeout after 30 seconds"),
    Outcome(Status.FAILED, 404, 21, "Not Found"),
)


def past(now_ms: int, dice: random.Random) -> Iterator[Past]:
    """A month: busy by day, quiet by night, and busier in the last hour, which went well. It is
    noon now, whenever the pictures are taken."""
    at_ms = float(now_ms - 30 * _DAY_MS)
    while at_ms < now_ms - 70_000:
        outcome = Outcome(Status.COMPLETED, 200, int(dice.gauss(62, 14)), "")
        if dice.random() < (0.03 if now_ms - at_ms > 3_600_000 else 0.003):
            outcome = dice.choice(_FAILURES)
        url = f"https://api.example.com/{dice.choice(_TARGETS)}"
        lateness_ms = min(4, int(dice.expovariate(1.5)))
        yield Past(int(at_ms), Request(int(at_ms) - 60, "POST", url), outcome, lateness_ms)
        busy = 0.25 + max(0.0, math.cos((now_ms - at_ms) / _DAY_MS * 2 * math.pi))
        at_ms += dice.expovariate(busy * (12 if now_ms - at_ms < 3_600_000 else 1) / 150_000)


async def make_rules(store: Store, account_id: str) -> list[Rule]:
    rules = []
    for name, timing, target in _RULES:
        request = Request(0, "POST", f"https://api.example.com/{target}")
        draft = Draft(request, timing, name)
        rules.append((await store.recurring.create(account_id, draft)).rule)
    return rules


def past_of(rules: Iterable[Rule], now_ms: int) -> Iterator[Past]:
    """What became of their last times."""
    dice, found = random.Random(11), []
    for rule in rules:
        slots = upcoming(rule.timing, now_ms - 29 * _DAY_MS, 5000)
        for slot_ms in [each for each in slots if each < now_ms - 70_000][-20:]:
            mark = Occurrence(rule.recurring_id, slot_ms)
            request = msgspec.structs.replace(rule.request, trigger_at_ms=slot_ms, recurring=mark)
            outcome = Outcome(Status.COMPLETED, 200, int(dice.gauss(62, 14)), "")
            if dice.random() < 0.06:
                outcome = dice.choice(_FAILURES)
            found.append(Past(slot_ms + 80, request, outcome, 2))
    return iter(sorted(found, key=lambda each: each.at_ms))


async def prepare(store: Store) -> None:
    """The default account's past."""
    [account], _ = await store.accounts.some()
    now_ms, rules = store.clock.now_ms(), await make_rules(store, account.account_id)
    executions = merge(
        past(now_ms, random.Random(4)), past_of(rules, now_ms), key=lambda each: each.at_ms
    )
    await fill(store, account.account_id, executions)
    pause = Pause("nightly reports", now_ms + 270_000_000, "they move their mail")
    await store.recurring.pause(account.account_id, rules[-1].recurring_id, pause)
    await store.api_keys.create(account.account_id, "nightly reports")


def fill_lanes(customer: Customer, receiver: Receiver) -> None:
    """A lane in each state."""
    limits = {
        "carts": {"rate": 600, "per": "1m", "burst": 20},
        "invoices": {"rate": 100, "per": "1h", "note": "their contract says so"},
        "partner:eu": {"rate": 5, "per": "1s", "parallelism": 3},
        "reports": {"parallelism": 2},
        "trials": {"rate": 10, "per": "1s"},
    }
    for lane, settings in limits.items():
        _set_lane(customer, "PUT", lane, **settings)
    _set_lane(customer, "PATCH", "trials", paused=True, pauseNote="until the mail server is mended")
    asks = receiver.answer("/busy", status=503, headers=(("Retry-After", "900"),))
    items = [{"targetUrl": asks, "lane": "partner:eu", "delay": "0s"}]
    held = receiver.answer("/slow", held=True)
    items += [{"targetUrl": held, "lane": "reports", "delay": "0s"}] * 40
    for lane, count, delay in (
        ("carts", 2300, "10m"),
        ("invoices", 90, "0s"),
        ("trials", 340, "0s"),
    ):
        url = f"{receiver.url}/{lane}"
        items += [{"targetUrl": url, "lane": lane, "delay": delay}] * count
    for begin in range(0, len(items), 1000):
        customer.schedule_batch(items[begin : begin + 1000])
    receiver.wait_for(2, "/slow")
    receiver.wait_for(1, "/busy")


def _set_lane(customer: Customer, method: str, lane: str, **settings: Any) -> None:
    url = f"{customer.base_url}/lanes/{lane}"
    httpx.request(method, url, headers=customer.headers, json=settings).raise_for_status()


def look(page: Page, base_url: str, name: str) -> None:
    for where in _PAGES if name == "light" else ():
        page.goto(f"{base_url}/dashboard/{where}")
        _take(page, f"{where}-{name}")
    if name != "narrow":
        page.goto(f"{base_url}/dashboard/recurring")
        _take(page, f"recurring-{name}")
    page.goto(f"{base_url}/dashboard/requests")
    if name != "dark":
        _take(page, f"requests-{name}")
    page.locator("tr.failed a.opens").first.click()
    page.locator("#panel article").wait_for()
    _take(page, f"request-{name}")


def fail(customer: Customer, receiver: Receiver) -> None:
    broken = receiver.answer("/carts/abandoned", status=503)
    gone = receiver.answer("/trials/ending", status=404)
    for url in (gone, broken):
        failed = customer.schedule(url, targetBody={"hello": "future"}, **_RETRIED)
        customer.outcome(failed)


def _take(page: Page, name: str, most_pixels: int = 820) -> None:
    """From the top, as far down as there is something, or enough of it."""
    page.evaluate("scrollTo(0, 0)")  # where a panel that is fixed stands
    page.wait_for_timeout(150)
    height = min(page.evaluate("document.documentElement.scrollHeight"), most_pixels)
    before = page.viewport_size or _WIDE
    page.set_viewport_size({**before, "height": height})  # the menu is as high as the window
    page.wait_for_timeout(150)
    clip = {"x": 0, "y": 0, "width": page.evaluate("window.innerWidth"), "height": height}
    page.screenshot(path=FOLDER / f"{name}.png", clip=clip, full_page=True)  # type: ignore[arg-type]
    page.set_viewport_size(before)


def warm_up(up: PostdateProcess, receiver: Receiver) -> None:
    """The first requests of a new worker are late, and would show: another account has them."""
    key = own_account(up, 20)["api_key"]
    with Customer(up.base_url, key) as customer:
        for _ in range(20):
            customer.outcome(customer.schedule(receiver.url))


def main() -> None:
    with PostdateProcess() as up, Receiver() as receiver:
        with_store(Settings(redis_url=up.redis_url), prepare)
        with Customer(up.base_url, up.api_key) as customer:
            url, dice = f"https://api.example.com/{_TARGETS[0]}", random.Random(7)
            delays = [f"{dice.randrange(60, 10_800)}s" for _ in range(500)]
            items = [
                {"targetUrl": url, "delay": delay, "reference": f"invoice-{number}"}
                for number, delay in enumerate(delays, 8000)
            ]
            customer.schedule_batch(items)
            warm_up(up, receiver)
        with chromium() as browser:
            pages = dict[str, Page]()
            for name in ("light", "dark", "narrow"):
                page = browser.new_page(
                    color_scheme="dark" if name == "dark" else "light",
                    viewport=_NARROW if name == "narrow" else _WIDE,
                )
                follow(page, fresh_link(up))
                page.locator("#charts canvas").nth(2).wait_for()
                _take(page, f"overview-{name}", 1400)
                pages[name] = page
            with Customer(up.base_url, up.api_key) as customer:
                fail(customer, receiver)
                for name, page in pages.items():
                    look(page, up.base_url, name)
                # Last: what is paused shows on every page.
                fill_lanes(customer, receiver)
            for name, page in pages.items():
                page.goto(f"{up.base_url}/dashboard/lanes")
                _take(page, f"lanes-{name}")
                if name != "narrow":
                    page.goto(f"{up.base_url}/dashboard")
                    page.locator("#attention li").first.wait_for()
                    _take(page, f"attention-{name}")


if __name__ == "__main__":
    main()
