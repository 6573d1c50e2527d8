"""Recurring schedules that a browser makes by their form."""

from __future__ import annotations

import httpx

from scheduler.recurrence.recurring import Rule
from tests.dashboard.conftest import ORIGIN, Browser
from tests.dashboard.forms import form_with

UNKNOWN = "rec_" + "0" * 26
FORM = {
    "way": "cron",
    "cron": "0 9 * * mon-fri",
    "timeZone": "America/New_York",
    "name": "invoices",
    "targetUrl": "https://example.com/hook?token=s3cret&a=1",
    "targetMethod": "POST",
    "targetHeaders": "Authorization: s3cret\nX-Shop: 1",
    "targetBody": '{"n":1.50}',
    "once": "x",
}
WORDS = "At 09:00 on weekdays, New York"


async def send(browser: Browser, path: str, **fields: str) -> httpx.Response:
    """A form of ours that has a field `headers`."""
    data = fields | {"csrf": await browser.csrf()}
    return await browser.client.post("/dashboard" + path, data=data, headers={"origin": ORIGIN})


async def made(browser: Browser, **fields: str) -> str:
    """The path of a new rule's page."""
    answer = await send(browser, "/recurring/new", **FORM | fields)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"]).removeprefix("/dashboard")


async def rule_of(browser: Browser, path: str) -> Rule:
    return await browser.store.recurring.read(browser.account_id, path.rpartition("/")[2])


def filled(text: str) -> dict[str, str]:
    """The fields of the page's large form as it was filled."""
    return form_with(text, "way")
