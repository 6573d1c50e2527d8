"""An API with the door over a real store, and an account in it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar

from api.qstash.app import create_door
from scheduler.models import Plan, Request, Schedule
from scheduler.qstash.names import schedule_id
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from tests.support.apps import app_of
from tests.support.servers import ValkeyProcess

URL = "https://example.com/hook"


class Door(msgspec.Struct, frozen=True):
    """The app with its store, one account in it, and a client that carries its key as a token."""

    app: Litestar
    store: Store
    account_id: str
    key: str
    client: httpx.AsyncClient

    async def send(self, path: str, body: bytes = b"", **headers: str) -> httpx.Response:
        """POST below /qstash/v2. Each `a_b` of the headers is `Upstash-A-B`."""
        named = {f"upstash-{name.replace('_', '-')}": text for name, text in headers.items()}
        return await self.client.post(f"/qstash/v2/{path}", content=body, headers=named)

    async def publish(
        self, url: str = URL, body: bytes = b"hello", **headers: str
    ) -> httpx.Response:
        return await self.send(f"publish/{url}", body, **headers)

    async def message(self, answer: httpx.Response | dict[str, Any]) -> Schedule:
        """The schedule of an answer's message."""
        if isinstance(answer, httpx.Response):
            assert answer.status_code == 200, answer.text
            answer = answer.json()
        found = schedule_id(answer["messageId"])
        assert found is not None
        return await self.store.schedules.get(self.account_id, found)

    async def request(self, answer: httpx.Response | dict[str, Any]) -> Request:
        return (await self.message(answer)).request

    async def credits(self) -> int:
        return (await self.store.accounts.get(self.account_id)).credits


def client_of(app: Litestar, key: str | None) -> httpx.AsyncClient:
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=transport, base_url="http://api", headers=headers)


async def door_of(
    app: Litestar, store: Store, credits: int = 2000, plan: Plan = Plan.UNLIMITED
) -> Door:
    """With a new account, whose client the caller need not close: it has no connection."""
    account = await store.accounts.create(os.urandom(8).hex(), credits=credits, plan=plan)
    _, key = await store.api_keys.create(account.account_id, "test")
    return Door(app, store, account.account_id, key, client_of(app, key))


@pytest.fixture
def settings(valkey: ValkeyProcess) -> Settings:
    return Settings(redis_url=valkey.url, shards=4, qstash="on")


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Store]:
    store = await Store.open(settings)
    yield store
    await store.aclose()


@pytest.fixture
async def door(settings: Settings, store: Store) -> Door:
    return await door_of(app_of(settings, store, create_door), store)
