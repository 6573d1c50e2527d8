"""Signing secrets: one from the beginning, and for a while after a rotation several."""

from __future__ import annotations

from base64 import b64decode

import pytest

from scheduler.errors import KeyReused, NotFound, TooManySecrets, Unreadable
from scheduler.models import Idempotency, Plan
from scheduler.store import keys
from scheduler.store.accounts.signing import MOST_LIVE
from scheduler.store.server.scripts import Script
from tests.plain import redis_of
from tests.scheduler.losses import COMMAND, REPLY, losing
from tests.scheduler.scene import Scene

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


async def ids_of_secrets(scene: Scene) -> list[str]:
    return [each.secret_id for each in await scene.store.signing.secrets(scene.account_id)]


async def test_an_account_has_a_secret_from_its_creation(scene: Scene) -> None:
    stored = await redis_of(scene.store).llen(scene.base + keys.SIGNING)
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


async def test_an_account_that_lost_its_secrets_is_damaged_until_a_rotation(scene: Scene) -> None:
    await redis_of(scene.store).delete(scene.base + keys.SIGNING)
    found = await scene.store.signing.secrets_of([scene.account_id])
    assert isinstance(found[scene.account_id], Unreadable)
    assert "its signing secret cannot be read" in " ".join(await scene.store.check())
    new = (await scene.store.signing.rotate(scene.account_id, DAY_MS)).secrets
    assert await scene.store.signing.secrets(scene.account_id) == new
    assert await scene.store.check() == []


async def test_secrets_of_many_come_in_one_go_and_of_nobody_none(scene: Scene) -> None:
    second = await scene.account("second")
    nobody = "acc_00_00000000"
    found = await scene.store.signing.secrets_of([scene.account_id, second, nobody])
    assert found.keys() == {scene.account_id, second}
    assert await redis_of(scene.store).exists(keys.account(nobody) + keys.SIGNING) == 0
    with pytest.raises(NotFound):
        await scene.store.signing.secrets(nobody)
    with pytest.raises(NotFound):
        await scene.store.signing.rotate(nobody, 0)


async def test_a_secret_may_have_any_byte(scene: Scene) -> None:
    every = bytes(range(256))
    arguments = ("x", b"", 60_000, "sec_x", every, 60_000, 3)
    script = Script("accounts/signing_rotate")
    key = keys.account(scene.account_id)
    _, after = await scene.store.server.run(script, key, arguments)
    assert after[0].startswith(b"sec_x ")
    assert after[0].endswith(b" 0 " + every)
    arguments = ("y", b"", 60_000, "sec_y", b"", 60_000, 3)
    _, after = await scene.store.server.run(script, key, arguments)
    assert after[1].endswith(b" " + every)


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
    assert await redis_of(scene.store).llen(scene.base + keys.SIGNING) == 3
    await scene.store.signing.rotate(scene.account_id, HOUR_MS)
    assert await redis_of(scene.store).llen(scene.base + keys.SIGNING) == 2


async def test_none_is_good_for_longer_than_it_was(scene: Scene) -> None:
    await scene.store.signing.rotate(scene.account_id, HOUR_MS)
    third, second, first = (await scene.store.signing.rotate(scene.account_id, DAY_MS)).secrets
    assert third.expires_at_ms is None
    assert (second.expires_at_ms or 0) - (first.expires_at_ms or 0) >= 23 * HOUR_MS


async def test_there_are_three_at_most_but_a_leak_can_always_be_ended(scene: Scene) -> None:
    for _ in range(MOST_LIVE - 1):
        await scene.store.signing.rotate(scene.account_id, DAY_MS)
    before = await redis_of(scene.store).lrange(scene.base + keys.SIGNING, 0, -1)
    with pytest.raises(TooManySecrets, match="3 signing secrets are good already"):
        await scene.store.signing.rotate(scene.account_id, DAY_MS)
    assert await redis_of(scene.store).lrange(scene.base + keys.SIGNING, 0, -1) == before
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


async def test_a_deleted_account_leaves_no_secret(valkey_scene: Scene) -> None:
    scene = valkey_scene
    await scene.store.deletion.delete(scene.account_id)
    assert await scene.store.signing.secrets_of([scene.account_id]) == {}
    assert await redis_of(scene.store).exists(scene.base + keys.SIGNING) == 0


@pytest.mark.parametrize("damage", ["garbage", "another kind"])
async def test_a_damaged_secret_is_no_matter_of_other_accounts(scene: Scene, damage: str) -> None:
    """They are read together, for all that a worker is about to send of a shard."""
    other = await scene.account("other")
    key = scene.base + keys.SIGNING
    if damage == "garbage":
        await redis_of(scene.store).lset(key, 0, b"\xff garbage")
    else:
        await redis_of(scene.store).delete(key)
        await redis_of(scene.store).set(key, "none of ours")
    found = await scene.store.signing.secrets_of([scene.account_id, other])
    assert isinstance(found[scene.account_id], Unreadable)
    assert found[other] == await scene.store.signing.secrets(other)
    with pytest.raises(Unreadable):
        await scene.store.signing.secrets(scene.account_id)
