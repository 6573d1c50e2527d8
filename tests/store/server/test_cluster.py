"""Redis Cluster: the same keys and scripts, spread over three nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler.events import Kind
from scheduler.models import Account, Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.log.logs import LogQuery
from tests.store.clocks import ServerClock
from tests.store.scene import COMPLETED, Scene
from tests.support.servers import ValkeyCluster

NODES, SLOTS = 3, 16_384
SHARDS = 6


@pytest.fixture
async def store(cluster: ValkeyCluster) -> AsyncIterator[Store]:
    opened = await Store.open(Settings(redis_url=cluster.url, shards=SHARDS))
    yield opened
    await opened.aclose()


@pytest.fixture
async def accounts(store: Store) -> list[Account]:
    """One in each shard."""
    return [
        await store.accounts.create(f"account {n}", credits=50, plan=Plan.FREE)
        for n in range(SHARDS)
    ]


async def test_accounts_on_every_node_run_and_balance(
    store: Store, accounts: list[Account]
) -> None:
    scenes = [Scene(store, ServerClock(store), each.account_id) for each in accounts]
    assert len({keys.slot(keys.tag(scene.shard)) * NODES // SLOTS for scene in scenes}) == NODES
    for scene in scenes:
        await scene.run()
    await asyncio.gather(*(scene.create() for scene in scenes for _ in range(20)))
    looks = await store.claims.look(range(SHARDS))
    assert all(look.next_look_ms is not None for look in looks.values())
    for scene in scenes:
        claimed = await scene.claim(most=10)
        assert await scene.ack(claimed, COMPLETED) == [1] * 10
        waiting = await scene.log(statuses=["scheduled"])
        await store.canceller.cancel(scene.account_id, waiting[0].schedule_id)
        assert (await store.accounts.get(scene.account_id)).credits == 50 - 20
        page = await store.logs.page(scene.account_id, LogQuery(url=waiting[0].url, limit=5))
        assert len(page.entries) == 5
        _, key = await store.api_keys.create(scene.account_id, "key")
        caller = await store.api_keys.admit(key)
        assert caller.account_id == scene.account_id
        await scene.assert_sound()
    assert len((await store.accounts.some())[0]) == SHARDS


async def test_events_of_the_service_and_of_accounts_are_noted_and_read_over_all_nodes(
    store: Store, accounts: list[Account]
) -> None:
    says = {"host": "box", "pid": 7, "version": "1.0"}
    await store.workers.beat("a", says)
    await store.workers.leave("a")
    async with store.events.act(Kind.HOLD, who="ann") as noted:
        await store.hold.begin()
    assert not noted.lost
    for account in accounts:
        await store.changes.suspend(account.account_id)
        assert await store.events.note(account.account_id, Kind.BULK, about="36 run again")
        page = await store.events.page(lambda _: True, limit=10, account_id=account.account_id)
        own = [Kind.BULK, Kind.ACCOUNT_SUSPENDED]
        service = [Kind.HOLD, Kind.WORKER_STOPPED, Kind.WORKER_STARTED]
        # Those of one millisecond stand in the order of their streams.
        assert sorted(each.kind for each in page.events) == sorted(own + service)
    assert await store.check() == []


async def test_operators_see_all_nodes(store: Store, accounts: list[Account]) -> None:
    made = [await Scene(store, ServerClock(store), a.account_id).create(60_000) for a in accounts]
    assert [await store.owners.find(each) for each in made] == [a.account_id for a in accounts]
    look = await store.roster.look(5000)
    assert [(row.name, row.waiting) for row in look.rows] == [(a.name, 1) for a in accounts]
    await store.filling.note()
    history = await store.filling.history()
    assert sorted(history) == [each.name for each in await store.system.servers()]
    assert len(history) == NODES
    since_ms = await store.hold.begin()
    held = await store.hold.look()
    assert (held.latest_ms, held.on_hold) == (since_ms, SHARDS)
    await store.hold.end(since_ms)
    assert (await store.hold.look()).on_hold == 0
