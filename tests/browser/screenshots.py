"""Makes the screenshots of the dashboard anew: `.venv/bin/python -m tests.browser.screenshots`.

It starts a Postdate of its own with a target to fire at, gives the account a month of past and a
few hours of future, lets some requests fire, and looks at every page with Debian's Chromium.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Iterator

from playwright.sync_api import Browser, Page

from benchmarks.history import Past, fill
from cli.options import with_store
from scheduler.models import Outcome, Request, Status
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.store.accounts.sessions import Purpose
from tests.browser.chromium import chromium
from tests.browser.conftest import follow
from tests.processes import ROOT
from tests.servers import Answer, Customer, PostdateProcess, Receiver, until

FOLDER = ROOT / "docs" / "screenshots"
_DAY_MS = 86_400_000
_PAGES = ("keys", "credits", "system")
_WIDE = {"width": 1440, "height": 900}
_LOOKS: dict[str, dict[str, object]] = {
    "light": {"color_scheme": "light", "viewport": _WIDE},
    "dark": {"color_scheme": "dark", "viewport": _WIDE},
    "narrow": {"color_scheme": "light", "viewport": {"width": 380, "height": 800}},
}
_TARGETS = (
    "invoices/remind",
    "reports/nightly",
    "carts/abandoned",
    "trials/ending",
    "posts/publish",
)
_FAILURES = (
    Outcome(Status.FAILED, 503, 84, "Service Unavailable"),
    Outcome(Status.FAILED, 0, 30_000, "Timeout after 30 seconds"),
    Outcome(Status.FAILED, 404, 21, "Not Found"),
)


def past(now_ms: int, dice: random.Random) -> Iterator[Past]:
    """A month: busy by day, quiet by night, a bad quarter of an hour just now."""
    at_ms = float(now_ms - 30 * _DAY_MS)
    while at_ms < now_ms - 70_000:
        hour = at_ms / 3_600_000 % 24
        busy = 0.25 + max(0.0, math.sin((hour - 6) / 24 * 2 * math.pi))
        nearness = 12 if now_ms - at_ms < 3 * _DAY_MS / 72 else 1
        at_ms += dice.expovariate(busy * nearness / 150_000)
        bad = 0.22 if 31 < (now_ms - at_ms) / 60_000 < 43 else 0.015
        outcome = Outcome(Status.COMPLETED, 200, int(dice.gauss(62, 14)), "")
        if dice.random() < bad:
            outcome = dice.choice(_FAILURES[:1] if bad > 0.1 else _FAILURES)
        url = f"https://api.example.com/{dice.choice(_TARGETS)}"
        lateness_ms = min(4, int(dice.expovariate(1.5)))
        yield Past(int(at_ms), Request(int(at_ms) - 60, "POST", url), outcome, lateness_ms)


def future(customer: Customer, dice: random.Random) -> None:
    """What waits for the next three hours, more of it on the quarters of an hour."""
    payloads = []
    for minute in range(1, 180):
        many = 26 if minute % 15 == 0 else 5
        for _ in range(dice.randrange(many)):
            due = time.time() + minute * 60 + dice.random() * 55
            payloads.append(
                {
                    "targetUrl": f"https://api.example.com/{dice.choice(_TARGETS)}",
                    "triggerAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(due)),
                    "targetHeaders": {"Authorization": "Bearer secret", "X-Tenant": "north"},
                    "targetBody": {"customer": dice.randrange(10_000), "template": "friendly"},
                }
            )
    customer.schedule_all(payloads)


def prepare(store_url: str) -> list[str]:
    """The default account's past; returns the secrets of links that sign in, one for each look."""

    async def make(store: Store) -> list[str]:
        [account] = await store.accounts.list_accounts()
        now_ms = store.clock.now_ms()
        await fill(store, account.account_id, past(now_ms, random.Random(4)))
        await store.api_keys.create(account.account_id, "nightly reports")
        old, _ = await store.api_keys.create(account.account_id, "old laptop")
        await store.api_keys.deactivate(old.key_id)
        link = store.sessions.make_link
        return [await link(account.account_id, Purpose.SIGN_IN) for _ in _LOOKS]

    return with_store(Settings(redis_url=store_url), make)


def fire_some(customer: Customer, receiver: Receiver) -> None:
    """A few real ones: the last of them is what the log begins with."""
    receiver.answer("/slow", Answer(delay_s=0.18))
    receiver.answer("/broken", Answer(status=503))
    for path in ("/welcome", "/slow", "/broken", "/welcome", "/slow", "/welcome"):
        customer.schedule(f"{receiver.url}{path}", 0.2, targetBody={"hello": "future"})
    cancelled = customer.schedule(f"{receiver.url}/cancelled", 3600)
    customer.cancel(cancelled)
    until(lambda: len(receiver.requests) >= 6, "all fired")
    time.sleep(1.2)  # the overview reads at most once a second


def look(browser: Browser, base_url: str, secret: str, name: str, **options: object) -> None:
    context = browser.new_context(**options)  # type: ignore[arg-type]
    page = context.new_page()
    follow(page, f"{base_url}/dashboard/link/{secret}")
    page.locator("#charts svg").first.wait_for()
    _take(page, f"overview-{name}", 1400)
    for where in _PAGES if name == "light" else ():
        page.goto(f"{base_url}/dashboard/{where}")
        _take(page, f"{where}-{name}")
    page.goto(f"{base_url}/dashboard/requests")
    if name != "dark":
        _take(page, f"requests-{name}")
    page.locator("tr.failed a.opens").first.click()
    page.locator("#panel article").wait_for()
    _take(page, f"request-{name}")
    context.close()


def _take(page: Page, name: str, most_pixels: int = 820) -> None:
    """From the top, as far down as there is something, or enough of it."""
    page.wait_for_timeout(150)
    height = min(page.evaluate("document.documentElement.scrollHeight"), most_pixels)
    width = page.viewport_size["width"] if page.viewport_size else 1440
    clip = {"x": 0, "y": 0, "width": width, "height": height}
    page.screenshot(path=FOLDER / f"{name}.png", clip=clip, full_page=True)  # type: ignore[arg-type]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    with PostdateProcess() as up, Receiver() as receiver:
        secrets = prepare(up.redis_url)
        with Customer(up.base_url, up.api_key) as customer:
            future(customer, random.Random(7))
            fire_some(customer, receiver)
        with chromium() as browser:
            for (name, options), secret in zip(_LOOKS.items(), secrets, strict=True):
                look(browser, up.base_url, secret, name, **options)


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(__doc__)
    main()
