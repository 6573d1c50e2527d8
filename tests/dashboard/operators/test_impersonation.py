"""An operator looks at the pages of another account, and changes nothing there."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from unittest.mock import AsyncMock

import pytest

from api.dashboard.operators.impersonation import address_of, kept_below, looked_at, own_path
from api.dashboard.routes import looking_router
from scheduler.events import Kind
from scheduler.store import keys
from tests.dashboard.conftest import ORIGIN, Browser, Dashboard
from tests.dashboard.test_writes import FIELDS, stored
from tests.support.plain import redis_of

ROUTES = {
    route.path_format.removeprefix("/dashboard/as/{looked_at}"): set(route.methods)
    for route in looking_router().routes
}
READS = sorted(path for path, methods in ROUTES.items() if "GET" in methods)
WRITES = sorted(path for path, methods in ROUTES.items() if "POST" in methods)
# Addresses on a page that may lead out of the view: the operator's own.
OUTSIDE = re.compile(
    r"/dashboard/(static/(?:[\w.-]+\?v=\w+|inter-[\d.]+woff2)|account|sign-out|zone|system\?q=acc_\w+#accounts)"
)


@pytest.fixture
def view(browser: Browser) -> str:
    """The address of Ada's account, below the root."""
    return f"/as/{browser.account_id}"


async def filled(browser: Browser) -> dict[str, str]:
    """One of each thing that a page shows, by the names of the routes' parameters."""
    store, account_id = browser.store, browser.account_id
    csrf = await browser.csrf()
    await browser.post("/lanes/slow", rate="9", per="1s", csrf=csrf)
    rule_fields: dict[str, Any] = FIELDS["/recurring/new"] | {"name": "hourly"}
    made = await browser.post("/recurring/new", csrf=csrf, **rule_fields)
    assert made.status_code == 303, made.text
    rule = await store.recurring.by_name(account_id, "hourly")
    ended = await browser.execute(503, answer=None)
    return {
        "schedule_id": ended,
        "recurring_id": rule.recurring_id,
        "lane": "slow",
        "action_id": "a-bulk-action-00",
        "rest": "nothing",
        "key_id": "key_00_22222222",
    }


async def test_an_operator_reads_what_holds_a_request_and_moves_nothing(
    browser: Browser, boss: Browser, view: str
) -> None:
    await browser.store.workers.beat("a worker", {"pid": 1})
    await browser.write("/lanes/slow/pause")
    held = await browser.schedule(-5000, lane="slow")
    for path, words in (
        (f"/requests/{held}", "It waits for lane slow: paused, it is next."),
        ("/lanes/slow", "1 is due and waits: it is paused."),
        ("/requests", "waits for lane slow: paused, it is next"),
    ):
        text = await boss.text(view + path)
        assert words in text
        assert "Another lane" not in text
        assert "Move to another lane" not in text
        assert 'name="no_lane"' not in text


@pytest.mark.parametrize("path", READS)
async def test_every_link_stays_in_the_view_and_nothing_can_be_sent(
    browser: Browser, boss: Browser, view: str, path: str
) -> None:
    await browser.schedule(lane="slow")
    names = await filled(browser)
    answer = await boss.get(view + path.format_map(names))
    assert answer.status_code == (404 if "rest" in path else 200), answer.text
    text = answer.text
    found = re.findall(r'[\w-]+="(/dashboard[^"]*)"', text)
    own = f"/dashboard{view}"
    for each in found:
        stays = each == own or each.startswith((own + "/", own + "?"))
        assert stays or OUTSIDE.fullmatch(each), each
    forms = re.findall(r'<form[^>]*method="post"[^>]*>', text)
    assert all(re.search(r'action="/dashboard/(zone|sign-out)"', each) for each in forms), forms
    assert not re.search(r'href="[^"]*/(new|keys|change)\b', text)
    for live in {*re.findall(r'hx-get="([^"]+)"', text)}:
        news = await boss.client.get(unescape(live), headers={"hx-request": "true"})
        assert news.status_code != 404, live
    is_whole = text.startswith("<!doctype")
    assert ("You look at <b><bdi>ada</bdi></b> as an operator" in text) == is_whole


