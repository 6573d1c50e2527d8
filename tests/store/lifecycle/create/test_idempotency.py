"""The note of a create with a key: little, enough to answer it again, and kept for a day."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.errors import InsufficientCredits, KeyReused
from scheduler.models import Idempotency, Request
from scheduler.store.lifecycle.create.results import CreateResult
from tests.store.losses import COMMAND, REPLY, losing
from tests.store.scene import CREDITS, URL, Holdings, Scene

pytestmark = pytest.mark.sound

ONCE = Idempotency("key", "what was asked", b"a note")


async def create(scene: Scene, count: int = 3, once: Idempotency = ONCE) -> CreateResult:
    request = Request(await scene.clock.now_ms() + 60_000, "GET", URL)
    return await scene.store.schedules.create_all(scene.account_id, [request] * count, once)


async def test_a_replay_tells_what_was_stored_and_the_first_note(scene: Scene) -> None:
    first = await create(scene)
    assert (first.repeated, first.note) == (False, ONCE.note)
    later = Idempotency(ONCE.key, ONCE.fingerprint, b"another note")
    for count in (3, 1, 5):  # the fingerprint identifies the request
        again = await create(scene, count, later)
        assert again == CreateResult(first.schedule_ids, repeated=True, note=ONCE.note)
    assert await scene.store.schedules.created_before(scene.account_id, later) == again
    assert await scene.holdings() == Holdings(CREDITS - 3, 3, 3, 0, {"scheduled": 3})


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


async def test_what_could_not_be_paid_at_all_is_not_remembered(scene: Scene) -> None:
    await create(scene, CREDITS, Idempotency("before", ""))
    with pytest.raises(InsufficientCredits):
        await create(scene)
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


async def test_a_key_is_known_for_a_day_and_then_new_again(fake_scene: Scene) -> None:
    scene, day_ms, before = fake_scene, 86_400_000, fake_scene.store.schedules.created_before
    first = await create(scene, 1)
    await scene.clock.pass_ms(day_ms - 1)
    assert await create(scene, 1) == first._replace(repeated=True)
    assert await before(scene.account_id, ONCE) == first._replace(repeated=True)
    await scene.clock.pass_ms(2)
    assert await before(scene.account_id, ONCE) is None
    second = await create(scene, 1, Idempotency("key", "something else"))
    assert (second.schedule_ids != first.schedule_ids, second.repeated) == (True, False)
    assert (await scene.holdings()).credits == CREDITS - 2
