"""Signing in and out, over HTTP."""

from __future__ import annotations

import re

import pytest

from api.dashboard.viewer import passwords
from scheduler.callers import Role
from scheduler.models import Account
from scheduler.store import Store
from scheduler.store.accounts.sign_in.sessions import ATTEMPTS_PER_BOTH
from tests.dashboard.conftest import PASSWORD, Browser, Dashboard
from tests.dashboard.test_pages import PAGES

EMAIL = "ada@example.com"
CREDENTIALS = {"email": EMAIL, "password": PASSWORD}


@pytest.fixture
async def link(ada: Account, store: Store) -> str:
    """The secret of a link that signs in."""
    return await store.sessions.make_link(ada.account_id)


@pytest.fixture
async def password_link(ada: Account, store: Store) -> str:
    """The secret of a link that sets a password, and then signs in."""
    [member] = await store.members.all(ada.account_id)
    return await store.sessions.make_link(ada.account_id, member.member_id)


@pytest.fixture
async def stranger(dashboard: Dashboard, ada: Account) -> Browser:
    """Signed out, where Ada has a password."""
    hashed = await passwords.hashed(PASSWORD)
    [member] = await dashboard.store.members.all(ada.account_id)
    await dashboard.store.sessions.open(ada.account_id, member.member_id, password=hashed)
    return dashboard.browser()


async def test_without_a_session_every_page_leads_to_the_sign_in(dashboard: Dashboard) -> None:
    browser = dashboard.browser()
    for path in (*PAGES, "/system", "/requests/more"):
        answer = await browser.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/sign-in")
    answer = await browser.client.get("/dashboard", headers={"hx-request": "true"})
    assert (answer.status_code, answer.headers["hx-redirect"]) == (200, "/dashboard/sign-in")


