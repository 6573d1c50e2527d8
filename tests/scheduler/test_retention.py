"""Deletion of ended schedules: none early, all in the end."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.errors import NotFound
from scheduler.models import Plan
from scheduler.rollups import DAY_MS, HOUR_MS
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.store.verdict import Verdict
from tests.plain import redis_of
from tests.scheduler.clocks import FakeClock, ServerClock
from tests.scheduler.conftest import open_fake
from tests.scheduler.scene import COMPLETED, FAILED, Scene
from tests.servers import ValkeyProcess

KEPT_ENTRIES = 300
EXECUTED = 2000


async def run_many(scene: Scene, count: int) -> None:
    await scene.create_many(count, await scene.clock.now_ms() - 1)
    for n in range(0, count, 100):
        await scene.ack(await scene.claim(most=100), FAILED if n % 200 else COMPLETED)


async def assert_trimmed(scene: Scene) -> None:
    """The log is held at its length, exact to a chunk, and its indexes with it; the statistics are
    whole."""
    client = redis_of(scene.store)
    await run_many(scene, EXECUTED)
    entries = await scene.log()
    assert KEPT_ENTRIES - 100 < len(entries) <= KEPT_ENTRIES
    chunks = await client.xrange(scene.base + "log")
    assert await client.hget(scene.base + "logged", "n") == b"%d" % len(entries)
    async for key in client.scan_iter(match=scene.base + "index:*"):
        length = await client.xlen(key)
        assert 0 < length < len(chunks) + 500, key
    for status in ("completed", "failed"):
        index = await client.xrange(scene.base + f"index:{status}", min=chunks[0][0])
        found = await scene.log(status=status)
        assert found == [entry for entry in entries if entry.status == status]
        assert 100 * len(index) == len(found)
    usage = await scene.store.stats.usage(scene.account_id, 0, await scene.clock.now_ms() + 2000)
    assert usage.executed == EXECUTED
    assert await scene.store.check() == []


async def test_a_long_log_is_trimmed_with_its_indexes(
    fake_clock: FakeClock, settings: Settings
) -> None:
    store = await open_fake(msgspec.structs.replace(settings, log_max_entries=KEPT_ENTRIES))
    account = await store.accounts.create("first", credits=0, plan=Plan.FREE)
    await assert_trimmed(Scene(store, fake_clock, account.account_id))
    await store.aclose()


async def test_a_long_log_is_trimmed_with_its_indexes_on_a_real_server(
    valkey: ValkeyProcess, settings: Settings
) -> None:
    store = await Store.open(
        msgspec.structs.replace(settings, redis_url=valkey.url, log_max_entries=KEPT_ENTRIES)
    )
    account = await store.accounts.create("first", credits=0, plan=Plan.FREE)
    await assert_trimmed(Scene(store, ServerClock(store), account.account_id))
    await store.aclose()


async def test_an_ended_schedule_is_kept_for_its_time_and_its_log_entry_longer(
    fake_scene: Scene,
) -> None:
    scene = fake_scene
    executed = await scene.run()
    cancelled, waiting = await scene.create(60_000), await scene.create(40 * DAY_MS)
    await scene.store.canceller.cancel(scene.account_id, cancelled)
    await scene.clock.pass_ms(24 * HOUR_MS - 2)
    for schedule_id in (executed, cancelled):
        await scene.store.schedules.get(scene.account_id, schedule_id)
    await scene.clock.pass_ms(10)
    for schedule_id in (executed, cancelled):
        with pytest.raises(NotFound):
            await scene.store.schedules.get(scene.account_id, schedule_id)
    assert {entry.schedule_id for entry in await scene.log()} == {executed, cancelled, waiting}
    await scene.assert_sound()


async def test_what_waits_is_never_forgotten(fake_scene: Scene) -> None:
    scene = fake_scene
    schedule_id = await scene.create(400 * DAY_MS)
    held = await scene.create()
    invocation = await scene.claim_one()
    await scene.clock.pass_ms(400 * DAY_MS)
    claimed = await scene.claim()
    assert {each.schedule_id for each in claimed} == {schedule_id, held}
    assert await scene.ack([invocation]) == [Verdict.HELD]
    assert await scene.ack(claimed) == [1, 1]
    await scene.assert_sound()


async def test_all_that_is_kept_for_a_time_has_an_end(scene: Scene) -> None:
    """Of an account, only what it is, what it still waits for, and what its next create has to take
    off its count stays for ever."""
    await scene.run()
    cancelled = await scene.create()
    await scene.store.canceller.cancel(scene.account_id, cancelled)
    await scene.store.accounts.grant(scene.account_id, 1)
    await scene.create(60_000)
    endless = set()
    async for key in redis_of(scene.store).scan_iter(match=scene.base + "*"):
        if await redis_of(scene.store).pttl(key) == -1:
            endless.add(key.decode()[len(scene.base) :].split(":")[0])
    assert endless == {"account", "signing", "expiring", "waiting", "s"}


async def test_an_idle_accounts_log_and_rollups_expire(fake_scene: Scene) -> None:
    scene = fake_scene
    await scene.run()
    await scene.clock.pass_ms(31 * DAY_MS + 1)
    names = {key async for key in redis_of(scene.store).scan_iter(match=scene.base + "*")}
    assert names == {f"{scene.base}{each}".encode() for each in ("account", "signing", "expiring")}
    await scene.create()
    assert not await redis_of(scene.store).exists(scene.base + "expiring")


async def test_old_entries_go_when_new_ones_come(fake_scene: Scene) -> None:
    scene = fake_scene
    await run_many(scene, 500)
    await scene.clock.pass_ms(20 * DAY_MS)
    await run_many(scene, 100)
    await scene.clock.pass_ms(12 * DAY_MS)
    await run_many(scene, 100)
    # The first are out of the promise and trimmed by whole nodes; the others are there.
    assert await redis_of(scene.store).xlen(scene.base + "log") < 500
    await scene.store.tick()
    assert len(await scene.log()) == 200
    usage = await scene.store.stats.usage(scene.account_id, 0, await scene.clock.now_ms() + 1)
    assert usage.executed == 200


async def test_a_trimmed_log_leaves_adjacent_periods_whole(
    fake_clock: FakeClock, settings: Settings
) -> None:
    """Wherever a period is cut in two, the parts add up; and where the log still has the entries,
    each part is exact."""
    store = await open_fake(msgspec.structs.replace(settings, log_max_entries=KEPT_ENTRIES))
    account = await store.accounts.create("first", credits=0, plan=Plan.FREE)
    scene = Scene(store, fake_clock, account.account_id)
    began_ms = await fake_clock.now_ms()
    await scene.create_many(1000, began_ms - 1)
    moments = []
    for _ in range(100):
        await fake_clock.pass_ms(70)
        acked = await scene.claim(most=10)
        assert len(await scene.ack(acked)) == 10
        moments += [await fake_clock.now_ms()] * 10
    end_ms = await fake_clock.now_ms() + 1
    first_kept = (await redis_of(store).xrange(scene.base + "log", count=1))[0][0]
    kept_since_ms = int(first_kept.split(b"-")[0])
    assert kept_since_ms > began_ms + 2000, "the test wants a log that was trimmed"

    for cut_ms in range(began_ms, end_ms, 333):
        before = await store.stats.usage(scene.account_id, began_ms - 500, cut_ms)
        after = await store.stats.usage(scene.account_id, cut_ms, end_ms)
        assert before.executed + after.executed == 1000, cut_ms - began_ms
        if cut_ms >= kept_since_ms:
            assert after.executed == sum(cut_ms <= ms < end_ms for ms in moments)
    await store.aclose()
