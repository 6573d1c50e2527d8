"""A shard whose slot moves to another node key by key: while its data is not whole, no script runs
on it, and none does half of what it should."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from redis.asyncio import Redis, RedisCluster

from scheduler.errors import StoreUnavailable
from scheduler.models import Idempotency, Plan, Request
from scheduler.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.server import Script
from tests.scheduler.clocks import ServerClock
from tests.scheduler.scene import (
    CREDITS,
    URL,
    Scene,
    ids_of,
    settled,
)
from tests.servers import ValkeyProcess, free_port, until_async

SLOTS = 16_384
SHARDS = 4
# They are given a key of its own, not the prefix of many.
_OF_ONE_KEY = {
    "touch",
    "accounts/attempt",
    "accounts/free",
    "accounts/set",
    "accounts/unset",
    "operators/heartbeat",
    "raise_shards",
}
SCRIPTS = sorted(
    str(path.relative_to(Path(keys.__file__).parent).with_suffix(""))
    for path in Path(keys.__file__).parent.rglob("*.lua")
    if not path.name.endswith(".inc.lua")
)


class Node(NamedTuple):
    process: ValkeyProcess
    client: Redis
    node_id: str
    port: int


@pytest.fixture(scope="module")
def processes(store_server: str) -> Iterator[list[ValkeyProcess]]:
    """Two servers in cluster mode that do not know each other yet."""
    with ExitStack() as stack:
        options = [{"cluster-enabled": "yes", "cluster-port": free_port()} for _ in range(2)]
        yield [
            stack.enter_context(ValkeyProcess(port=free_port(), options=each)) for each in options
        ]


@pytest.fixture
async def nodes(processes: list[ValkeyProcess]) -> AsyncIterator[list[Node]]:
    """A cluster of two that agree, with nothing in it; each has half of the slots."""
    found = [await _node(each) for each in processes]
    first, second = found
    if (await _info(first))["cluster_known_nodes"] == "1":
        await first.client.execute_command("CLUSTER ADDSLOTSRANGE", 0, SLOTS // 2 - 1)
        await second.client.execute_command("CLUSTER ADDSLOTSRANGE", SLOTS // 2, SLOTS - 1)
        bus = int(str(first.process.options["cluster-port"]))
        await second.client.execute_command("CLUSTER MEET", "127.0.0.1", first.port, bus)
    await until_async(lambda: _agree(found), "the nodes to agree")
    for node in found:
        await node.client.flushall()
    yield found
    for node in found:
        await node.client.aclose()


@pytest.fixture
async def store(nodes: list[Node], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    # The client tries sixteen times, with pauses.
    monkeypatch.setattr(RedisCluster, "RedisClusterRequestTTL", 4)
    url = f"redis+cluster://127.0.0.1:{nodes[0].port}"
    opened = await Store.open(Settings(redis_url=url, shards=SHARDS))
    yield opened
    await opened.aclose()


@pytest.fixture
async def scenes(store: Store) -> list[Scene]:
    """An account in each shard, with something of every kind; the first shard is to move."""
    made = []
    for n in range(SHARDS):
        account = await store.accounts.create(f"account {n}", credits=CREDITS, plan=Plan.FREE)
        scene = Scene(store, ServerClock(store), account.account_id)
        await scene.run()
        await scene.create(60_000)
        await scene.create(-5000)
        made.append(scene)
    return sorted(made, key=lambda scene: scene.shard)


class Move:
    """One slot's way from one node to the other."""

    def __init__(self, slot: int, source: Node, target: Node) -> None:
        self.slot, self.source, self.target = slot, source, target

    async def begin(self) -> None:
        setslot = ("CLUSTER SETSLOT", self.slot)
        await self.target.client.execute_command(*setslot, "IMPORTING", self.source.node_id)
        await self.source.client.execute_command(*setslot, "MIGRATING", self.target.node_id)

    async def keys(self) -> list[bytes]:
        """Those that are still to be moved."""
        command = ("CLUSTER GETKEYSINSLOT", self.slot, 10_000)
        return await self.source.client.execute_command(*command)  # type: ignore[no-any-return]

    async def move(self, names: list[bytes]) -> None:
        to = ("127.0.0.1", self.target.port, "", 0, 5000)
        if names:
            await self.source.client.execute_command("MIGRATE", *to, "KEYS", *names)

    async def end(self) -> None:
        await self.move(await self.keys())
        for node in (self.target, self.source):
            setslot = ("CLUSTER SETSLOT", self.slot, "NODE", self.target.node_id)
            await node.client.execute_command(*setslot)

    async def everything(self) -> dict[bytes, bytes]:
        """All that either node has in the slot, as it would be restored."""
        found = {}
        for node in (self.source, self.target):
            command = ("CLUSTER GETKEYSINSLOT", self.slot, 10_000)
            for name in await node.client.execute_command(*command):
                await node.client.execute_command("ASKING")
                found[name] = await node.client.dump(name)
        return found


