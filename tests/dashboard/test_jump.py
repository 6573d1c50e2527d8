"""Jumping to a page, a request, a lane or an account."""

from __future__ import annotations

import html
import re
from unittest.mock import AsyncMock

import pytest

from api.dashboard.jump import asked
from scheduler.callers import Role
from scheduler.models import Request
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.store import keys
from scheduler.store.log.logs import LogQuery
from tests.dashboard.conftest import ORIGIN, Browser, Dashboard
from tests.support.plain import redis_of

NEWS = {"hx-request": "true", "hx-target": "div#found"}


async def jump(browser: Browser, wanted: str) -> dict[str, str]:
    """The places that the dialog offers, with their kinds."""
    found = re.findall(r'<li data-kind="(\w+)"><a href="([^"]+)">', await shown(browser, wanted))
    return {html.unescape(address): kind for kind, address in found}


async def shown(browser: Browser, wanted: str) -> str:
    text = (await browser.client.get("/dashboard/jump", params={"q": wanted}, headers=NEWS)).text
    assert "<html" not in text
    return text


async def acts(browser: Browser, wanted: str) -> dict[str, str]:
    """What the dialog offers to do, with the address that does it."""
    form = r'<form method="post" action="([^"]+)".*?<button[^>]*>(.*?)</button>'
    found = re.findall(form, await shown(browser, wanted))
    return {re.sub(r"<[^>]+>", "", words): address for address, words in found}


async def test_every_page_of_the_menu_is_found(browser: Browser, boss: Browser) -> None:
    for viewer in (browser, boss):
        text = await viewer.text("/jump")
        [menu] = re.findall(r'<nav aria-label="Pages">(.*?)</nav>', text, re.DOTALL)
        for address, words in re.findall(r'<a href="([^"]+)"[^>]*>([^<]+)</a>', menu):
            assert next(iter(await jump(viewer, words.lower()))) == address
    assert "/dashboard/system" not in await jump(browser, "system")


async def test_a_request_is_found_by_id_reference_or_url(browser: Browser) -> None:
    waiting = await browser.schedule(reference="Order-17", url="https://example.com/Invoices/7")
    ended = await browser.execute(url="https://example.com/carts")
    ended_ms = (await browser.kept(ended)).ended_at_ms
    there, gone = f"/dashboard/requests/{waiting}", f"/dashboard/requests/{ended}?at={ended_ms}"
    for wanted, address in (
        (waiting, there),
        (waiting.replace("sch_", "inv_"), there),
        (waiting.replace("sch_", "msg_"), there),
        ("Order-17", there),
        ("order-1", there),
        ("com/invoices", there),
        ("https://example.com/inv", there),
        ("/CARTS", gone),
    ):
        assert next(iter(await jump(browser, wanted))) == address, wanted
        assert (await browser.client.get(address)).status_code == 200
    assert await jump(browser, "zz") == {}
    assert [*(await jump(browser, "none like it")).values()] == ["search"]


async def test_a_recurring_schedule_is_found_by_id_or_how_its_name_begins(browser: Browser) -> None:
    draft = Draft(Request(0, "GET", "https://example.com/"), Timing(every_ms=3_600_000), "nightly")
    rule = (await browser.store.recurring.create(browser.account_id, draft)).rule
    address = f"/dashboard/recurring/{rule.recurring_id}"
    for wanted in ("nightly", rule.recurring_id, "night", "NIGHT"):
        assert (await jump(browser, wanted))[address] == "recurring"
    assert address not in await jump(browser, "ightly")


async def test_a_reference_is_found_before_urls_that_have_it(browser: Browser) -> None:
    named = await browser.schedule(reference="hook")
    await browser.schedule(60_000)
    requests = [at for at, kind in (await jump(browser, "hook")).items() if kind == "request"]
    assert (requests[0], len(requests)) == (f"/dashboard/requests/{named}", 2)


