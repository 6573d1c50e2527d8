"""How commands find the node that has their slot: one that has moved, that moves, that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.crc import key_slot
from redis.exceptions import MovedError, RedisError

from scheduler.errors import StoreError, StoreUnavailable
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from tests.support.cluster import ask, id_of
from tests.support.servers import DEADLINE_S, ValkeyCluster, ValkeyProcess, until_async

SHARDS = 2


@pytest.fixture
async def store(cluster: ValkeyCluster) -> AsyncIterator[Store]:
    opened = await Store.open(Settings(redis_url=cluster.url, shards=SHARDS))
    yield opened
    await opened.aclose()


def where(cluster: ValkeyCluster, shard: int) -> tuple[int, ValkeyProcess, ValkeyProcess]:
    """A shard's slot, the node that has it, and another one."""
    slot = keys.slot(keys.tag(shard))
    source = cluster.owner(slot)
    other = next(node for node in cluster.primaries if node is not source)
    return slot, source, other


async def is_read(store: Store, shard: int) -> bool:
    try:
        return await store.server.reads([("GET", keys.shard(shard) + "x")]) == [None]
    except StoreError:
        return False


def sends_elsewhere(node: ValkeyProcess, shard: int) -> bool:
    try:
        ask(node, "GET", keys.shard(shard) + "x")
    except RedisError as error:
        return isinstance(error, MovedError)
    return False


async def test_half_a_shard_is_read_key_by_key_and_not_at_one_moment(
    cluster: ValkeyCluster, store: Store
) -> None:
    """Those of its keys that have moved ahead of the slot are found."""
    slot, _, other = where(cluster, 1)
    names = [f"{keys.shard(1)}{n}" for n in range(4)]
    for name in names:
        await store.server.call("SET", name, name)
    commands, expected = [("GET", name) for name in names], [name.encode() for name in names]
    cluster.begin_move(slot, other)
    assert cluster.move_keys(slot, other, 2) == 2
    with pytest.raises(StoreUnavailable):
        await store.server.reads(commands, at_once=keys.shard(1))
    assert await store.server.reads(commands) == expected
    cluster.end_move(slot, other)
    # The line still leads to where they were.
    assert await store.server.reads(commands, at_once=keys.shard(1)) == expected


async def test_those_of_other_nodes_do_not_wait_for_one_that_hangs(
    cluster: ValkeyCluster, store: Store
) -> None:
    _, source, other = where(cluster, 0)
    there = next(n for n in range(99) if where(cluster, n)[1] is other)
    source.pause()
    try:
        waits = asyncio.create_task(store.server.reads([("GET", keys.shard(0) + "x")]))
        for _ in range(20):
            async with asyncio.timeout(DEADLINE_S):
                assert await store.server.reads([("GET", keys.shard(there) + "x")]) == [None]
            await asyncio.sleep(0.02)
        assert not waits.done()
    finally:
        source.resume()
    assert await waits == [None]


async def test_a_node_that_is_away_hinders_no_start_and_is_used_again(
    cluster: ValkeyCluster, store: Store
) -> None:
    needed = cluster.owner(keys.slot_of(keys.META))
    shard = next(n for n in range(99) if where(cluster, n)[1] is not needed)
    slot, source, _ = where(cluster, shard)
    source.kill()
    with pytest.raises(StoreError):
        await store.server.reads([("GET", keys.shard(shard) + "x")])
    scheme, hosts = cluster.url.split("//")
    for named in (hosts.split(","), hosts.split(",")[::-1]):
        url = f"{scheme}//{','.join(named)}"
        await (await Store.open(Settings(redis_url=url, shards=SHARDS))).aclose()
    source.start()
    await until_async(lambda: is_read(store, shard), "the node to be used")
    assert cluster.owner(slot) is source


async def test_a_slot_whose_node_is_gone_is_found_where_it_is_now(
    cluster: ValkeyCluster, store: Store
) -> None:
    slot, source, other = where(cluster, 1)
    source.kill()
    try:
        for node in cluster.primaries:
            if node is not source:
                ask(node, "CLUSTER", "SETSLOT", slot, "NODE", id_of(other))
        ask(other, "CLUSTER", "BUMPEPOCH")
        await until_async(lambda: is_read(store, 1), "the other node to be used")
    finally:
        source.start()
        await until_async(lambda: sends_elsewhere(source, 1), "the nodes to agree")


@pytest.mark.parametrize(
    "key", ["pd:meta", "pd:{a}:x", "pd:{ab}", "{}x", "a{", "a}{b}", "{a}{b}", "x{a}{", "ä{ö}"]
)
def test_a_keys_slot_is_the_servers(key: str) -> None:
    assert keys.slot_of(key) == keys.slot_of(key.encode()) == key_slot(key.encode())