@pytest.fixture
async def move(nodes: list[Node], scenes: list[Scene]) -> AsyncIterator[Move]:
    """The first shard's; it ends with the test."""
    slot = keys.slot(keys.tag(scenes[0].shard))
    counts = [await node.client.execute_command("CLUSTER COUNTKEYSINSLOT", slot) for node in nodes]
    assert 0 in counts
    source, target = nodes if counts[0] else nodes[::-1]
    moving = Move(slot, source, target)
    yield moving
    await moving.end()


@pytest.mark.parametrize("part", [0, 0.5, 1], ids=["none", "half", "all"])
async def test_no_script_runs_while_its_shard_moves(
    scenes: list[Scene], move: Move, part: float
) -> None:
    """However many of its keys have been moved already."""
    moving, *others = scenes
    await move.begin()
    names = sorted(await move.keys())
    await move.move(names[: int(len(names) * part)])
    before = await move.everything()
    assert len(before) == len(names)

    async def run(path: str, prefix: str) -> None:
        result = await settled(lambda: moving.store.server.run(Script(path), prefix, ["1"]))
        assert type(result) is StoreUnavailable, (path, result)

    for path in SCRIPTS:
        if path not in _OF_ONE_KEY:
            await run(path, keys.shard(moving.shard))
            await run(path, moving.base)
    assert await move.everything() == before
    for scene in others:
        await serves(scene)
    await move.end()
    await serves(moving)
    await moving.assert_sound()


async def test_what_is_asked_of_a_moving_shard_is_unavailable_and_changes_nothing(
    scenes: list[Scene], move: Move
) -> None:
    """In the store's own words: all that an API and a worker ask for, but what is read key by key
    and found on either node."""
    scene, store = scenes[0], scenes[0].store
    account_id, schedules, claims = scene.account_id, store.schedules, store.claims
    waiting = (await scene.log(status="scheduled"))[0].schedule_id
    [invocation] = await scene.claim()
    _, key = await store.api_keys.create(account_id, "key")
    request = Request(await scene.clock.now_ms() + 60_000, "GET", URL)
    await move.begin()
    names = sorted(await move.keys())
    await move.move(names[::2])
    before = await move.everything()
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: schedules.create(account_id, request),
        lambda: schedules.create_all(account_id, [request] * 3, Idempotency("key", "asked")),
        lambda: store.canceller.cancel(account_id, waiting),
        lambda: schedules.change(account_id, waiting, lambda _: request),
        lambda: claims.claim(scene.shard, lease_ms=1000, most=10),
        lambda: claims.extend(scene.shard, 15_000, [invocation]),
        lambda: claims.release(scene.shard, [invocation]),
        lambda: scene.ack([invocation]),
        lambda: claims.realign(scene.shard),
        lambda: store.overview.pulse(account_id),
        lambda: store.accounts.grant(account_id, 5),
        lambda: store.api_keys.create(account_id, "another"),
        lambda: store.api_keys.admit(key),
        lambda: store.sessions.open(account_id),
    ]
    for call in calls:
        assert type(await settled(call)) is StoreUnavailable
    assert await move.everything() == before
    await move.end()
    assert await scene.ack([invocation]) == [1]
    await calls[0]()
    await scene.assert_sound()


async def _node(process: ValkeyProcess) -> Node:
    client = Redis.from_url(process.url)
    assert process.tcp_url is not None
    port = int(process.tcp_url.rpartition(":")[2].partition("/")[0])
    return Node(process, client, (await client.execute_command("CLUSTER MYID")).decode(), port)


async def _info(node: Node) -> dict[str, str]:
    return await node.client.cluster("INFO")  # type: ignore[no-untyped-call,no-any-return]


async def _agree(nodes: list[Node]) -> bool:
    """Whether they know each other, and who has which slot."""
    infos = [await _info(node) for node in nodes]
    owners = [_owners(await node.client.execute_command("CLUSTER SLOTS")) for node in nodes]
    return owners[0] == owners[1] and all(
        (each["cluster_state"], each["cluster_known_nodes"]) == ("ok", str(len(nodes)))
        for each in infos
    )


def _owners(slots: list[Any]) -> list[tuple[int, int, bytes]]:
    return sorted((first, last, primary[2]) for first, last, primary, *_ in slots)


async def serves(scene: Scene) -> None:
    """Whatever was due is fired, and one more."""
    schedule_id = await scene.create()
    claimed = await scene.claim()
    assert schedule_id in ids_of(claimed)
    assert await scene.ack(claimed) == [1] * len(claimed)
