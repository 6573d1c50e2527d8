"""Which shards have recurring schedules to tend: asked each second by every worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.errors import StoreUnavailable, Unreadable
from scheduler.store import Store, keys
from tests.store.recurring.rules import Rules
from tests.store.scene import Scene
from tests.support.plain import redis_of


async def put_due(store: Store, shard: int, at_ms: int, count: int = 1) -> None:
    due = {f"x:{n}": at_ms for n in range(count)}
    await redis_of(store).zadd(keys.shard(shard) + keys.RULES_DUE, due)


async def test_those_that_are_due_are_counted_but_on_hold(scene: Scene) -> None:
    store, now_ms = scene.store, await scene.clock.now_ms()
    await store.tick()
    await put_due(store, 0, now_ms, count=3)
    await put_due(store, 1, now_ms + 60_000)
    assert await store.recurring.overdue([0, 1]) == {0: 3, 1: 0}
    assert await store.recurring.overdue([1]) == {1: 0}
    assert await store.recurring.overdue([]) == {}
    await store.hold.begin()
    assert await store.recurring.overdue([0, 1]) == {0: 0, 1: 0}
    await store.hold.end()
    assert await store.recurring.overdue([0]) == {0: 3}


async def test_a_damaged_list_is_its_own_shards_fault(scene: Scene) -> None:
    await put_due(scene.store, 0, 1)
    await scene.redis.set(keys.shard(1) + keys.RULES_DUE, "no set")
    found = await scene.store.recurring.overdue([0, 1])
    assert found[0] == 1
    assert isinstance(found[1], Unreadable)


@pytest.mark.parametrize("routed", [False, True])
async def test_a_shard_that_is_away_has_its_error_and_spoils_no_other_of_a_cluster(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, routed: bool
) -> None:
    reads, away = scene.store.server.reads, StoreUnavailable("away")

    async def failing(commands: Sequence[Sequence[Any]], **options: Any) -> list[Any]:
        if any(str(words[1]).startswith(keys.shard(1)) for words in commands):
            raise away
        return await reads(commands, **options)

    monkeypatch.setattr(scene.store.server, "reads", failing)
    monkeypatch.setattr(scene.store.server, "routed", routed)
    found = await scene.store.recurring.overdue([0, 1])
    assert found == {0: 0 if routed else away, 1: away}


@pytest.mark.parametrize("member", [b"x", b":", b"x:y", b"\xff:\xff", b"\xff" * 8 + b":x"])
async def test_a_member_that_names_no_rule_is_in_no_rule_s_way(
    fake_scene: Scene, member: bytes
) -> None:
    scene, rules = fake_scene, Rules(fake_scene)
    rule = await rules.create()
    await scene.cancel(str(rule.schedule_id))
    await scene.redis.zadd(keys.shard(scene.shard) + keys.RULES_DUE, {member: 1})
    assert await scene.store.renewal.renew(scene.shard) == 1
    assert len(await rules.waiting()) == 1
    assert await rules.tend() == 1
    assert member not in await rules.due()
