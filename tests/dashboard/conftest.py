"""A browser without a screen: an HTTP client with cookies that says where its requests are from."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher
from litestar import Litestar

from api.dashboard import passwords
from scheduler.models import Account, Plan
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.store.accounts.sessions import Purpose
from tests.apps import app_of
from tests.servers import ValkeyProcess

ORIGIN = "http://postdate.test"
PASSWORD = "a quiet morning in may"
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class Browser:
    """What one browser does; `follow` makes it go where it is sent."""

    def __init__(self, app: Litestar, address: str = "127.0.0.1") -> None:
        transport = httpx.ASGITransport(app, client=(address, 4711))  # type: ignore[arg-type]
        self.client = httpx.AsyncClient(transport=transport, base_url=ORIGIN)

    async def get(self, path: str, **query: Any) -> httpx.Response:
        return await self.client.get("/dashboard" + path, params=query or None)

    async def csrf(self) -> str:
        match = _CSRF.search((await self.get("/keys")).text)
        assert match, "not signed in"
        return match[1]

    async def post(
        self, path: str, headers: dict[str, str] | None = None, **fields: str
    ) -> httpx.Response:
        """A form of ours, sent from a page of ours."""
        headers = {"origin": ORIGIN} if headers is None else headers
        return await self.client.post("/dashboard" + path, data=fields, headers=headers)

    async def write(self, path: str, **fields: str) -> httpx.Response:
        """The same with the session's CSRF token."""
        return await self.post(path, csrf=await self.csrf(), **fields)


class Dashboard:
    """The app over a real Valkey, and its viewer."""

    def __init__(self, app: Litestar, store: Store) -> None:
        self.app = app
        self.store = store
        self.browsers: list[Browser] = []

    def browser(self, address: str = "127.0.0.1") -> Browser:
        self.browsers.append(Browser(self.app, address))
        return self.browsers[-1]

    async def account(self, name: str, **fields: Any) -> Account:
        given = {"credits": 100, "plan": Plan.FREE} | fields
        return await self.store.accounts.create(name, **given)

    async def signed_in(self, account: Account) -> Browser:
        """A browser that followed a link of this account, and pressed its button."""
        link = await self.store.sessions.make_link(account.account_id, Purpose.SIGN_IN)
        browser = self.browser()
        assert (await browser.post(f"/link/{link}")).status_code == 303
        return browser


@pytest.fixture(autouse=True)
def _hashes_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they cost is not the question here; the tests with a real browser pay it in full."""
    cheap = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(passwords, "_hasher", cheap)
    passwords._stand_in.cache_clear()


@pytest.fixture
def settings(valkey: ValkeyProcess) -> Settings:
    return Settings(redis_url=valkey.url, shards=4, allowed_hosts=("postdate.test", "127.0.0.1"))


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Store]:
    store = await Store.open(settings)
    yield store
    await store.aclose()


@pytest.fixture
async def dashboard(settings: Settings, store: Store) -> AsyncIterator[Dashboard]:
    dashboard = Dashboard(app_of(settings, store), store)
    yield dashboard
    for browser in dashboard.browsers:
        await browser.client.aclose()


@pytest.fixture
async def ada(dashboard: Dashboard) -> Account:
    return await dashboard.account("ada", email="ada@example.com")


@pytest.fixture
async def browser(dashboard: Dashboard, ada: Account) -> Browser:
    """Ada's, signed in."""
    return await dashboard.signed_in(ada)
