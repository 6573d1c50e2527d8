"""The operators' overview of the store, and its cost."""

from __future__ import annotations

import pytest

from scheduler.store import keys
from scheduler.store.operators.census import WINDOW_MS
from tests.scheduler.scene import Scene


async def test_what_is_due_and_what_comes_and_what_a_worker_holds(fake_scene: Scene) -> None:
    for due_in_ms in (-5_000, -2_000, 1, WINDOW_MS - 1, WINDOW_MS + 1, 6 * WINDOW_MS + 1):
        await fake_scene.create(due_in_ms)
    figures = await fake_scene.store.census.look()
    due = figures.due[fake_scene.shard]
    assert (due.overdue, due.coming) == (2, [2, 1, 0, 0, 0, 0])
    assert due.oldest_ms == pytest.approx(5_000, abs=1)
    assert figures.counted[fake_scene.shard][:2] == [6, 0]
    assert len(await fake_scene.claim()) == 2
    figures = await fake_scene.store.census.look()
    due = figures.due[fake_scene.shard]
    assert (due.overdue, due.oldest_ms, due.coming) == (0, 0.0, [2, 1, 0, 0, 0, 0])
    assert figures.counted[fake_scene.shard][:2] == [4, 2]


async def test_a_ledger_that_does_not_balance_is_counted(scene: Scene) -> None:
    await scene.create(1_000)
    assert (await scene.store.census.look()).counted[scene.shard][2:] == [1, 0, 99, 1]
    await scene.redis.hincrby(scene.base + keys.ACCOUNT, "credits", 1)
    assert (await scene.store.census.look()).counted[scene.shard][2:] == [1, 1, 100, 1]
