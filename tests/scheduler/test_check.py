"""`Store.check`: each invariant, broken by hand, gives a sentence; a sound store gives none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from scheduler import ids
from scheduler.rollups import HOUR_MS, MINUTE_MS
from scheduler.store import keys
from scheduler.store.stored import pack_outcome
from tests.scheduler.scene import COMPLETED, FAILED, Scene, new_id, settled

Breakage = Callable[[Scene], Awaitable[object]]


async def unbalanced(scene: Scene) -> object:
    return await scene.redis.hincrby(scene.base + "account", "credits", 1)


async def overdrawn(scene: Scene) -> object:
    account = {"credits": -1, "granted": 0, "spent": 1}
    return await scene.redis.hset(scene.base + "account", mapping=account)


async def headless(scene: Scene) -> object:
    head = keys.parts(scene.account_id).local
    return await scene.redis.zrem(keys.shard(scene.shard) + keys.HEADS, head)


async def late_head(scene: Scene) -> object:
    far = {keys.parts(scene.account_id).local: await scene.clock.now_ms() + 3_600_000}
    return await scene.redis.zadd(keys.shard(scene.shard) + keys.HEADS, far)


async def request_gone(scene: Scene) -> object:
    return await scene.redis.delete(await a_schedule(scene))


async def not_waiting(scene: Scene) -> object:
    key = await a_schedule(scene)
    return await scene.redis.zrem(scene.base + "waiting", key.rpartition(":")[2])


async def ended_and_waiting(scene: Scene) -> object:
    moment = (await scene.clock.now_ms()).to_bytes(6, "big")
    outcome = moment + pack_outcome(FAILED)
    return await scene.redis.hset(await a_schedule(scene), "o", outcome)


async def held_until(scene: Scene, lease_in_ms: int) -> object:
    member = (await a_schedule(scene)).rpartition(":")[2]
    lease_end_ms = await scene.clock.now_ms() + lease_in_ms
    await scene.redis.zadd(scene.base + "waiting", {member: lease_end_ms})
    head = {keys.parts(scene.account_id).local: lease_end_ms}
    await scene.redis.zadd(keys.shard(scene.shard) + keys.HEADS, head, lt=True)
    return await scene.redis.zadd(scene.base + "held", {member: 1})


async def abandoned(scene: Scene) -> object:
    return await held_until(scene, -5 * MINUTE_MS - 1000)


async def held_for_ever(scene: Scene) -> object:
    return await held_until(scene, 3 * HOUR_MS)


async def held_astray(scene: Scene) -> object:
    return await scene.redis.zadd(scene.base + "held", {new_id()[4:]: 1})


async def miscounted(scene: Scene) -> object:
    return await scene.redis.hincrby(scene.base + "account", "bytes", 7)


async def kept_miscounted(scene: Scene) -> object:
    return await scene.redis.hincrby(scene.base + "expiring", f"{2**40}", 7)


async def name_without_account(scene: Scene) -> object:
    return await scene.redis.set(keys.NAME + "ghost", ids.new_account_id(0))


async def unlisted(scene: Scene) -> object:
    """A dead letter that the index has lost, and an older one that it has."""
    await scene.run(FAILED)
    await scene.clock.pass_ms(2)
    lost = await scene.run(FAILED)
    return await scene.redis.zrem(scene.base + keys.FAILED, lost[4:])


async def all_unlisted(scene: Scene) -> object:
    await scene.run(FAILED)
    return await scene.redis.delete(scene.base + keys.FAILED)


async def listed_though_completed(scene: Scene) -> object:
    completed = await scene.run(COMPLETED)
    return await scene.redis.zadd(scene.base + keys.FAILED, {completed[4:]: 1})


async def listed_though_replayed(scene: Scene) -> object:
    failed = await scene.run(FAILED)
    return await scene.redis.hset(f"{scene.base}s:{failed[4:]}", "a", new_id()[4:])


async def listed_at_another_moment(scene: Scene) -> object:
    failed = await scene.run(FAILED)
    return await scene.redis.zadd(scene.base + keys.FAILED, {failed[4:]: 1})


async def letter_gone(scene: Scene) -> object:
    await scene.run(FAILED)
    await scene.clock.pass_ms(2)
    gone = await scene.run(FAILED)
    return await scene.redis.delete(f"{scene.base}s:{gone[4:]}")


async def a_schedule(scene: Scene) -> str:
    """The key of the first that waits."""
    [first] = await scene.redis.zrange(scene.base + "waiting", 0, 0)
    return f"{scene.base}s:{first.decode()}"


@pytest.mark.parametrize(
    ("breakage", "sentence"),
    [
        (unbalanced, "the ledger does not balance: granted 100, credits 99, spent 2"),
        (overdrawn, "the ledger does not balance: granted 0, credits -1, spent 1"),
        (headless, "schedules wait, but no worker will look for them"),
        (late_head, "the head is later than the first schedule"),
        (request_gone, "is waiting, but its request is gone"),
        (not_waiting, "has not ended, but is not among the waiting"),
        (ended_and_waiting, "has ended (failed), but is still among the waiting"),
        (abandoned, "is held under a lease that ended long ago, and nobody takes it over"),
        (held_for_ever, "is held for longer than any lease can be"),
        (held_astray, "is held, but not among the waiting"),
        (unlisted, "has failed, but is no dead letter"),
        (all_unlisted, "has failed, but is no dead letter"),
        (listed_though_completed, "is a dead letter, but has not failed"),
        (listed_though_replayed, "is a dead letter, but was replayed"),
        (listed_at_another_moment, "is a dead letter of another moment than that of its end"),
        (letter_gone, "is a dead letter, but its request is gone"),
        (miscounted, "its unended schedules are counted as 581 bytes, and weigh 574"),
        (kept_miscounted, "its unended schedules are counted as 567 bytes, and weigh 574"),
        (name_without_account, "The name 'ghost' is reserved for acc_00_"),
    ],
)
async def test_a_broken_invariant_is_told(
    scene: Scene, breakage: Breakage, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.store.operators.check._LOOK_AGAIN_S", 0.01)
    for _ in range(2):
        await scene.create(60_000)
    assert await scene.store.check() == []
    await breakage(scene)
    told = await scene.store.check()
    # Deleted schedules weigh nothing, and kept ones are part of the count.
    assert len(told) == (2 if breakage in (request_gone, letter_gone, kept_miscounted) else 1), told
    assert sentence in told[0]
    if breakage is not name_without_account:
        assert scene.account_id in told[0]


async def test_leases_that_can_be_are_not_told(scene: Scene) -> None:
    for lease_in_ms in (-5 * MINUTE_MS + 10_000, -1, HOUR_MS):
        await scene.create(60_000)
        await held_until(scene, lease_in_ms)
        assert await scene.store.check() == []


@pytest.mark.time_passes
async def test_a_store_under_way_is_sound(scene: Scene) -> None:
    """Waiting, held, given back, taken over, completed, failed and cancelled, all at once."""
    for _ in range(30):
        await scene.create()
    first = await scene.claim(most=12, lease_ms=5)
    await scene.clock.pass_ms(6)
    second = await scene.claim(most=20)
    await scene.ack(second[:5])
    await scene.ack(first)
    await scene.release(second[5:8])
    await scene.cancel(second[5].schedule_id)
    await scene.assert_sound()


async def test_what_only_looks_broken_while_others_write_is_not_told(scene: Scene) -> None:
    await scene.store.accounts.grant(scene.account_id, 10_000)
    done = asyncio.Event()

    async def traffic() -> None:
        while not done.is_set():
            made = [await scene.create() for _ in range(3)]
            await asyncio.gather(
                scene.claim(most=2),
                settled(lambda: scene.cancel(made[0])),  # noqa: B023
            )
            await scene.ack(await scene.claim(most=5))
            await asyncio.sleep(0)

    writing = asyncio.create_task(traffic())
    try:
        for _ in range(3):
            assert await scene.store.check() == []
    finally:
        done.set()
        await writing
    await scene.assert_sound()


async def test_glob_characters_do_not_hide_or_mix_up_anything(scene: Scene) -> None:
    await scene.account("*")
    await scene.account("[a]?\\")
    await scene.create(60_000)
    assert await scene.store.check() == []
