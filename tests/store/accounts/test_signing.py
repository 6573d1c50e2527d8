"""Signing secrets: one from the beginning, and for a while after a rotation several."""

from __future__ import annotations

import re
from base64 import b64decode

import pytest

from scheduler.errors import KeyReused, NotFound, TooManySecrets, Unreadable
from scheduler.models import Idempotency, Plan, Request, Upsert
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.store import keys
from scheduler.store.accounts.signing.signing import MOST_LIVE
from scheduler.store.idempotency import once_name
from scheduler.store.secrecy import Secrecy
from tests.store.losses import COMMAND, REPLY, losing
from tests.store.scene import URL, Scene, settled

FAR_MS = 2**41
_DAILY = Timing(every_ms=86_400_000)
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


async def ids_of_secrets(scene: Scene) -> list[str]:
    return [each.secret_id for each in await scene.store.signing.secrets(scene.account_id)]


async def test_an_account_has_a_secret_from_its_creation(scene: Scene) -> None:
    stored = await scene.redis.llen(scene.base + keys.SIGNING)
    assert stored == 1
    [secret] = await scene.store.signing.secrets(scene.account_id)
    assert secret.secret_id.startswith("sec_")
    assert len(b64decode(secret.secret.removeprefix("whsec_"), validate=True)) == 32
    assert secret.expires_at_ms is None
    account = await scene.store.accounts.get(scene.account_id)
    assert secret.created_at_ms == account.created_at_ms
    other = await scene.store.accounts.create("other", credits=1, plan=Plan.FREE)
    [others] = await scene.store.signing.secrets(other.account_id)
    assert others.secret != secret.secret


async def test_secrets_of_many_come_in_one_go_and_of_nobody_none(scene: Scene) -> None:
    second = await scene.account("second")
    nobody = "acc_00_00000000"
    found = await scene.store.signing.secrets_of([scene.account_id, second, nobody])
    assert found.keys() == {scene.account_id, second}
    assert await scene.redis.exists(keys.account(nobody) + keys.SIGNING) == 0
    for call in (scene.store.signing.secrets(nobody), scene.store.signing.rotate(nobody, 0)):
        with pytest.raises(NotFound):
            await call


@pytest.mark.time_passes
async def test_after_a_rotation_the_earlier_ones_are_good_for_so_long(scene: Scene) -> None:
    [first] = await scene.store.signing.secrets(scene.account_id)
    before_ms = await scene.clock.now_ms()
    new, kept = (await scene.store.signing.rotate(scene.account_id, HOUR_MS)).secrets
    after_ms = await scene.clock.now_ms()
    assert (kept.secret_id, kept.secret) == (first.secret_id, first.secret)
    assert before_ms + HOUR_MS <= (kept.expires_at_ms or 0) <= after_ms + HOUR_MS
    assert new.expires_at_ms is None
    assert new.secret != first.secret
    newest = (await scene.store.signing.rotate(scene.account_id, 100)).secrets[0]
    await scene.clock.pass_ms(101)
    await scene.store.tick()
    assert await scene.store.signing.secrets(scene.account_id) == [newest]
    # What has ended is there until the next rotation, and no longer.
    assert await scene.redis.llen(scene.base + keys.SIGNING) == 3
    await scene.store.signing.rotate(scene.account_id, HOUR_MS)
    assert await scene.redis.llen(scene.base + keys.SIGNING) == 2


async def test_there_are_three_at_most_but_a_leak_can_always_be_ended(scene: Scene) -> None:
    for _ in range(MOST_LIVE - 1):
        await scene.store.signing.rotate(scene.account_id, DAY_MS)
    before = await scene.redis.lrange(scene.base + keys.SIGNING, 0, -1)
    with pytest.raises(TooManySecrets, match="3 signing secrets are valid already"):
        await scene.store.signing.rotate(scene.account_id, DAY_MS)
    assert await scene.redis.lrange(scene.base + keys.SIGNING, 0, -1) == before
    [only] = (await scene.store.signing.rotate(scene.account_id, 0)).secrets
    assert await ids_of_secrets(scene) == [only.secret_id]


@pytest.mark.parametrize("lost", [[REPLY], [COMMAND, REPLY], [REPLY] * 4])
async def test_a_rotation_whose_reply_was_lost_is_done_once(scene: Scene, lost: list[str]) -> None:
    with losing(scene.store, *lost):
        rotated = await scene.store.signing.rotate(scene.account_id, DAY_MS)
    assert len(rotated.secrets) == 2
    assert await scene.store.signing.secrets(scene.account_id) == rotated.secrets


