"""Signing in and out, over HTTP."""

from __future__ import annotations

import re

from api.dashboard import passwords
from scheduler.models import Account
from scheduler.store.accounts.sessions import Purpose
from scheduler.store.accounts.users import ATTEMPTS_PER_EMAIL
from tests.dashboard.conftest import ORIGIN, PASSWORD, Browser, Dashboard

EMAIL = "ada@example.com"
PAGES = ("", "/schedules", "/logs", "/keys", "/credits", "/account")


async def with_password(dashboard: Dashboard, account: Account) -> None:
    hashed = await passwords.hashed(PASSWORD)
    await dashboard.store.users.set_password(account.account_id, hashed)


async def test_without_a_session_every_page_leads_to_the_sign_in(dashboard: Dashboard) -> None:
    browser = dashboard.browser()
    for path in (*PAGES, "/system", "/overview/tiles", "/overview/data"):
        answer = await browser.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/sign-in")
    answer = await browser.client.get("/dashboard/overview/tiles", headers={"hx-request": "true"})
    assert (answer.status_code, answer.headers["hx-redirect"]) == (200, "/dashboard/sign-in")


async def test_a_link_signs_in_once(dashboard: Dashboard, ada: Account) -> None:
    link = await dashboard.store.sessions.make_link(ada.account_id, Purpose.SIGN_IN)
    browser = dashboard.browser()
    answer = await browser.get(f"/link/{link}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
    cookie = answer.headers["set-cookie"]
    assert re.fullmatch(
        r"postdate_session=\d\d_[\w-]{43}; Path=/dashboard; Max-Age=604800; HttpOnly; SameSite=Lax",
        cookie,
    )
    assert (await browser.get("")).status_code == 200
    for other in (browser, dashboard.browser()):
        assert (await other.get(f"/link/{link}")).status_code == 410


async def test_a_look_ahead_does_not_use_a_link_up(dashboard: Dashboard, ada: Account) -> None:
    link = await dashboard.store.sessions.make_link(ada.account_id, Purpose.SIGN_IN)
    browser = dashboard.browser()
    assert (await browser.client.head(f"/dashboard/link/{link}")).status_code == 405
    assert (await browser.get(f"/link/{link}")).status_code == 303


async def test_the_cookie_is_secure_where_the_service_is(
    dashboard: Dashboard, ada: Account
) -> None:
    link = await dashboard.store.sessions.make_link(ada.account_id, Purpose.SIGN_IN)
    browser = dashboard.browser()
    answer = await browser.client.get(f"https://postdate.test/dashboard/link/{link}")
    assert answer.headers["set-cookie"].endswith("; Secure")


async def test_two_postdates_on_one_host_keep_their_sessions_apart(
    dashboard: Dashboard, ada: Account
) -> None:
    link = await dashboard.store.sessions.make_link(ada.account_id, Purpose.SIGN_IN)
    browser = dashboard.browser()
    answer = await browser.client.get(f"http://127.0.0.1:8001/dashboard/link/{link}")
    assert answer.headers["set-cookie"].startswith("postdate_session_8001=")


async def test_a_link_that_sets_a_password_asks_for_one(dashboard: Dashboard, ada: Account) -> None:
    link = await dashboard.store.sessions.make_link(ada.account_id, Purpose.SET_PASSWORD)
    browser = dashboard.browser()
    for _ in range(2):
        answer = await browser.get(f"/link/{link}")
        assert (answer.status_code, "Set a password" in answer.text) == (200, True)
    refused = await browser.post(f"/link/{link}", password="short", again="short")
    assert (refused.status_code, "at least 10 characters" in refused.text) == (400, True)
    refused = await browser.post(f"/link/{link}", password=PASSWORD, again="another password")
    assert (refused.status_code, "differ" in refused.text) == (400, True)
    done = await browser.post(f"/link/{link}", password=PASSWORD, again=PASSWORD)
    assert done.status_code == 303
    assert (await browser.get("")).status_code == 200
    assert (
        await browser.post(f"/link/{link}", password=PASSWORD, again=PASSWORD)
    ).status_code == 410
    stored = (await dashboard.store.users.of(ada.account_id)).password
    assert stored is not None
    assert stored.startswith("$argon2id$")
    assert PASSWORD not in stored


async def test_a_password_signs_in(dashboard: Dashboard, ada: Account) -> None:
    await with_password(dashboard, ada)
    browser = dashboard.browser()
    for email, password in ((EMAIL, "wrong password"), ("bob@example.com", PASSWORD), ("x", "")):
        answer = await browser.post("/sign-in", email=email, password=password)
        assert (answer.status_code, "do not match" in answer.text) == (401, True)
    answer = await browser.post("/sign-in", email="ADA@example.com", password=PASSWORD)
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
    assert "ada" in (await browser.get("")).text
    assert (await browser.get("/sign-in")).status_code == 303


async def test_an_account_without_a_password_lets_nobody_in(
    dashboard: Dashboard, ada: Account
) -> None:
    for password in ("", "nobody's", PASSWORD):
        answer = await dashboard.browser().post("/sign-in", email=EMAIL, password=password)
        assert answer.status_code == 401


async def test_guessing_is_limited(dashboard: Dashboard, ada: Account) -> None:
    await with_password(dashboard, ada)
    browser = dashboard.browser()
    for _ in range(ATTEMPTS_PER_EMAIL):
        answer = await browser.post("/sign-in", email=EMAIL, password="wrong")
        assert answer.status_code == 401
    answer = await browser.post("/sign-in", email=EMAIL, password=PASSWORD)
    assert (answer.status_code, "Too many attempts" in answer.text) == (429, True)
    assert "set-cookie" not in answer.headers


async def test_another_site_cannot_sign_its_visitors_in(dashboard: Dashboard, ada: Account) -> None:
    await with_password(dashboard, ada)
    browser = dashboard.browser()
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {},
        {"origin": "null", "sec-fetch-site": "cross-site"},
    ):
        answer = await browser.post("/sign-in", headers, email=EMAIL, password=PASSWORD)
        assert answer.status_code == 403
    answer = await browser.post(
        "/sign-in",
        {"origin": "null", "sec-fetch-site": "same-origin"},
        email=EMAIL,
        password=PASSWORD,
    )
    assert answer.status_code == 303


