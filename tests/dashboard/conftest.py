"""A browser without a screen: an HTTP client with cookies that says where its requests are from."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher
from litestar import Litestar

from api.dashboard.viewer import passwords
from scheduler.callbacks import Callback
from scheduler.callers import Role
from scheduler.models import Account, Outcome, Plan, Request, Schedule, Status
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.lifecycle.callback.callbacks import CallbackAck
from scheduler.store.lifecycle.end.end_rows import Ack
from tests.support.apps import app_of
from tests.support.servers import ValkeyProcess

ORIGIN = "http://postdate.test"
# What Chromium sends over HTTPS, and over HTTP to localhost; to other hosts it sends the first two.
ACCEPTED = "gzip, deflate, br, zstd"
PASSWORD = "a quiet morning in may"
URL = "https://example.com/hook?a=1&b=<2>"


def tiles_of(text: str) -> dict[str, str]:
    """The figures at the head of a page."""
    return dict(re.findall(r'id="tile-(\w+)">([^<]*)<', text))


def rows(text: str) -> list[str]:
    """The schedules of a list."""
    return re.findall(r'<tr id="r-(sch_\w+)"', text)


async def listed(browser: Browser, **query: str) -> list[str]:
    return rows(await browser.text("/requests", **query))


def once_of(text: str) -> str:
    """The key of a page's forms that are done once."""
    [once] = set(re.findall(r'name="once" value="([^"]+)"', text))
    return once


class Browser:
    """One browser, and what the account of its user schedules and gets done."""

    def __init__(self, app: Litestar, store: Store, account: Account | None, address: str) -> None:
        transport = httpx.ASGITransport(app, client=(address, 4711))  # type: ignore[arg-type]
        self.client = httpx.AsyncClient(transport=transport, base_url=ORIGIN)
        self.store = store
        self.account_id = account.account_id if account else ""

    async def get(self, path: str, **query: Any) -> httpx.Response:
        return await self.client.get("/dashboard" + path, params=query or None)

    async def csrf(self) -> str:
        [token] = set(re.findall(r'name="csrf" value="([^"]+)"', await self.text("/keys")))
        return str(token)

    async def post(
        self, path: str, headers: dict[str, str] | None = None, **fields: str
    ) -> httpx.Response:
        """A form of ours, sent from a page of ours."""
        headers = {"origin": ORIGIN} if headers is None else headers
        return await self.client.post("/dashboard" + path, data=fields, headers=headers)

    async def write(self, path: str, **fields: str) -> httpx.Response:
        """The same with the session's CSRF token."""
        return await self.post(path, csrf=await self.csrf(), **fields)

    async def text(self, path: str, **query: Any) -> str:
        return (await self.get(path, **query)).text

    async def text_after(self, redirect: httpx.Response) -> str:
        return (await self.client.get(redirect.headers["location"])).text

    async def credits(self) -> int:
        return (await self.store.accounts.get(self.account_id)).credits

    async def kept(self, schedule_id: str) -> Schedule:
        return await self.store.schedules.get(self.account_id, schedule_id)

    async def cancel(self, schedule_id: str) -> None:
        await self.store.canceller.cancel(self.account_id, schedule_id)

    async def schedule(
        self, due_in_ms: int = 3_600_000, url: str = URL, body: bytes = b'{"n":1.50}', **fields: Any
    ) -> str:
        due_ms = self.store.clock.now_ms() + due_in_ms
        given = {"headers": {"Authorization": "Bearer s3cret"}} | fields
        request = Request(due_ms, "POST", url, body=body, **given)
        return await self.store.schedules.create(self.account_id, request)

    async def execute(self, status: int = 200, url: str = URL, **outcome: Any) -> str:
        """A schedule that was due, and was answered so."""
        schedule_id = await self.schedule(-1000, url)
        await self.end(status, **outcome)
        return schedule_id

    async def reported(self, status: int = 200) -> str:
        """One that ended, and whose callback was delivered, or had this answer."""
        schedule_id = await self.schedule(-1000, callback=Callback("https://example.com/ended"))
        await self.end(200)
        await self.end_callback(status)
        return schedule_id

    async def end(
        self,
        status: int,
        message: str = "Service Unavailable",
        *,
        again_in_ms: int | None = None,
        late_ms: int = 0,
        **outcome: Any,
    ) -> None:
        """How the attempt at what is due now ended."""
        shard = int(self.account_id.split("_")[1])
        batch = await self.store.claims.claim(shard, lease_ms=15_000, most=10)
        kind = Status.COMPLETED if status == 200 else Status.FAILED
        told = Outcome(kind, status, 12, "" if status == 200 else message, **outcome)
        again_ms = None if again_in_ms is None else self.store.clock.now_ms() + again_in_ms
        await self.store.ends.ack(shard, [Ack(batch.invocations[0], told, late_ms, again_ms)])

    async def end_callback(self, status: int, *, again_in_ms: int | None = None) -> None:
        """How the attempt at the callback that is due now ended."""
        shard = int(self.account_id.split("_")[1])
        [attempt] = (await self.store.claims.claim(shard, lease_ms=15_000, most=10)).invocations
        assert attempt.is_callback
        kind = Status.COMPLETED if status == 200 else Status.FAILED
        said = Outcome(kind, status, 12, "" if status == 200 else "Bad Gateway")
        again_ms = None if again_in_ms is None else self.store.clock.now_ms() + again_in_ms
        await self.store.callbacks.ack(shard, [CallbackAck(attempt, said, again_ms)])


class Dashboard:
    """The app over a real Valkey, and its viewer."""

    def __init__(self, app: Litestar, store: Store) -> None:
        self.app = app
        self.store = store
        self.browsers: list[Browser] = []

    def browser(self, account: Account | None = None, address: str = "127.0.0.1") -> Browser:
        self.browsers.append(Browser(self.app, self.store, account, address))
        return self.browsers[-1]

    async def account(self, name: str, **fields: Any) -> Account:
        given = {"credits": 100, "plan": Plan.FREE} | fields
        return await self.store.accounts.create(name, **given)

    async def signed_in(self, account: Account) -> Browser:
        """A browser that followed a link of this account, and pressed its button."""
        link = await self.store.sessions.make_link(account.account_id)
        browser = self.browser(account)
        assert (await browser.post(f"/link/{link}")).status_code == 303
        return browser

    async def member(self, account: Account, email: str, role: Role = Role.OWN) -> Browser:
        """The browser of somebody who has just accepted an invitation."""
        link = await self.store.members.invite(account.account_id, email, role, "us")
        browser, password = self.browser(account), {"password": PASSWORD, "again": PASSWORD}
        assert (await browser.post(f"/link/{link}", **password)).status_code == 303
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


@pytest.fixture
async def boss(dashboard: Dashboard) -> Browser:
    """An operator's, signed in."""
    return await dashboard.signed_in(await dashboard.account("boss", operator=True))
