"""The dashboard of an account that is suspended."""

from __future__ import annotations

from scheduler.models import Account
from tests.dashboard.conftest import Browser, Dashboard


async def test_its_holder_may_look_and_sign_out_but_write_nothing(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    await dashboard.store.changes.suspend(ada.account_id)
    page = await browser.get("")
    assert (page.status_code, "This account is suspended" in page.text) == (200, True)
    refused = await browser.write("/keys", name="new")
    assert (refused.status_code, "suspended" in refused.text) == (403, True)
    assert await dashboard.store.api_keys.of_account(ada.account_id) == []
    assert (await browser.write("/sign-out")).status_code == 303


async def test_operators_see_it(dashboard: Dashboard, ada: Account) -> None:
    boss = await dashboard.signed_in(await dashboard.account("boss", operator=True))
    label = '<small class="bad">suspended</small>'
    assert label not in (await boss.get("/system")).text
    await dashboard.store.changes.suspend(ada.account_id)
    assert label in (await boss.get("/system")).text


async def test_a_deleted_account_is_signed_out(
    dashboard: Dashboard, ada: Account, browser: Browser
) -> None:
    await dashboard.store.deletion.delete(ada.account_id)
    answer = await browser.get("")
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/sign-in")
