"""An API over a real Valkey, and a client that speaks to it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar

from api.app import create_app
from scheduler.models import Account, Plan
from scheduler.settings import Settings
from scheduler.store import Store
from tests.servers import ValkeyProcess

CREDITS = 1000
URL = "https://example.com/hook"


class Api(msgspec.Struct, frozen=True):
    """The app with its store, one account in it, and a client that carries its key."""

    app: Litestar
    store: Store
    account: Account
    key: str
    client: httpx.AsyncClient

    async def credits(self) -> int:
        return await self.store.accounts.credits(self.account.account_id)

    async def create(self, **fields: Any) -> httpx.Response:
        return await self.client.post("/schedule", json=payload(**fields))


def payload(**fields: Any) -> dict[str, Any]:
    """A valid payload, due in an hour, with these fields changed."""
    due = datetime.now(UTC) + timedelta(hours=1)
    return {"targetUrl": URL, "triggerAt": due.isoformat(), **fields}


def client_of(app: Litestar, key: str | None = None) -> httpx.AsyncClient:
    """A client whose requests go straight into the app; what the app raises, it raises."""
    headers = {} if key is None else {"x-api-key": key}
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://api", headers=headers)


@pytest.fixture
def settings(valkey: ValkeyProcess) -> Settings:
    return Settings(redis_url=valkey.url, shards=4)


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Store]:
    store = await Store.open(settings)
    yield store
    await store.aclose()


@pytest.fixture
async def api(settings: Settings, store: Store) -> AsyncIterator[Api]:
    account = await store.accounts.create("first", credits=CREDITS, plan=Plan.UNLIMITED)
    _, key = await store.accounts.create_key(account.account_id, "test")
    app = create_app(settings, store)
    # No lifespan: all that it does is to open a store, and there is one.
    async with client_of(app, key) as client:
        yield Api(app, store, account, key, client)
