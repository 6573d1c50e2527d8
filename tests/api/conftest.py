"""An API over a real Valkey, and a client that speaks to it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar

from scheduler.models import Account, Invocation, Outcome, Plan
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.store.lifecycle.end_rows import Ack
from tests.apps import app_of
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

    @property
    def account_id(self) -> str:
        return self.account.account_id

    async def listed(self, **query: Any) -> list[dict[str, Any]]:
        """Every waiting schedule that the query finds, page by page."""
        found: list[dict[str, Any]] = []
        while True:
            answer = await self.client.get("/schedule", params=query)
            assert answer.status_code == 200, answer.text
            found += answer.json()["schedules"]
            query["cursor"] = answer.json()["nextCursor"]
            if query["cursor"] is None:
                return found

    async def create_id(self, **fields: Any) -> str:
        answer = await self.create(**fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["scheduleId"])

    async def claim(self) -> list[Invocation]:
        """What a worker would have by now: all that is due."""
        shard = int(self.account_id.split("_")[1])
        batch = await self.store.claims.claim(shard, lease_ms=15_000, most=100)
        return batch.invocations

    async def execute(self, outcome: Outcome) -> None:
        """Ends all that is due, this way."""
        held = await self.claim()
        acks = [Ack(invocation, outcome, 0) for invocation in held]
        await self.store.ends.ack(held[0].shard, acks)

    async def holds(self, *, credits: int, waiting: set[str]) -> None:
        """Asserts the whole state after an act: the ledger, the list, every invariant."""
        assert await self.credits() == credits
        assert {each["scheduleId"] for each in await self.listed()} == waiting
        assert await self.store.check() == []

    async def create(self, **fields: Any) -> httpx.Response:
        return await self.client.post("/schedule", json=payload(**fields))


def payload(**fields: Any) -> dict[str, Any]:
    """A valid payload, due in an hour, with these fields changed."""
    due = datetime.now(UTC) + timedelta(hours=1)
    return {"targetUrl": URL, "triggerAt": due.isoformat(), **fields}


def past() -> str:
    """A triggerAt that is due at once."""
    return (datetime.now(UTC) - timedelta(seconds=1)).isoformat()


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
    _, key = await store.api_keys.create(account.account_id, "test")
    app = app_of(settings, store)
    async with client_of(app, key) as client:
        yield Api(app, store, account, key, client)


@pytest.fixture
async def key(valkey_server: ValkeyProcess) -> str:
    """A key of an account of its own, with 10 credits."""
    store = await Store.open(Settings(redis_url=valkey_server.url))
    try:
        account = await store.accounts.create(os.urandom(8).hex(), credits=10, plan=Plan.UNLIMITED)
        return (await store.api_keys.create(account.account_id, "test"))[1]
    finally:
        await store.aclose()
