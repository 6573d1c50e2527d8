"""`Store.check`: each invariant, broken by hand, gives a sentence; a sound store gives none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from scheduler import ids
from scheduler.models import Outcome
from scheduler.rollups import HOUR_MS, MINUTE_MS
from scheduler.store import keys
from scheduler.store.stored import pack_outcome
from tests.scheduler.scene import COMPLETED, FAILED, Scene, new_id, settled

LONG_AGO_MS = -5 * MINUTE_MS - 1000
Breakage = Callable[[Scene], Awaitable[object]]


async def first(scene: Scene) -> str:
    """The first that waits, as members of sets are called."""
    [member] = await scene.redis.zrange(scene.base + keys.WAITING, 0, 0)
    return str(member.decode())


def ledger(**fields: int) -> Breakage:
    return lambda scene: scene.redis.hset(scene.base + keys.ACCOUNT, mapping=fields)


def counted(key: str, field: str) -> Breakage:
    return lambda scene: scene.redis.hincrby(scene.base + key, field, 7)


async def headless(scene: Scene) -> object:
    head = keys.parts(scene.account_id).local
    return await scene.redis.zrem(keys.shard(scene.shard) + keys.HEADS, head)


async def late_head(scene: Scene) -> object:
    far = {keys.parts(scene.account_id).local: await scene.clock.now_ms() + 3_600_000}
    return await scene.redis.zadd(keys.shard(scene.shard) + keys.HEADS, far)


async def request_gone(scene: Scene) -> object:
    return await scene.redis.delete(scene.base + keys.SCHEDULE + await first(scene))


async def not_waiting(scene: Scene) -> object:
    return await scene.redis.zrem(scene.base + keys.WAITING, await first(scene))


async def ended_and_waiting(scene: Scene) -> object:
    outcome = (await scene.clock.now_ms()).to_bytes(6, "big") + pack_outcome(FAILED)
    return await scene.redis.hset(scene.base + keys.SCHEDULE + await first(scene), "o", outcome)


async def held_until(scene: Scene, lease_in_ms: int) -> object:
    member = await first(scene)
    lease_end_ms = await scene.clock.now_ms() + lease_in_ms
    await scene.redis.zadd(scene.base + keys.WAITING, {member: lease_end_ms})
    head = {keys.parts(scene.account_id).local: lease_end_ms}
    await scene.redis.zadd(keys.shard(scene.shard) + keys.HEADS, head, lt=True)
    return await scene.redis.zadd(scene.base + keys.HELD, {member: 1})


async def held_astray(scene: Scene) -> object:
    return await scene.redis.zadd(scene.base + keys.HELD, {new_id()[4:]: 1})


async def name_without_account(scene: Scene) -> object:
    return await scene.redis.set(keys.NAME + "ghost", ids.new_account_id(0))


def letter(
    harm: Callable[[Scene, str], Any], outcome: Outcome = FAILED, older: bool = False
) -> Breakage:
    """Harms what has just ended, or the younger of two that have."""

    async def harmed(scene: Scene) -> object:
        if older:
            await scene.run(FAILED)
            await scene.clock.pass_ms(2)
        return await harm(scene, await scene.run(outcome))

    return harmed


def unlist(scene: Scene, letter: str) -> Any:
    return scene.redis.zrem(scene.base + keys.FAILED, letter[4:])


def list_otherwise(scene: Scene, letter: str) -> Any:
    return scene.redis.zadd(scene.base + keys.FAILED, {letter[4:]: 1})


def lose(scene: Scene, letter: str) -> Any:
    return scene.redis.delete(scene.key(letter))


def note_a_replay(scene: Scene, letter: str) -> Any:
    return scene.redis.hset(scene.key(letter), "a", new_id()[4:])


LETTER = "is a dead letter, but"


# Deleted schedules weigh nothing, and kept ones are part of the count, which is said as well.
@pytest.mark.usefixtures("checks_at_once")
@pytest.mark.parametrize(
    ("breakage", "sentence", "sentences"),
    [
        (ledger(credits=99), "does not balance: granted 100, credits 99, spent 2", 1),
        (ledger(credits=-1, granted=0, spent=1), "granted 0, credits -1, spent 1", 1),
        (headless, "schedules wait, but no worker will look for them", 1),
        (late_head, "the head is later than the first schedule", 1),
        (request_gone, "is waiting, but its request is gone", 2),
        (not_waiting, "has not ended, but is not among the waiting", 1),
        (ended_and_waiting, "has ended (failed), but is still among the waiting", 1),
        (
            partial(held_until, lease_in_ms=LONG_AGO_MS),
            "a lease that ended long ago, and nobody",
            1,
        ),
        (partial(held_until, lease_in_ms=3 * HOUR_MS), "for longer than any lease can be", 1),
        (held_astray, "is held, but not among the waiting", 1),
        (letter(unlist), "has failed, but is no dead letter", 1),
        (letter(unlist, older=True), "has failed, but is no dead letter", 1),
        (letter(list_otherwise, COMPLETED), f"{LETTER} has not failed", 1),
        (letter(note_a_replay), f"{LETTER} was replayed", 1),
        (letter(list_otherwise), "of another moment than that of its end", 1),
        (letter(lose, older=True), f"{LETTER} its request is gone", 2),
        (counted(keys.ACCOUNT, "bytes"), "are counted as 581 bytes, and weigh 574", 1),
        (counted(keys.EXPIRING, f"{2**40}"), "are counted as 567 bytes, and weigh 574", 2),
        (name_without_account, "The name 'ghost' is reserved for acc_00_", 1),
    ],
)
async def test_a_broken_invariant_is_told(
    scene: Scene, breakage: Breakage, sentence: str, sentences: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.store.operators.check._LOOK_AGAIN_S", 0.01)
    for _ in range(2):
        await scene.create(60_000)
    assert await scene.store.check() == []
    await breakage(scene)
    told = await scene.store.check()
    assert len(told) == sentences, told
    assert sentence in told[0]
    assert breakage is name_without_account or scene.account_id in told[0]


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