async def test_lanes_are_found_by_how_they_begin(browser: Browser) -> None:
    for lane in ("inv", "invoices", "inu", "inw", "Invoices"):
        await browser.schedule(lane=lane)
    found = [at for at, kind in (await jump(browser, "inv")).items() if kind == "lane"]
    assert found == ["/dashboard/lanes/inv", "/dashboard/lanes/invoices"]
    assert "/dashboard/lanes/invoices" not in await jump(browser, "nvoices")


async def test_operators_find_accounts_and_others_nothing_of_them(
    dashboard: Dashboard, browser: Browser, boss: Browser
) -> None:
    bob = await dashboard.account("bob & sons", email="bob@example.com")
    address = f"/dashboard/as/{bob.account_id}"
    for wanted in ("BOB & s", bob.account_id, "bob@example.com"):
        assert (await jump(boss, wanted))[address] == "account"
        assert address not in await jump(browser, wanted)
    await dashboard.browser(bob).schedule(reference="bobs", lane="bobs")
    assert {*(await jump(browser, "bobs")).values()} <= {"search"}


async def test_a_jump_counts_as_its_searches(browser: Browser) -> None:
    await browser.schedule(lane="keys", reference="keys")
    base = keys.account(browser.account_id)
    await redis_of(browser.store).set(base + keys.SCANS, 2**52)
    text = await browser.text("/jump", q="keys")
    assert "Too much was searched" in text
    assert {*(await jump(browser, "keys")).values()} == {"page"}


async def test_what_is_typed_is_text(browser: Browser) -> None:
    text = await browser.text("/jump", q='"><script>x</script>')
    assert "<script>x" not in text
    assert (await browser.get("/jump", q="x" * 5000)).status_code == 200


@pytest.mark.parametrize(
    ("text", "verb", "name"),
    [
        ("customer-17", "", "customer-17"),
        ("pause customer-17", "pause", "customer-17"),
        ("customer-17 PAUSE", "pause", "customer-17"),
        ("pau lane cust", "pause", "cust"),
        ("run rule nightly now", "run", "nightly"),
        ("pause", "pause", ""),
        ("paused", "", "paused"),
        ("pa x", "", "pa x"),
        ("go to lanes", "", "lanes"),
        ("lane", "", "lane"),
        ("pause pause", "pause", "pause"),
        ("resume the lane", "resume", "the lane"),
        ("", "", ""),
    ],
)
def test_a_verb_and_a_name_come_in_any_order(text: str, verb: str, name: str) -> None:
    assert asked(text) == (verb, name)


async def test_lanes_and_rules_are_paused_resumed_and_run(browser: Browser, boss: Browser) -> None:
    store, account_id = browser.store, browser.account_id
    draft = Draft(Request(0, "GET", "https://example.com/"), Timing(every_ms=3_600_000), "Inv-all")
    rule = (await store.recurring.create(account_id, draft)).rule
    for lane in ("inv-a", "inv-b"):
        await browser.schedule(lane=lane)
    lane_at, rule_at = "/dashboard/lanes/inv-", f"/dashboard/recurring/{rule.recurring_id}/"
    pauses = {"Pause lane inv-a": f"{lane_at}a/pause", "Pause lane inv-b": f"{lane_at}b/pause"}
    assert await acts(browser, "inv- pause") == pauses | {"Pause Inv-all": f"{rule_at}pause"}
    assert await acts(browser, "run inv") == {"Run now: Inv-all": f"{rule_at}run"}
    assert await acts(browser, "resume inv") == await acts(browser, "inv") == {}
    fields = {"csrf": await browser.csrf(), "once": "a" * 16, "back": "/dashboard/jump?q=x"}
    headers = NEWS | {"origin": ORIGIN}
    told = await browser.client.post(f"{lane_at}a/pause", data=fields, headers=headers)
    assert told.text == (
        '<p class="done" role="status">'
        "Lane inv-a is paused: running schedules end, and due ones wait.</p>"
    )
    plain = await browser.post("/lanes/inv-b/pause", **fields)
    assert plain.headers["location"] == "/dashboard/jump?q=x"
    resumes = {"Resume lane inv-a": f"{lane_at}a/resume", "Resume lane inv-b": f"{lane_at}b/resume"}
    assert await acts(browser, "resume") == await acts(browser, "resume inv") == resumes
    for _ in range(2):
        await browser.client.post(f"{rule_at}run", data=fields, headers=headers)
    assert (
        len((await store.logs.page(account_id, LogQuery(recurring_id=rule.recurring_id))).entries)
        == 2
    )
    looked_at = await boss.client.get(
        f"/dashboard/as/{account_id}/jump", params={"q": "pause inv"}, headers=NEWS
    )
    assert f'/as/{account_id}/lanes/inv-a"' in looked_at.text
    assert "<form" not in looked_at.text