@pytest.mark.parametrize("path", WRITES)
async def test_every_write_is_refused_and_does_nothing(
    browser: Browser, boss: Browser, view: str, path: str
) -> None:
    names, csrf = await filled(browser), await boss.csrf()
    before = await stored(boss.store)
    fields: dict[str, Any] = {
        name: value for name, value in FIELDS.get(path, {}).items() if "{" not in value
    }
    answer = await boss.post(view + path.format_map(names), csrf=csrf, **fields)
    assert (answer.status_code, "nothing can be changed here" in answer.text) == (403, True)
    assert await stored(boss.store) == before


def test_the_view_has_all_writes_of_the_pages_that_it_shows() -> None:
    assert {"/requests/bulk", "/requests/{schedule_id}/cancel", "/lanes/{lane}"} <= {*WRITES}
    assert {"/account/pause", "/recurring/{recurring_id}/delete"} <= {*WRITES}
    assert not [path for path in READS if re.search("key|sign|account|system|new|change", path)]


async def test_only_operators_look_and_an_account_leads_to_its_own_pages(
    dashboard: Dashboard, browser: Browser, boss: Browser, view: str
) -> None:
    bob = await dashboard.signed_in(await dashboard.account("bob"))
    for path in ("", "/requests", "/lanes"):
        theirs, missing = await bob.get(view + path), await bob.get(f"/as/acc_00_22222222{path}")
        assert (theirs.status_code, missing.status_code) == (404, 404)
        assert "ada" not in theirs.text
        own = await browser.get(view + path, when="1h")
        assert (own.status_code, own.headers["location"]) == (303, f"/dashboard{path}?when=1h")
        stranger = await dashboard.browser().get(view + path)
        assert stranger.headers["location"] == "/dashboard/sign-in"
    for wrong in ("/as/acc_00_22222222", "/as/x", "/as/"):
        assert (await boss.get(wrong)).status_code == 404


async def test_an_operator_who_is_one_no_longer_sees_nothing_more(
    boss: Browser, browser: Browser, view: str
) -> None:
    assert (await boss.get(view)).status_code == 200
    account = keys.account(boss.account_id) + keys.ACCOUNT
    await redis_of(boss.store).hset(account, "operator", "0")
    assert (await boss.get(view)).status_code == 404


async def test_a_suspended_operator_has_only_the_own_pages(
    boss: Browser, browser: Browser, view: str
) -> None:
    theirs = await browser.schedule()
    await boss.store.changes.suspend(boss.account_id)
    for path in (view, "/system", "/system/audit", "/system/hold", f"/requests/{theirs}"):
        assert (await boss.get(path)).status_code == 404, path
    own = await boss.get("/requests")
    assert (own.status_code, "/dashboard/system" in own.text) == (200, False)


