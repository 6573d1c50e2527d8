"""Turns of accounts when the server's clock is set back, and whether one can push ahead."""

from __future__ import annotations

import pytest

from tests.store.clocks import FakeClock
from tests.store.scene import Scene, ids_of

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
