"""A shard whose slot moves to another node key by key: while its data is not whole, no script runs
on it, and none does half of what it should."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis import Redis
from redis.asyncio import RedisCluster

from scheduler.errors import StoreUnavailable
from scheduler.models import Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.server import Script
from tests.store.clocks import ServerClock
from tests.store.scene import CREDITS, Scene, ids_of, settled
from tests.support.cluster import ask, migrate
from tests.support.servers import ValkeyCluster

SHARDS = 4
_KEYS = "CLUSTER GETKEYSINSLOT"
# They are given a key of its own, not the prefix of many.
_OF_ONE_KEY = {
    "touch",
    "accounts/sign_in/attempt",
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


@pytest.fixture
async def store(cluster: ValkeyCluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    # The client tries sixteen times, with pauses.
    monkeypatch.setattr(RedisCluster, "RedisClusterRequestTTL", 4)
    opened = await Store.open(Settings(redis_url=cluster.url, shards=SHARDS))
    yield opened
    await opened.aclose()


async def furnished(store: Store) -> list[Scene]:
    """An account in each shard, with something of every kind."""
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
    """One slot's way from its node to another."""

    def __init__(self, cluster: ValkeyCluster, slot: int) -> None:
        self._cluster, self._slot = cluster, slot
        self._source = cluster.owner(slot)
        self._target = next(each for each in cluster.primaries if each is not self._source)
        self.names: list[bytes] = sorted(ask(self._source, _KEYS, slot, 10_000))

    def begin(self, part: slice) -> None:
        """Moves that part of its keys."""
        self._cluster.begin_move(self._slot, self._target)
        migrate(self._source, self._target, self.names[part])

    def end(self) -> None:
        self._cluster.end_move(self._slot, self._target)

    def everything(self) -> dict[bytes, bytes]:
        """All that either node has in the slot, as it would be restored."""
        found = {}
        for node in (self._source, self._target):
            with Redis.from_url(node.url) as client:
                for name in client.execute_command(_KEYS, self._slot, 10_000):
                    client.execute_command("ASKING")
                    found[name] = client.dump(name)
        return found


@pytest.mark.parametrize(
    "part", [slice(0), slice(None, None, 2), slice(None)], ids=["none", "half", "all"]
)
async def test_no_script_runs_while_its_shard_moves(
    cluster: ValkeyCluster, store: Store, part: slice
) -> None:
    """However many of its keys have been moved already."""
    moving, *others = await furnished(store)
    move = Move(cluster, keys.slot(keys.tag(moving.shard)))
    move.begin(part)
    before = move.everything()
    assert len(before) == len(move.names)

    async def run(path: str, prefix: str) -> None:
        result = await settled(lambda: moving.store.server.run(Script(path), prefix, ["1"]))
        assert (type(result), "on its way" in str(result)) == (StoreUnavailable, True), path

    for path in SCRIPTS:
        if path not in _OF_ONE_KEY:
            await run(path, keys.shard(moving.shard))
            await run(path, moving.base)
    assert move.everything() == before
    for scene in others:
        await serves(scene)
    move.end()
    await serves(moving)
    await moving.assert_sound()


async def serves(scene: Scene) -> None:
    """Whatever was due is fired, and one more."""
    schedule_id = await scene.create()
    claimed = await scene.claim()
    assert schedule_id in ids_of(claimed)
    assert await scene.ack(claimed) == [1] * len(claimed)
