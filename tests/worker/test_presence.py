"""Which shards a worker has to itself."""

from __future__ import annotations

import itertools
from typing import Any

from tests.worker.desk import ScriptedStore
from worker.presence import Presence, preferred_shards

SHARDS = 64
WORKERS = ["a", "b", "c"]


def told() -> dict[str, Any]:
    return {}


def test_each_shard_is_preferred_by_one_worker_and_each_has_its_share() -> None:
    shares = [preferred_shards(each, WORKERS, SHARDS) for each in WORKERS]
    assert sorted(itertools.chain(*shares)) == list(range(SHARDS))
    assert min(map(len, shares)) > SHARDS / 6


async def test_shards_come_and_go_with_the_workers_that_are_alive() -> None:
    store = ScriptedStore(dict.fromkeys(range(SHARDS), 0))
    presence = Presence(store.as_store, "a", told)
    assert presence.shards == frozenset()
    store.alive = ["b"]
    await presence.beat()
    assert presence.shards == set(preferred_shards("a", ["a", "b"], SHARDS))
    store.alive = []
    await presence.beat()
    assert presence.shards == set(range(SHARDS))


async def test_who_lacks_a_key_leaves_all_shards_to_those_who_lack_none() -> None:
    store = ScriptedStore(dict.fromkeys(range(SHARDS), 0))
    presence = Presence(store.as_store, "a", told)
    store.alive = ["b", "c"]
    store.others_say["c"] = {"lacksAKey": True}
    await presence.beat()
    assert presence.shards == set(preferred_shards("a", ["a", "b"], SHARDS))
    store.sealing_keys.missing = frozenset({"k"})
    await presence.beat()
    assert (presence.shards, presence.yields) == (frozenset(), True)
    # If no worker has all keys, readable schedules go out as ever.
    store.others_say["b"] = {"lacksAKey": True}
    await presence.beat()
    assert presence.shards == set(preferred_shards("a", ["a", "b", "c"], SHARDS))
    assert not presence.yields
    store.sealing_keys.missing = frozenset()
    await presence.beat()
    assert presence.shards == set(range(SHARDS))


async def test_shards_that_are_added_while_it_runs_are_its_own_with_the_next_beat() -> None:
    store = ScriptedStore(dict.fromkeys(range(4), 0))
    presence = Presence(store.as_store, "a", told)
    await presence.beat()
    assert presence.shards == set(range(4))
    store.now_count = 9
    await presence.beat()
    assert presence.shards == set(range(9))