async def test_a_rotation_of_one_key_is_done_once(scene: Scene) -> None:
    once = Idempotency("mine", "for a day")
    first = await scene.store.signing.rotate(scene.account_id, DAY_MS, once)
    again = await scene.store.signing.rotate(scene.account_id, DAY_MS, once)
    assert (first.replayed, again.replayed) == (False, True)
    assert again.secrets == first.secrets
    with pytest.raises(KeyReused):
        await scene.store.signing.rotate(scene.account_id, 0, Idempotency("mine", "at once"))
    assert await scene.store.signing.secrets(scene.account_id) == first.secrets


async def test_a_key_of_a_rotation_is_of_no_other_call(scene: Scene) -> None:
    """And a key of another call of no rotation."""
    schedules, recurring = scene.store.schedules, scene.store.recurring
    request, draft = Request(FAR_MS, "POST", URL), Draft(Request(0, "POST", URL), _DAILY)
    mine, other = Idempotency("mine", "to rotate"), Idempotency("other", "to create")
    await scene.store.signing.rotate(scene.account_id, DAY_MS, mine)
    create = Idempotency("mine", "to create")
    for call in (
        lambda: schedules.create_all(scene.account_id, [request], create),
        lambda: schedules.create_all(scene.account_id, [Upsert(request, False, None)], create),
        lambda: recurring.create(scene.account_id, draft, create),
    ):
        assert type(await settled(call)) is KeyReused
    await schedules.create_all(scene.account_id, [request], other)
    with pytest.raises(KeyReused):
        await scene.store.signing.rotate(scene.account_id, 0, Idempotency("other", "to rotate"))
    await scene.assert_sound()


async def test_as_many_rotations_are_noted_as_there_is_room_for(scene: Scene) -> None:
    """The oldest of 1,001 is forgotten, and a repeat of it would be another."""
    for n in range(1001):
        await scene.store.signing.rotate(scene.account_id, 0, Idempotency(f"{n}", ""))
    names = [each async for each in scene.redis.scan_iter(scene.base + keys.ONCE + "*")]
    assert len(names) == await scene.redis.llen(scene.base + keys.ROTATIONS) == 1000
    # A key may be used anew after a day, as that of rotation 1 is here, which is forgotten next.
    await scene.redis.delete(scene.base + keys.ONCE + once_name(Idempotency("1", "")))
    other, request = Idempotency("1", "to create"), Request(FAR_MS, "POST", URL)
    made = await scene.store.schedules.create_all(scene.account_id, [request], other)
    await scene.store.signing.rotate(scene.account_id, 0)
    again = await scene.store.schedules.create_all(scene.account_id, [request], other)
    assert again.schedule_ids == made.schedule_ids
    for n, replayed in ((1000, True), (2, True), (0, False)):
        done = await scene.store.signing.rotate(scene.account_id, 0, Idempotency(f"{n}", ""))
        assert done.replayed is replayed


@pytest.mark.parametrize("damage", ["garbage", "another key", "another kind", "nothing"])
async def test_damaged_secrets_are_no_matter_of_other_accounts_and_end_with_a_rotation(
    scene: Scene, damage: str
) -> None:
    """They are read together, for all that a worker is about to send of a shard."""
    other = await scene.account("other")
    key, signing = scene.base + keys.SIGNING, scene.store.signing
    if damage == "garbage":
        await scene.redis.lset(key, 0, b"\xff garbage")
    elif damage == "another key":
        await scene.redis.lset(key, 0, b"sec_1 0 0 " + Secrecy([b"x" * 32]).seal(b"whsec_"))
    else:
        await scene.redis.delete(key)
    if damage == "another kind":
        await scene.redis.set(key, "none of ours")
    found = await signing.secrets_of([scene.account_id, other])
    assert isinstance(found[scene.account_id], Unreadable)
    assert found[other] == await signing.secrets(other)
    with pytest.raises(Unreadable):
        await signing.secrets(scene.account_id)
    found = " ".join(await scene.store.check())
    assert re.search(r"its signing secrets? cannot be read", found), found
    if damage == "nothing":
        new = (await signing.rotate(scene.account_id, DAY_MS)).secrets
        assert await signing.secrets(scene.account_id) == new
        assert await scene.store.check() == []
