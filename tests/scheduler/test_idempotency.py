"""The note of a create with a key: little, and enough to answer it again."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.errors import InsufficientCredits, KeyReused, OutcomeUnknown
from scheduler.models import Idempotency, Request
from scheduler.rollups import HOUR_MS
from scheduler.store import keys
from scheduler.store.lifecycle.create import CreateResult
from tests.scheduler.clocks import FakeClock
from tests.scheduler.losses import COMMAND, REPLY, losing
from tests.scheduler.scene import CREDITS, URL, Holdings, Scene

pytestmark = pytest.mark.sound

ONCE = Idempotency("key", "what was asked", b"a note")
# MEMORY USAGE of a key without a note, and what the tables of keys and of expiry have of each.
# Redis 7.0 keeps a key's name, its value and the table's entry apart.
MOST_BYTES = {"valkey": (120, 64), "redis": (160, 96)}


async def create(scene: Scene, count: int = 3, once: Idempotency = ONCE) -> CreateResult:
    request = Request(await scene.clock.now_ms() + 60_000, "GET", URL)
    return await scene.store.schedules.create_all(scene.account_id, [request] * count, once)


async def once_keys(scene: Scene) -> list[bytes]:
    pattern = scene.base + keys.ONCE + "*"
    return [key async for key in scene.redis.scan_iter(match=pattern, count=1000)]


async def test_a_replay_tells_what_was_stored_and_the_first_note(scene: Scene) -> None:
    first = await create(scene)
    assert (first.repeated, first.note) == (False, ONCE.note)
    later = Idempotency(ONCE.key, ONCE.fingerprint, b"another note")
    for count in (3, 1, 5):  # the fingerprint identifies the request
        again = await create(scene, count, later)
        assert again == CreateResult(first.schedule_ids, repeated=True, note=ONCE.note)
    assert await scene.store.schedules.created_before(scene.account_id, later) == again
    assert await scene.holdings() == Holdings(CREDITS - 3, 3, 3, 0, {"scheduled": 3})


async def test_the_ids_of_one_create_follow_on_one_another(scene: Scene) -> None:
    made = (await create(scene, 70)).schedule_ids
    assert made == sorted(made)
    assert len(set(made)) == 70
    assert (await create(scene, 70)).schedule_ids == made
    for schedule_id in made:
        await scene.get(schedule_id)


async def test_a_key_with_something_else_is_refused_and_changes_nothing(scene: Scene) -> None:
    schedules, other = scene.store.schedules, Idempotency(ONCE.key, "something else")
    assert await schedules.created_before(scene.account_id, ONCE) is None
    await create(scene)
    with pytest.raises(KeyReused):
        await create(scene, once=other)
    with pytest.raises(KeyReused):
        await schedules.created_before(scene.account_id, other)
    assert (await scene.holdings()).waiting == 3
    assert await schedules.created_before(await scene.account("other"), ONCE) is None


async def test_a_part_that_was_stored_is_all_that_a_replay_tells(scene: Scene) -> None:
    """Credits for three of five: a repeat does not store the others, though they could be paid."""
    await create(scene, CREDITS - 3, Idempotency("before", ""))
    made = (await create(scene, 5)).schedule_ids
    assert len(made) == 3
    await scene.store.accounts.grant(scene.account_id, 10)
    assert await create(scene, 5) == CreateResult(made, repeated=True, note=ONCE.note)
    assert await scene.credits() == 10


async def test_what_could_not_be_paid_at_all_is_not_remembered(scene: Scene) -> None:
    await create(scene, CREDITS, Idempotency("before", ""))
    with pytest.raises(InsufficientCredits):
        await create(scene)
    assert len(await once_keys(scene)) == 1
    await scene.store.accounts.grant(scene.account_id, 3)
    assert not (await create(scene)).repeated


async def test_of_one_key_in_one_batch_the_first_is_done(scene: Scene) -> None:
    """Coalesced into one script, with a create of another key and with something else asked."""
    made, again, beside, other = await asyncio.gather(
        create(scene),
        create(scene),
        create(scene, 2, Idempotency("beside", "x", b"its note")),
        create(scene, once=Idempotency("key", "something else")),
        return_exceptions=True,
    )
    assert isinstance(made, CreateResult)
    assert isinstance(beside, CreateResult)
    assert again == made._replace(repeated=True)
    assert (len(beside.schedule_ids), beside.note, beside.repeated) == (2, b"its note", False)
    assert isinstance(other, KeyReused)
    assert (await scene.holdings()).waiting == 5


@pytest.mark.parametrize("lost", [[REPLY], [REPLY, COMMAND, REPLY]])
async def test_a_create_whose_reply_was_lost_is_no_replay(scene: Scene, lost: list[str]) -> None:
    with losing(scene.store, *lost):
        made = await create(scene)
    assert (made.repeated, made.note, len(made.schedule_ids)) == (False, ONCE.note, 3)
    assert await create(scene) == made._replace(repeated=True)
    assert (await scene.holdings()).waiting == 3


async def test_a_caller_that_had_no_answer_has_it_by_the_same_key(scene: Scene) -> None:
    with losing(scene.store, *[REPLY] * 9), pytest.raises(OutcomeUnknown):
        await create(scene)
    assert len((await create(scene)).schedule_ids) == 3
    assert (await scene.holdings()).waiting == 3


async def test_a_replay_is_told_whatever_became_of_the_schedules(fake_scene: Scene) -> None:
    scene = fake_scene
    made = await create(scene)
    await scene.cancel(made.schedule_ids[0])
    await scene.clock.pass_ms(60_000)
    await scene.ack(await scene.claim())
    await scene.clock.pass_ms(24 * HOUR_MS - 60_001)
    assert (await create(scene)).schedule_ids == made.schedule_ids
    await scene.clock.pass_ms(2)
    assert await scene.store.schedules.created_before(scene.account_id, ONCE) is None
    assert not (await create(scene)).repeated


async def test_any_key_and_any_note_come_back(scene: Scene, clock: FakeClock) -> None:
    await scene.store.accounts.grant(scene.account_id, 1000)
    for n, note in enumerate((b"", b"\0", b"\xff" * 100, b"1795161600000")):
        for key in ("", "x" * 255, "é{}*?", f"key {n}"):
            once = Idempotency(f"{n} {key}", key, note)
            made = await create(scene, 1, once)
            assert await create(scene, 1, once) == made._replace(repeated=True, note=note)
    assert len(await once_keys(scene)) == 16


async def test_a_key_takes_little_room(valkey_scene: Scene, store_server: str) -> None:
    scene, count = valkey_scene, 1000
    most_bytes, most_bytes_in_tables = MOST_BYTES[store_server]
    await scene.store.accounts.grant(scene.account_id, count)
    await asyncio.gather(
        *(create(scene, 1, Idempotency(f"{n}" * 40, f"{n}")) for n in range(count))
    )
    names, client = await once_keys(scene), scene.redis
    assert len(names) == count
    sizes = [await client.memory_usage(name, samples=0) for name in names]
    assert max(sizes) <= most_bytes
    tables = (await client.memory_stats())["db.0"]
    every = (await client.info("keyspace"))["db0"]
    of_each = (
        tables["overhead.hashtable.main"] / every["keys"]
        + tables["overhead.hashtable.expires"] / every["expires"]
    )
    assert of_each <= most_bytes_in_tables
