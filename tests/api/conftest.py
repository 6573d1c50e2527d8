"""An API over a real Valkey, and a client that speaks to it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import pytest
from litestar import Litestar

from scheduler.models import Account, Invocation, Outcome, Plan, Request
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.lifecycle.end.end_rows import Ack
from tests.api.process import ApiProcess, serving
from tests.support.apps import app_of
from tests.support.servers import Customer, Deployment, ValkeyProcess

CREDITS = 1000
URL = "https://example.com/hook"
# Its dates are ahead whenever the tests run, and within the horizon.
YEAR = datetime.now(UTC).year + 2
NEW_YEAR = f"{YEAR}-01-01T00:00:00.000Z"


class Api(msgspec.Struct, frozen=True):
    """The app with its store, one account in it, and a client that carries its key."""

    app: Litestar
    store: Store
    account: Account
    key: str
    client: httpx.AsyncClient

    async def credits(self) -> int:
        return (await self.store.accounts.get(self.account.account_id)).credits

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

    async def stored(self, schedule_id: str) -> Request:
        return (await self.store.schedules.get(self.account_id, schedule_id)).request

    async def read(self, schedule_id: str) -> dict[str, Any]:
        """What a GET says of it."""
        answer = await self.client.get(f"/schedule/{schedule_id}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def create_id(self, **fields: Any) -> str:
        answer = await self.create(**fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["scheduleId"])

    async def claim(self) -> list[Invocation]:
        """Claims all due schedules, as a worker would."""
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

    @asynccontextmanager
    async def another(
        self, credits: int = 5, plan: Plan = Plan.UNLIMITED, app: Litestar | None = None
    ) -> AsyncIterator[Api]:
        """The same with another account, and another app over the same store if one is given."""
        async with api_of(app or self.app, self.store, credits, plan) as other:
            yield other


@asynccontextmanager
async def api_of(app: Litestar, store: Store, credits: int, plan: Plan) -> AsyncIterator[Api]:
    """An app, and a new account in its store."""
    account = await store.accounts.create(os.urandom(8).hex(), credits=credits, plan=plan)
    _, key = await store.api_keys.create(account.account_id, "test")
    async with client_of(app, key) as client:
        yield Api(app, store, account, key, client)


def bad_fields(answer: httpx.Response) -> list[str]:
    """The fields that a 400 names."""
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]
    return [detail["field"] for detail in answer.json()["details"]]


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
    async with api_of(app_of(settings, store), store, CREDITS, Plan.UNLIMITED) as made:
        yield made


@pytest.fixture
async def key(valkey_server: ValkeyProcess) -> str:
    """A key of an account of its own, with 10 credits."""
    async with aclosing(await Store.open(Settings(redis_url=valkey_server.url))) as store:
        account = await store.accounts.create(os.urandom(8).hex(), credits=10, plan=Plan.UNLIMITED)
        return (await store.api_keys.create(account.account_id, "test"))[1]


@pytest.fixture(scope="module")
def server(valkey_server: ValkeyProcess) -> Iterator[ApiProcess]:
    """A process of the module's own, which has nothing to log."""
    valkey_server.flush()
    with serving(valkey_server.url) as process:
        yield process
        assert process.said() == ""


@pytest.fixture(scope="module")
def customer(valkey_server: ValkeyProcess) -> Iterator[Customer]:
    """Of a real API."""
    valkey_server.flush()
    with Deployment(valkey_server) as postdate:
        postdate.api()
        yield postdate.customer()
