"""A store has an id, by which a process knows that it is still the one that it opened."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from scheduler.errors import StoreReplaced
from scheduler.store import Store, keys
from scheduler.store.operators.heartbeats import STORE_ID
from tests.support.plain import redis_of

LOGGED = "the store is not the one that was opened"
BACK = "the store is the one that was opened again"
EMPTIED = "The store was emptied since this process opened it"
REPLACED = "The store is another one than this process opened"


async def look(store: Store) -> list[str]:
    """Log lines when a process checks the id of its store."""
    store.shards._ask_again_at = 0.0
    with capture_logs() as logged:
        assert await store.shards.newest() == 2
    return [str(each["event"]) for each in logged]


async def test_a_store_that_was_emptied_is_reported_and_not_set_up_again(
    valkey_store: Store,
) -> None:
    assert await look(valkey_store) == []
    await redis_of(valkey_store).execute_command("FLUSHALL")
    assert await look(valkey_store) == [LOGGED]
    assert await look(valkey_store) == [], "again in a minute"
    assert valkey_store.shards.replaced == EMPTIED
    with pytest.raises(StoreReplaced, match=EMPTIED):
        await valkey_store.ping()
    assert not await redis_of(valkey_store).exists(keys.META)


async def test_another_store_is_reported_until_the_right_one_is_back(valkey_store: Store) -> None:
    ours = await redis_of(valkey_store).hgetall(keys.META)
    await redis_of(valkey_store).hset(keys.META, "id", "another")
    await redis_of(valkey_store).hset(keys.META, "shards", 40)
    assert await look(valkey_store) == [LOGGED]
    assert valkey_store.shards.replaced == REPLACED
    for name, value in ours.items():
        await redis_of(valkey_store).hset(keys.META, name, value)
    assert await look(valkey_store) == [BACK]
    await valkey_store.ping()


async def test_check_names_each_process_that_opened_another_store(valkey_store: Store) -> None:
    await valkey_store.apis.beat("one", {STORE_ID: valkey_store.shards.store_id})
    await valkey_store.apis.beat("two", {STORE_ID: "another"})
    assert await valkey_store.check() == [
        "two runs on this store, but opened another one: this one was emptied or replaced under it"
    ]
