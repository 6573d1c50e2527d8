"""Stores that have keys, on one server."""

from __future__ import annotations

from scheduler.models import Plan, Request
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from tests.support.plain import redis_of

OLD, NEW, OTHER = (letter * 32 for letter in (b"o", b"n", b"x"))
REQUEST = Request(
    2**41,
    "POST",
    "https://example.com/hook",
    {"Authorization": "Bearer hush"},
    b'{"iban":"DE12"}',
    reference="in-clear",
    labels=("sealed label",),
    door=b"sealed door",
)


class Stores:
    """Opens stores on one server, with keys."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.shards = 1
        self.opened: list[Store] = []

    async def open(self, *secret_keys: bytes) -> Store:
        settings = Settings(redis_url=self.url, shards=self.shards, secret_key=secret_keys)
        store = await Store.open(settings)
        self.opened.append(store)
        return store


async def account_of(store: Store) -> str:
    return (await store.accounts.create("one", credits=9, plan=Plan.FREE)).account_id


async def everything(store: Store) -> bytes:
    """All that the server holds, as it would write it to disk."""
    names = sorted(await redis_of(store).keys("*"))
    return b"".join([await redis_of(store).dump(name) or b"" for name in names])
