"""The two keys that sign what the QStash door sends, beside an account's signing secrets."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.errors import UnknownAccount, Unreadable
from scheduler.events import Kind
from scheduler.store import keys
from scheduler.store.secrecy import Secrecy
from tests.store.keyed import NEW, OLD, Stores, account_of, everything
from tests.store.losses import COMMAND, REPLY, losing
from tests.store.scene import Scene

DAY_MS = 86_400_000


async def texts_of(scene: Scene, **options: bool) -> list[str]:
    found = await scene.store.signing.door_keys(scene.account_id, **options)
    return [each.secret for each in found]


async def test_they_are_made_once_by_whoever_asks_first(scene: Scene) -> None:
    assert await scene.redis.llen(scene.base + keys.SIGNING) == 1
    several = await asyncio.gather(*(texts_of(scene) for _ in range(4)))
    assert several == [several[0]] * 4
    current, following = several[0]
    assert current != following
    for each in several[0]:
        assert each.startswith("sig_")
        assert len(each) >= len("sig_") + 28
    other = await scene.account("other")
    found = await scene.store.signing.door_keys(other)
    assert not {each.secret for each in found} & {current, following}
    with pytest.raises(UnknownAccount):
        await scene.store.signing.door_keys("acc_00_00000000")
    assert await scene.redis.exists(keys.account("acc_00_00000000") + keys.SIGNING) == 0
    await scene.assert_sound()


async def test_a_rotation_makes_the_next_one_current(scene: Scene) -> None:
    first, second = await texts_of(scene)
    current, third = await texts_of(scene, rotate=True)
    assert current == second
    assert third not in (first, second)
    assert await texts_of(scene) == [second, third]
    assert (await texts_of(scene, rotate=True))[0] == third
    events = await scene.store.events.newest(scene.account_id)
    assert [each.kind for each in events] == [Kind.SECRETS_ROTATED] * 2


async def test_a_rotation_of_none_makes_them(scene: Scene) -> None:
    assert await texts_of(scene, rotate=True) == await texts_of(scene)


@pytest.mark.parametrize("lost", [[REPLY], [COMMAND, REPLY], [REPLY] * 4])
async def test_a_rotation_whose_reply_was_lost_is_done_once(scene: Scene, lost: list[str]) -> None:
    _, second = await texts_of(scene)
    with losing(scene.store, *lost):
        current, third = await texts_of(scene, rotate=True)
    assert current == second
    assert await texts_of(scene) == [second, third]


async def test_signing_secrets_and_they_leave_each_other_alone(scene: Scene) -> None:
    [native] = await scene.store.signing.secrets(scene.account_id)
    pair = await texts_of(scene)
    assert await scene.store.signing.secrets(scene.account_id) == [native]
    rotated = (await scene.store.signing.rotate(scene.account_id, DAY_MS)).secrets
    assert [each.secret_id for each in rotated][1:] == [native.secret_id]
    await scene.store.signing.rotate(scene.account_id, 0)
    assert await texts_of(scene) == pair
    [only] = await scene.store.signing.secrets(scene.account_id)
    await texts_of(scene, rotate=True)
    assert await scene.store.signing.secrets(scene.account_id) == [only]
    found = (await scene.store.signing.secrets_of([scene.account_id]))[scene.account_id]
    assert isinstance(found, list)
    assert [each.is_of_door for each in found] == [False, True, True]


async def test_with_a_secret_key_they_are_sealed_and_resealed(stores: Stores) -> None:
    before = await stores.open(OLD)
    account_id = await account_of(before)
    pair = [each.secret for each in await before.signing.door_keys(account_id)]
    stored = await everything(before)
    assert not any(each.encode() in stored for each in pair)
    both = await stores.open(NEW, OLD)
    done = await both.resealer.reseal()
    assert (done.secrets, done.unreadable, len(done.forgotten)) == (3, [], 1)
    after = await stores.open(NEW)
    assert [each.secret for each in await after.signing.door_keys(account_id)] == pair
    assert await after.check() == []


async def test_of_a_damaged_one_is_told(scene: Scene) -> None:
    await texts_of(scene)
    sealed = Secrecy([b"x" * 32]).seal(b"sig_")
    await scene.redis.lset(scene.base + keys.SIGNING, 2, b"qsk_1 0 0 " + sealed)
    with pytest.raises(Unreadable):
        await texts_of(scene)
    assert "its signing secret" in " ".join(await scene.store.check())


async def test_they_go_with_their_account(scene: Scene) -> None:
    await texts_of(scene)
    await scene.store.changes.delete(scene.account_id)
    assert await scene.redis.exists(scene.base + keys.SIGNING) == 0
    with pytest.raises(UnknownAccount):
        await texts_of(scene)
