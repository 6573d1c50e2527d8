"""Deletion of ended schedules: none early, all in the end."""

from __future__ import annotations

import pytest

from scheduler.errors import NotFound
from scheduler.models import Idempotency, Request
from scheduler.rollups import DAY_MS, HOUR_MS
from scheduler.store import keys
from tests.store.scene import Scene
from tests.store.whole.filled import pattern_of


async def test_an_ended_schedule_is_kept_for_its_time_and_its_log_entry_longer(
    fake_scene: Scene,
) -> None:
    scene = fake_scene
    executed = await scene.run()
    cancelled, waiting = await scene.create(60_000), await scene.create(40 * DAY_MS)
    await scene.cancel(cancelled)
    await scene.clock.pass_ms(24 * HOUR_MS - 2)
    for schedule_id in (executed, cancelled):
        await scene.get(schedule_id)
    await scene.clock.pass_ms(10)
    for schedule_id in (executed, cancelled):
        with pytest.raises(NotFound):
            await scene.get(schedule_id)
    assert {entry.schedule_id for entry in await scene.log()} == {executed, cancelled, waiting}
    await scene.assert_sound()


async def test_all_that_is_kept_for_a_time_has_an_end(scene: Scene) -> None:
    """Of an account, only what it is, what it still waits for, and what its next create has to take
    off its count stays for ever."""
    await scene.run()
    cancelled = await scene.create()
    await scene.cancel(cancelled)
    await scene.store.accounts.grant(scene.account_id, 1)
    request = Request(2**41, "POST", "https://example.com/")
    once = Idempotency("key", "what was asked")
    await scene.store.schedules.create_all(scene.account_id, [request], once)
    endless = set()
    async for key in scene.redis.scan_iter(match=scene.base + "*"):
        if await scene.redis.pttl(key) == -1:
            endless.add(pattern_of(key.decode()))
    assert endless == {keys.ACCOUNT, keys.SIGNING, keys.EXPIRING, keys.WAITING, keys.SCHEDULE}


async def test_an_idle_accounts_log_and_rollups_expire(fake_scene: Scene) -> None:
    scene = fake_scene
    await scene.run()
    await scene.clock.pass_ms(31 * DAY_MS + 1)
    names = {key async for key in scene.redis.scan_iter(match=scene.base + "*")}
    assert names == {f"{scene.base}{each}".encode() for each in ("account", "signing", "expiring")}
    await scene.create()
    assert not await scene.redis.exists(scene.base + "expiring")