async def test_a_link_signs_in_once_and_no_look_ahead_uses_it_up(
    dashboard: Dashboard, link: str
) -> None:
    scanner, browser = dashboard.browser(), dashboard.browser()
    shown = await scanner.get(f"/link/{link}")
    assert (shown.status_code, "<bdi>ada</bdi>" in shown.text) == (200, True)
    assert (await scanner.get("")).status_code == 303
    answer = await browser.post(f"/link/{link}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
    assert re.fullmatch(
        r"postdate_session=\d\d_[\w-]{43}; Path=/dashboard; Max-Age=604800; HttpOnly; SameSite=Lax",
        answer.headers["set-cookie"],
    )
    assert (await browser.get("")).status_code == 200
    for other in (browser, dashboard.browser()):
        assert (await other.post(f"/link/{link}")).status_code == 410
        assert (await other.get(f"/link/{link}")).status_code == 410


@pytest.mark.parametrize(
    ("chosen", "sent", "shown"),
    [
        (None, "Europe/Berlin", "Europe/Berlin"),
        (None, "UTC", "UTC"),
        ("UTC", "Europe/Berlin", "UTC"),
        (None, "", "UTC"),
        (None, "europe/berlin", "UTC"),
        (None, "../../etc/passwd", "UTC"),
        (None, "Europe/Berlin\r\nset-cookie: a=b", "UTC"),
        (None, "x" * 9000, "UTC"),
    ],
    ids=["known", "UTC", "chosen", "none", "case", "path", "header", "long"],
)
async def test_the_first_page_is_in_the_zone_of_the_browser(
    dashboard: Dashboard, link: str, chosen: str | None, sent: str, shown: str
) -> None:
    """Unless its user chose one before; of what is no zone nothing is kept."""
    browser = dashboard.browser()
    if chosen:
        browser.client.cookies.set("postdate_zone", chosen)
    assert (await browser.post(f"/link/{link}", zone=sent)).status_code == 303
    assert ("postdate_zone" in browser.client.cookies) == (shown == sent or chosen is not None)
    assert f"Times are in {shown}." in await browser.text("")


async def test_signing_in_anew_ends_the_session_before(browser: Browser, link: str) -> None:
    [(_, before)] = browser.client.cookies.items()
    assert (await browser.post(f"/link/{link}")).status_code == 303
    assert await browser.store.sessions.find(before) is None
    assert await browser.store.sessions.count(browser.account_id) == 1


async def test_of_cookies_4_kib_are_read(dashboard: Dashboard, browser: Browser) -> None:
    [(name, secret)] = browser.client.cookies.items()
    for others, status in (("a=1; " * 800, 200), ("a=1; " * 900, 303)):
        headers = {"cookie": f"{others}{name}={secret}"}
        answer = await dashboard.browser().client.get("/dashboard", headers=headers)
        assert answer.status_code == status


async def test_over_tls_the_cookie_is_the_hosts_alone(dashboard: Dashboard, link: str) -> None:
    origin, client = "https://postdate.test", dashboard.browser().client
    answer = await client.post(f"{origin}/dashboard/link/{link}", headers={"origin": origin})
    assert re.fullmatch(
        r"__Host-postdate_session=[\w-]{46}; Path=/; "
        r"Max-Age=604800; HttpOnly; SameSite=Lax; Secure",
        answer.headers["set-cookie"],
    )
    page = await client.get(f"{origin}/dashboard")
    assert page.status_code == 200
    assert page.headers["strict-transport-security"] == "max-age=31536000"


async def test_two_postdates_on_a_host_keep_sessions_apart(dashboard: Dashboard, link: str) -> None:
    here, client = "http://127.0.0.1:8001", dashboard.browser().client
    answer = await client.post(f"{here}/dashboard/link/{link}", headers={"origin": here})
    assert answer.headers["set-cookie"].startswith("postdate_session_8001=")


async def test_a_link_that_sets_a_password_asks_for_one(
    dashboard: Dashboard, ada: Account, password_link: str
) -> None:
    browser, path = dashboard.browser(), f"/link/{password_link}"
    assert "Set a password" in await browser.text(path)
    good = {"password": PASSWORD, "again": PASSWORD}
    for bad, why in (
        ({"password": "short", "again": "short"}, "at least 10 characters"),
        (good | {"again": "another password"}, "differ"),
    ):
        refused = await browser.post(path, **bad)
        assert (refused.status_code, why in refused.text) == (400, True)
    assert (await browser.post(path, **good)).status_code == 303
    assert (await browser.get("")).status_code == 200
    assert (await browser.post(path, **good)).status_code == 410
    stored = await dashboard.store.members.find(EMAIL)
    assert (stored.password or "").startswith("$argon2id$")


async def test_a_password_signs_in(dashboard: Dashboard, stranger: Browser) -> None:
    bob, eve = "bob@example.com", "eve@example.com"  # without a password, and only invited
    account = await dashboard.account("bob", email=bob)
    await dashboard.store.members.invite(account.account_id, eve, Role.OWN, "us")
    wrong = ((EMAIL, "wrong password"), (bob, PASSWORD), (bob, ""), (eve, PASSWORD), ("x", ""))
    for email, password in wrong:
        answer = await stranger.post("/sign-in", email=email, password=password)
        assert (answer.status_code, "do not match" in answer.text) == (401, True)
    answer = await stranger.post("/sign-in", email="ADA@example.com", password=PASSWORD)
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
    assert "ada" in await stranger.text("")


async def test_guessing_is_limited_by_network_and_locks_nobody_else_out(
    dashboard: Dashboard, stranger: Browser
) -> None:
    """Of IPv6 a network is one place."""
    for number in range(ATTEMPTS_PER_BOTH + 1):
        guessing = dashboard.browser(address=f"2001:db8:1:2:{number:x}::1")
        answer = await guessing.post("/sign-in", email=EMAIL, password="wrong")
        assert answer.status_code == (401 if number < ATTEMPTS_PER_BOTH else 429)
    answer = await guessing.post("/sign-in", **CREDENTIALS)
    assert (answer.status_code, "Too many attempts" in answer.text) == (429, True)
    assert "set-cookie" not in answer.headers
    for address in ("192.0.2.7", "2001:db8:1:3::1"):
        holder = dashboard.browser(address=address)
        assert (await holder.post("/sign-in", **CREDENTIALS)).status_code == 303


@pytest.mark.parametrize("password", ["qwertyuiop", "eve@example.com1"])
async def test_a_password_that_is_easily_guessed_is_refused(
    dashboard: Dashboard, ada: Account, password: str
) -> None:
    form = {"password": password, "again": password}
    eve = await dashboard.member(ada, "eve@example.com")
    found = await dashboard.store.members.find("eve@example.com")
    link = await dashboard.store.sessions.make_link(ada.account_id, found.member_id)
    for answer in (
        await dashboard.browser().post(f"/link/{link}", **form),
        await eve.write("/account/password", current=PASSWORD, **form),
    ):
        assert (answer.status_code, "too easy to guess" in answer.text) == (400, True)
    assert await dashboard.store.members.find("eve@example.com") == found


async def test_signing_out_ends_this_session_or_all_of_the_member(
    dashboard: Dashboard, ada: Account, stranger: Browser
) -> None:
    one, two = [await dashboard.signed_in(ada) for _ in range(2)]
    eve, his = await dashboard.member(ada, "eve@example.com"), dashboard.browser(ada)
    for browser in (stranger, his):
        await browser.post("/sign-in", **CREDENTIALS)
    answer = await one.write("/sign-out")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    everyone = (one, two, eve, stranger, his)
    assert [(await each.get("")).status_code for each in everyone] == [303, *[200] * 4]
    await his.write("/sign-out", where="everywhere")
    assert [(await each.get("")).status_code for each in everyone] == [303, 200, 200, 303, 303]
    await two.write("/sign-out", where="everywhere")
    assert [(await each.get("")).status_code for each in everyone] == [303, 303, 200, 303, 303]


async def test_a_password_is_changed_by_who_knows_it(
    dashboard: Dashboard, ada: Account, stranger: Browser
) -> None:
    browser, other = dashboard.browser(ada), dashboard.browser(ada)
    for each in (browser, other):
        await each.post("/sign-in", **CREDENTIALS)
    [(_, before)] = browser.client.cookies.items()
    new = {"password": "another quiet morning", "again": "another quiet morning"}
    answer = await browser.write("/account/password", current="wrong", **new)
    assert (answer.status_code, "not the current" in answer.text) == (403, True)
    answer = await browser.write("/account/password", current=PASSWORD, **new)
    assert (answer.status_code, "is set" in answer.text) == (200, True)
    assert await dashboard.store.sessions.find(before) is None
    assert (await browser.get("")).status_code == 200
    assert (await other.get("")).status_code == 303
    again = await stranger.post("/sign-in", email=EMAIL, password=new["password"])
    assert again.status_code == 303
    by_link = await dashboard.signed_in(ada)
    assert (await by_link.write("/account/password", **new)).status_code == 404


async def test_after_the_sign_in_one_is_back_where_one_was(stranger: Browser) -> None:
    asked = "/dashboard/requests?status=failed&q=a%2Fb"
    assert (await stranger.client.get(asked)).headers["location"] == "/dashboard/sign-in"
    for there in (asked, "/dashboard"):  # once
        answer = await stranger.post("/sign-in", **CREDENTIALS)
        assert answer.headers["location"] == there
        await stranger.post("/sign-out", csrf=await stranger.csrf())


async def test_the_holder_of_a_suspended_account_may_look_and_sign_out(browser: Browser) -> None:
    await browser.store.changes.suspend(browser.account_id)
    page = await browser.get("")
    assert (page.status_code, "This account is suspended" in page.text) == (200, True)
    assert (await browser.write("/sign-out")).status_code == 303


async def test_a_deleted_account_is_signed_out(browser: Browser) -> None:
    await browser.store.changes.delete(browser.account_id)
    answer = await browser.get("")
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/sign-in")
