"""`Store.check`: each invariant, broken by hand, gives a sentence; a sound store gives none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from scheduler.models import Outcome
from scheduler.rollups import HOUR_MS, MINUTE_MS
from scheduler.store import keys
from scheduler.store.stored import pack_outcome
from tests.store.scene import COMPLETED, FAILED, Scene, new_id

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


def letter(harm: Callable[[Scene, str], Any], outcome: Outcome = FAILED) -> Breakage:
    """Harms what has just ended."""

    async def harmed(scene: Scene) -> object:
        return await harm(scene, await scene.run(outcome))

    return harmed


def unlist(scene: Scene, letter: str) -> Any:
    return scene.redis.zrem(scene.base + keys.FAILED, letter[4:])


def list_otherwise(scene: Scene, letter: str) -> Any:
    return scene.redis.zadd(scene.base + keys.FAILED, {letter[4:]: 1})


def note_a_replay(scene: Scene, letter: str) -> Any:
    return scene.redis.hset(scene.key(letter), "a", new_id()[4:])


def of_reference(harm: Callable[[Scene, str], Any]) -> Breakage:
    """Harms the index by reference of what has just ended."""

    async def harmed(scene: Scene) -> object:
        return await harm(scene, await scene.run(FAILED, reference="order-1"))

    return harmed


def unlist_named(scene: Scene, _: str) -> Any:
    return scene.redis.delete(scene.base + keys.FAILED_REFERENCES)


def list_named_otherwise(scene: Scene, letter: str) -> Any:
    listed = {f"order-2\0{letter[4:]}": 0}
    return scene.redis.zadd(scene.base + keys.FAILED_REFERENCES, listed)


def unlist_named_by_end(scene: Scene, letter: str) -> Any:
    return scene.redis.zrem(scene.base + keys.FAILED, f"{letter[4:]}\0order-1")


async def unlist_reference(scene: Scene) -> object:
    await scene.create(60_000, reference="order-1")
    return await scene.redis.zremrangebyrank(scene.base + keys.REFERENCES, 0, 0)


def stray(harm: Callable[[Scene, bytes], Awaitable[object]]) -> Breakage:
    """What `harm` does to the one that has a reference makes its member astray."""

    async def harmed(scene: Scene) -> object:
        schedule_id = await scene.create(60_000, reference="order-1")
        return await harm(scene, f"order-1\0{schedule_id[4:]}".encode())

    return harmed


async def relist(scene: Scene, member: bytes) -> None:
    await scene.redis.zrem(scene.base + keys.REFERENCES, member)
    await scene.redis.zadd(scene.base + keys.REFERENCES, {b"order-2" + member[7:]: 0})


async def list_ended(scene: Scene, member: bytes) -> None:
    await scene.cancel("sch_" + member[8:].decode())
    await scene.redis.zadd(scene.base + keys.REFERENCES, {member: 0})


async def list_garbage(scene: Scene, _: bytes) -> None:
    await scene.redis.zadd(scene.base + keys.REFERENCES, {b"\xff": 0})


LETTER = "is a dead letter, but"
ASTRAY = "of no schedule that has it and has not ended"


# Deleted schedules weigh nothing, and kept ones are part of the count, which is said as well.
@pytest.mark.usefixtures("checks_at_once")
@pytest.mark.parametrize(
    ("breakage", "sentence", "sentences"),
    [
        (ledger(credits=99), "does not balance: granted 100, credits 99, spent 2", 1),
        (headless, "schedules wait, but no worker will look for them", 1),
        (late_head, "the head is later than the first of its schedules", 1),
        (ended_and_waiting, "has ended (failed), but is still among the waiting", 1),
        (
            partial(held_until, lease_in_ms=LONG_AGO_MS),
            "a lease that ended long ago, and nobody",
            1,
        ),
        (partial(held_until, lease_in_ms=3 * HOUR_MS), "for longer than any lease can be", 1),
        (held_astray, "is held, but not among the waiting", 1),
        (letter(unlist), "has failed, but is no dead letter", 1),
        (letter(list_otherwise, COMPLETED), f"{LETTER} has not failed", 1),
        (letter(note_a_replay), f"{LETTER} was replayed", 1),
        (letter(list_otherwise), "of another moment than that of its end", 1),
        (of_reference(unlist_named), "is not listed by its reference", 1),
        (of_reference(list_named_otherwise), "no dead letter of the reference", 1),
        (of_reference(unlist_named_by_end), "no dead letter of the reference", 2),
        (unlist_reference, "has a reference, but is not among", 2),
        (stray(relist), ASTRAY, 2),
        (stray(list_ended), ASTRAY, 2),
        (stray(list_garbage), ASTRAY, 2),
        (counted(keys.ACCOUNT, "bytes"), "are counted as 581 bytes, and weigh 574", 1),
        (counted(keys.EXPIRING, f"{2**40}"), "are counted as 567 bytes, and weigh 574", 2),
    ],
)
async def test_a_broken_invariant_is_told(
    scene: Scene, breakage: Breakage, sentence: str, sentences: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.store.check.check._LOOK_AGAIN_S", 0.01)
    for _ in range(2):
        await scene.create(60_000)
    assert await scene.store.check() == []
    await breakage(scene)
    told = await scene.store.check()
    assert len(told) == sentences, told
    assert sentence in told[0]
    assert scene.account_id in told[0]


async def test_it_tells_how_much_it_has_read(scene: Scene) -> None:
    for _ in range(2):
        await scene.create(60_000)
    told: list[int] = []
    await scene.store.check(told.append)
    assert sum(told) >= 4  # each schedule is a key, and waits


async def test_a_key_of_an_account_with_the_name_of_a_schedule_in_it_is_none(scene: Scene) -> None:
    await scene.redis.hset(f"{scene.base}lane:a:{new_id()[4:]}", "rate", 1)
    assert await scene.store.check() == []


@pytest.mark.usefixtures("checks_at_once")
async def test_a_damaged_piece_of_the_log_hides_nothing_else_of_it(valkey_scene: Scene) -> None:
    scene, log = valkey_scene, valkey_scene.base + keys.LOG
    first = await scene.run()
    [(_, fields)] = await scene.redis.xrange(log)
    sound = fields[b"e"]
    status_unknown = b"\x91\x95\xa26x\x01\xa0\xa0\x63"
    for damaged in (b"\xff\xfe", status_unknown, sound[:3] + b"z" + sound[4:]):
        await scene.redis.xadd(log, {"e": damaged})
    await scene.clock.pass_ms(2)
    second = await scene.run(FAILED)
    assert [each.schedule_id for each in await scene.log()] == [second, first]
    sentences = await scene.store.check()
    assert len(sentences) == 3
    assert all(" of its log cannot be read: " in each for each in sentences)
