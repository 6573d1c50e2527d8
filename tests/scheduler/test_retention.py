"""Deletion of ended schedules: none early, all in the end."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.errors import NotFound
from scheduler.models import Idempotency, Plan, Request
from scheduler.rollups import DAY_MS, HOUR_MS
from scheduler.settings import Settings
from scheduler.store import Store
from tests.scheduler.clocks import ServerClock
from tests.scheduler.scene import COMPLETED, FAILED, Scene
from tests.servers import ValkeyProcess

KEPT_ENTRIES = 300
EXECUTED = 2000


async def run_many(scene: Scene, count: int) -> None:
    await scene.create_many(count, await scene.clock.now_ms() - 1)
    for n in range(0, count, 100):
        await scene.ack(await scene.claim(most=100), FAILED if n % 200 else COMPLETED)


async def test_a_long_log_is_trimmed_with_its_indexes(
    valkey: ValkeyProcess, settings: Settings
) -> None:
    """The log is held at its length, exact to a chunk, and its indexes with it; the statistics are
    whole."""
    bounded = msgspec.structs.replace(settings, redis_url=valkey.url, log_max_entries=KEPT_ENTRIES)
    store = await Store.open(bounded)
    account = await store.accounts.create("first", credits=0, plan=Plan.FREE)
    scene = Scene(store, ServerClock(store), account.account_id)
    await run_many(scene, EXECUTED)
    entries = await scene.log()
    assert KEPT_ENTRIES - 100 < len(entries) <= KEPT_ENTRIES
    chunks = await scene.redis.xrange(scene.base + "log")
    assert await scene.redis.hget(scene.base + "logged", "n") == b"%d" % len(entries)
    async for key in scene.redis.scan_iter(match=scene.base + "index:*"):
        length = await scene.redis.xlen(key)
        assert 0 < length < len(chunks) + 500, key
    for status in ("completed", "failed"):
        index = await scene.redis.xrange(scene.base + f"index:{status}", min=chunks[0][0])
        found = await scene.log(status=status)
        assert found == [entry for entry in entries if entry.status == status]
        assert 100 * len(index) == len(found)
    usage = await store.stats.usage(scene.account_id, 0, await scene.clock.now_ms() + 2000)
    assert usage.executed == EXECUTED
    assert await store.check() == []
    await store.aclose()


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
            endless.add(key.decode()[len(scene.base) :].split(":")[0])
    assert endless == {"account", "signing", "expiring", "waiting", "s"}


async def test_an_idle_accounts_log_and_rollups_expire(fake_scene: Scene) -> None:
    scene = fake_scene
    await scene.run()
    await scene.clock.pass_ms(31 * DAY_MS + 1)
    names = {key async for key in scene.redis.scan_iter(match=scene.base + "*")}
    assert names == {f"{scene.base}{each}".encode() for each in ("account", "signing", "expiring")}
    await scene.create()
    assert not await scene.redis.exists(scene.base + "expiring")