async def test_looking_is_noted_once_an_hour(
    boss: Browser, browser: Browser, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.dashboard.viewer.session._LOOK_GOOD_FOR_S", 0.0)
    store = boss.store

    async def looks() -> list[tuple[str, str]]:
        events = await store.events.newest()
        return [(each.who, each.account_id) for each in events if each.kind is Kind.LOOK]

    for path in ("", "/requests", "/lanes"):
        await boss.get(view + path)
        assert (await boss.get(f"/as/acc_00_22222222{path}")).status_code == 404
    assert await looks() == [("operator's link (boss)", browser.account_id)]
    await redis_of(store).delete(keys.ACTS)  # the mark of this hour is not of that stream
    await boss.get(view)
    assert await looks() == []
    passed_ms = store.clock.now_ms() + 3_600_000
    monkeypatch.setattr(store.clock, "now_ms", lambda: passed_ms)
    await boss.get(view)
    assert await looks() == [("operator's link (boss)", browser.account_id)]


async def test_a_look_that_the_store_did_not_note_is_noted_with_the_next_page(
    boss: Browser, browser: Browser, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(boss.store.events, "record", AsyncMock(return_value=False))
        assert (await boss.get(view)).status_code == 200
    await boss.get(view)
    events = await boss.store.events.newest()
    assert [each.kind for each in events].count(Kind.LOOK) == 1


async def test_secrets_and_bodies_are_not_shown(browser: Browser, boss: Browser, view: str) -> None:
    waiting = await browser.schedule(headers={"X-Order": "8412"}, body=b'{"iban":"DE02"}')
    path = f"/requests/{waiting}"
    own, looked = await browser.text(path), await boss.text(view + path)
    for secret in ("8412", "DE02"):
        assert (secret in own, secret in looked) == (True, False)
    assert "X-Order" in looked
    for page in ("/keys", "/signing/rotate", "/account"):
        assert (await boss.get(view + page)).status_code == 404


async def test_a_shared_link_opens_in_its_account(
    dashboard: Dashboard,
    browser: Browser,
    boss: Browser,
    view: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schedule_id = await browser.schedule()
    shared = await boss.get(f"/requests/{schedule_id}", status="scheduled")
    there = f"/dashboard{view}/requests/{schedule_id}?status=scheduled"
    assert (shared.status_code, shared.headers["location"]) == (303, there)
    assert "You look at" in await boss.text_after(shared)
    headers = {"hx-request": "true", "hx-target": "div#panel", "origin": ORIGIN}
    panel = await boss.client.get(f"/dashboard{view}/requests/{schedule_id}", headers=headers)
    assert panel.headers["hx-push-url"] == f"/dashboard{view}/requests/{schedule_id}"
    bob = await dashboard.signed_in(await dashboard.account("bob"))
    assert (await bob.get(f"/requests/{schedule_id}")).status_code == 404
    nobodys = schedule_id[:-1] + ("1" if schedule_id.endswith("0") else "0")
    assert (await boss.get(f"/requests/{nobodys}")).status_code == 404
    news = await boss.client.get(
        f"/dashboard/requests/{schedule_id}", headers={"hx-request": "true"}
    )
    assert news.status_code == 404, "a tick searches other accounts"
    monkeypatch.setattr("scheduler.store.operators.owners._PATIENCE_S", 0.0)
    monkeypatch.setattr("scheduler.store.operators.owners._AT_ONCE", 1)
    late = await boss.get(f"/requests/{nobodys}")
    assert (late.status_code, "not all other accounts" in late.text) == (404, True)
    text = await browser.text("/requests", status="failed")
    assert f'href="/dashboard{view}/requests?status=failed"' in text


async def test_the_flash_message_of_another_tab_stays_there(
    browser: Browser, boss: Browser, view: str
) -> None:
    form = {"account": browser.account_id, "credits": "7", "once": "x" * 16}
    await boss.write("/system/grant", **form)
    assert "7 credits granted" not in await boss.text(view)
    assert "7 credits granted" in await boss.text("/system")


@pytest.mark.parametrize(
    ("path", "prefix", "own"),
    [
        ("/dashboard/as/acc_1/requests", "/dashboard/as/acc_1", "/dashboard/requests"),
        ("/dashboard/as/acc_1", "/dashboard/as/acc_1", "/dashboard"),
        ('/dashboard/as/acc_1"/x', "", '/dashboard/as/acc_1"/x'),
        ("/dashboard/requests", "", "/dashboard/requests"),
    ],
)
def test_an_address_names_the_account(path: str, prefix: str, own: str) -> None:
    assert (looked_at(path), own_path(path)) == (prefix, own)
    assert not prefix or address_of("acc_1", own) == path


@pytest.mark.parametrize("page", ["account", "members", "history", "keys", "signing/rotate"])
def test_the_link_for_support_of_an_owners_page_leads_to_the_first_one(page: str) -> None:
    assert address_of("acc_1", f"/dashboard/{page}") == "/dashboard/as/acc_1"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('<a href="/dashboard">', '<a href="/p">'),
        ('<a href="/dashboard?x=1">', '<a href="/p?x=1">'),
        ('<div hx-get="/dashboard/banner">', '<div hx-get="/p/banner">'),
        ('<a href="/dashboard/system">', '<a href="/dashboard/system">'),
        ('<a href="/dashboards">', '<a href="/dashboards">'),
        ("<p>/dashboard/requests</p>", "<p>/dashboard/requests</p>"),
        ('<a href="/dashboard/keys">API keys</a>.', "API keys."),
        ('<a class="button" href="/dashboard/requests/new">New</a>.', "."),
        ('<form id="a" method="post" action="/dashboard/x">\n<b></b></form>.', "."),
        ('<td><label><input type="checkbox" form="picked" name="id"></label></td>', "<td></td>"),
        ('<form action="/dashboard/x"></form>', '<form action="/p/x"></form>'),
    ],
)
def test_what_is_kept_of_a_page(text: str, kept: str) -> None:
    assert kept_below("/p", text) == kept
