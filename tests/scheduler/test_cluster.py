"""Redis Cluster: the same keys and scripts, spread over three nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest
from redis.asyncio import Redis

from scheduler.models import Plan
from scheduler.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.accounts.sessions import Purpose
from scheduler.store.log.logs import LogQuery
from tests.scheduler.clocks import ServerClock
from tests.scheduler.scene import (
    COMPLETED,
    LAST_HOUR,
    Scene,
    until_now,
)
from tests.servers import ValkeyProcess, free_port, until_async

NODES, SLOTS = 3, 16_384
SHARDS = 6


@pytest.fixture(scope="module")
def nodes(store_server: str) -> Iterator[list[ValkeyProcess]]:
    """Three servers in cluster mode that do not know each other yet."""
    with ExitStack() as stack:
        yield [stack.enter_context(_node()) for _ in range(NODES)]


@pytest.fixture
async def cluster_url(nodes: list[ValkeyProcess]) -> str:
    """The cluster, met and agreed upon."""
    clients = [Redis.from_url(node.url) for node in nodes]
    if (await clients[0].cluster("INFO"))["cluster_state"] != "ok":  # type: ignore[no-untyped-call]
        for n, client in enumerate(clients):
            first, last = n * SLOTS // NODES, (n + 1) * SLOTS // NODES - 1
            await client.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
            if n:
                meet = ("CLUSTER MEET", "127.0.0.1", _port(nodes[0]), _bus_port(nodes[0]))
                await client.execute_command(*meet)

    async def agreed() -> bool:
        infos = [await client.cluster("INFO") for client in clients]  # type: ignore[no-untyped-call]
        return all(
            each["cluster_state"] == "ok" and each["cluster_known_nodes"] == str(NODES)
            for each in infos
        )

    await until_async(agreed, "the cluster's nodes to agree")
    for client in clients:
        await client.flushall()
        await client.aclose()
    return f"redis+cluster://127.0.0.1:{_port(nodes[0])}"


@pytest.fixture
async def cluster(cluster_url: str) -> AsyncIterator[Store]:
    store = await Store.open(Settings(redis_url=cluster_url, shards=SHARDS))
    yield store
    await store.aclose()


async def test_accounts_on_every_node_run_and_balance(cluster: Store) -> None:
    accounts = [
        await cluster.accounts.create(f"account {n}", credits=50, plan=Plan.FREE)
        for n in range(SHARDS)
    ]
    scenes = [Scene(cluster, ServerClock(cluster), each.account_id) for each in accounts]
    assert len({keys.slot(keys.tag(scene.shard)) * NODES // SLOTS for scene in scenes}) == NODES
    for scene in scenes:
        await scene.run()
    await asyncio.gather(*(scene.create() for scene in scenes for _ in range(20)))
    looks = await cluster.claims.look(range(SHARDS))
    assert all(look.next_look_ms is not None for look in looks.values())
    for scene in scenes:
        claimed = await scene.claim(most=10)
        assert await scene.ack(claimed, COMPLETED) == [1] * 10
        waiting = await scene.log(status="scheduled")
        await cluster.canceller.cancel(scene.account_id, waiting[0].schedule_id)
        assert await cluster.accounts.credits(scene.account_id) == 50 - 20
        page = await cluster.logs.page(scene.account_id, LogQuery(url=waiting[0].url, limit=5))
        assert len(page.entries) == 5
        _, key = await cluster.api_keys.create(scene.account_id, "key")
        caller = await cluster.api_keys.admit(key)
        assert caller is not None
        assert caller.account_id == scene.account_id
        await scene.assert_sound()
    assert len(await cluster.accounts.list_accounts()) == SHARDS
    [heard] = await cluster.workers.beat("one", {"pid": 1})
    assert heard.process_id == "one"
    await cluster.ping()
    assert cluster.uptime_s >= 0


async def test_the_dashboard_reads_and_signs_in_on_every_node(cluster: Store) -> None:
    for n in range(SHARDS):
        email = f"holder{n}@example.com"
        account = await cluster.accounts.create(
            f"account {n}", credits=50, plan=Plan.FREE, email=email
        )
        scene = Scene(cluster, ServerClock(cluster), account.account_id)
        await scene.run()
        await scene.create(60_000)
        link = await cluster.sessions.make_link(scene.account_id, Purpose.SET_PASSWORD)
        opened = await cluster.sessions.redeem(link, Purpose.SET_PASSWORD, "hash")
        assert opened is not None
        assert await cluster.sessions.find(opened.secret) == opened.session
        assert await cluster.users.attempt(email, "10.0.0.1") == 0
        holder = await cluster.users.find(email)
        assert holder is not None
        assert (holder.account_id, holder.password) == (scene.account_id, "hash")
        await cluster.sessions.close_all(scene.account_id)
        pulse = await cluster.overview.pulse(scene.account_id)
        series = await until_now(cluster, scene.account_id, LAST_HOUR)
        assert (pulse.waiting, series.completed) == (1, 1)
        [today] = await cluster.ledger.movements(scene.account_id)
        assert (today.granted, today.spent) == (50, 2)
    assert len(await cluster.system.shards()) == SHARDS
    servers = await cluster.system.servers()
    assert len({server.name for server in servers}) == NODES
    assert all(server.used_bytes > 0 for server in servers)
    assert await cluster.check() == []


async def test_a_name_without_its_account_is_seen_on_any_node(cluster: Store) -> None:
    for n in range(9):
        name = keys.NAME + f"ghost {n}"
        await cluster.server.call("SET", name, f"acc_0{n % SHARDS}_00000000")
    assert len(await cluster.check()) == 9


def _node() -> ValkeyProcess:
    options = {"cluster-enabled": "yes", "cluster-port": free_port()}
    return ValkeyProcess(port=free_port(), options=options)


def _bus_port(node: ValkeyProcess) -> int:
    return int(str(node.options["cluster-port"]))


def _port(node: ValkeyProcess) -> int:
    assert node.tcp_url is not None
    return int(node.tcp_url.rpartition(":")[2].partition("/")[0])