async def test_hosts_and_references_are_found_by_how_they_begin(browser: Browser) -> None:
    await browser.schedule(url="https://api.example.org/x", reference="order-17")
    assert await jump(browser, "order-")
    for wanted in ("api.exa", "EXAMPLE.org"):
        assert (await jump(browser, wanted))["/dashboard/requests?host=api.example.org"] == "host"
    assert "host" not in (await jump(browser, "pi.example")).values()


async def test_the_box_of_filters_offers_the_same_hosts(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the seconds in which both go by one look."""
    monkeypatch.setattr("api.dashboard.requests.suggestions._SEEN", 1)
    for host, due_in_ms in (("b.example.org", 120_000), ("a.example.org", 60_000)):
        await browser.schedule(url=f"https://{host}/x", due_in_ms=due_in_ms)
    box = await browser.client.get("/dashboard/requests/suggest", params={"find": "host:"})
    assert "host:a.example.org" in box.text
    assert "host:b.example.org" not in box.text
    assert "/dashboard/requests?host=a.example.org" in await jump(browser, "a.exa")


async def test_pages_of_acts_are_found(browser: Browser, boss: Browser) -> None:
    for wanted, path in (
        ("new request", "/requests/new"),
        ("recurring new", "/recurring/new"),
        ("go to lanes", "/lanes"),
        ("pause account", "/account"),
    ):
        assert f"/dashboard{path}" in await jump(browser, wanted)
    assert "/dashboard/system/hold" in await jump(boss, "hold all")
    assert "/dashboard/system/hold" not in await jump(browser, "hold all")


async def test_those_who_only_look_are_offered_nothing_to_do(
    dashboard: Dashboard, boss: Browser
) -> None:
    account = await dashboard.store.accounts.get(boss.account_id)
    by_role = {role: await dashboard.member(account, f"{role}@example.com", role) for role in Role}
    await boss.schedule(lane="inv-a")
    for path, wanted, needed in (
        ("/requests/new", "new request", Role.ACT),
        ("/recurring/new", "new recurring", Role.ACT),
        ("/system/hold", "hold all", Role.ACT),
        ("/keys#signing", "signing secrets", Role.OWN),
        ("/account", "pause account", Role.READ),
        ("/lanes/inv-a", "inv-", Role.READ),
    ):
        for role, theirs in by_role.items():
            offered = f"/dashboard{path}" in await jump(theirs, wanted)
            assert offered == role.allows(needed), (path, role)
    for role, theirs in by_role.items():
        assert (await acts(theirs, "pause inv") != {}) == role.allows(Role.ACT), role
    assert "/dashboard/lanes/inv-a" in await jump(by_role[Role.READ], "pause inv")
    for path in ("/system", "/system/accounts"):
        text = await by_role[Role.READ].text(path)
        assert "/system/hold" not in text
        assert "/system/grant" not in text


async def test_short_words_search_no_requests(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = AsyncMock()
    monkeypatch.setattr(browser.store.logs, "page", page)
    await jump(browser, "ab")
    page.assert_not_called()
