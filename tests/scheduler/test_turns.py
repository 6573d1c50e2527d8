"""Turns of accounts when the server's clock is set back, and whether one can push ahead."""

from __future__ import annotations

import pytest

from scheduler.store import keys
from tests.scheduler.clocks import FakeClock
from tests.scheduler.scene import Scene, ids_of

HOUR_MS = 3_600_000


async def test_a_backlog_survives_a_clock_that_is_set_back(
    fake_scene: Scene, fake_clock: FakeClock
) -> None:
    due_ms = await fake_scene.clock.now_ms() - 2 * HOUR_MS
    await fake_scene.create_many(300, due_ms)
    first = await fake_scene.claim()
    assert await fake_scene.ack(first) == [1] * 128

    fake_clock.ms -= HOUR_MS
    assert await fake_scene.claim() == [], "its turn lies an hour ahead now"
    await fake_scene.store.claims.realign(fake_scene.shard)

    assert len(await fake_scene.claim()) == 128


async def test_the_clock_counts_steps_back_but_not_slow_replies(fake_scene: Scene) -> None:
    clock = fake_scene.store.clock
    before, now_us = clock.steps_back, clock.now_us()
    clock.observe(now_us - 6_000_000)
    assert clock.steps_back == before

    clock.observe(now_us - HOUR_MS * 1000)

    assert clock.steps_back == before + 1
    assert abs(clock.now_us() - (now_us - HOUR_MS * 1000)) < 1_000_000


async def test_realigning_moves_no_turn_that_is_right(scene: Scene) -> None:
    await scene.create(60_000)
    heads = keys.shard(scene.shard) + keys.HEADS
    before = await scene.redis.zrange(heads, 0, -1, withscores=True)

    await scene.store.claims.realign(scene.shard)

    assert await scene.redis.zrange(heads, 0, -1, withscores=True) == before


@pytest.mark.time_passes
@pytest.mark.parametrize("how", ["created", "given back", "changed"])
async def test_what_comes_in_with_an_early_time_does_not_push_ahead(scene: Scene, how: str) -> None:
    theirs = Scene(scene.store, scene.clock, (await scene.neighbours(1))[0])
    held = [await theirs.held(due_in_ms=-60_000)] if how == "given back" else []
    changed = await theirs.create(60_000)
    waiting = await scene.create(-1000)
    await scene.clock.pass_ms(2)
    early_ms = await scene.clock.now_ms() - 60_000
    if how == "created":
        await theirs.create_at(early_ms)
    elif how == "changed":
        await theirs.change(changed, trigger_at_ms=early_ms)
    else:
        await scene.release(held)
    assert ids_of(await scene.claim(most_accounts=1)) == [waiting]
    await scene.assert_sound()