async def test_signing_out_ends_this_session(dashboard: Dashboard, ada: Account) -> None:
    one, other = await dashboard.signed_in(ada), await dashboard.signed_in(ada)
    answer = await one.write("/sign-out")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert (await one.get("")).status_code == 303
    assert (await other.get("")).status_code == 200


async def test_signing_out_everywhere_ends_all(dashboard: Dashboard, ada: Account) -> None:
    one, other = await dashboard.signed_in(ada), await dashboard.signed_in(ada)
    bob = await dashboard.signed_in(await dashboard.account("bob"))
    await one.write("/sign-out", where="everywhere")
    assert [(await each.get("")).status_code for each in (one, other, bob)] == [303, 303, 200]


async def test_a_password_is_changed_by_who_knows_it(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    await with_password(dashboard, ada)
    browser, other = await dashboard.signed_in(ada), await dashboard.signed_in(ada)
    new = {"password": "another quiet morning", "again": "another quiet morning"}
    answer = await browser.write("/account/password", current="wrong", **new)
    assert (answer.status_code, "not the current" in answer.text) == (403, True)
    answer = await browser.write("/account/password", current=PASSWORD, **new)
    assert (answer.status_code, "is set" in answer.text) == (200, True)
    assert (await browser.get("")).status_code == 200
    assert (await other.get("")).status_code == 303
    signed_in = await dashboard.browser().post(
        "/sign-in", {"origin": ORIGIN}, email=EMAIL, password=new["password"]
    )
    assert signed_in.status_code == 303
