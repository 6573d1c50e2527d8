"""Unreadable and damaged entries: reported, put off without a trace, and harmless to others."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.models import Delivery
from scheduler.store import Store, keys
from scheduler.store.lifecycle.claim.claim import Batch
from scheduler.store.queries.listing import Selection
from scheduler.store.secrecy import Secrecy
from tests.store.keyed import NEW, OLD, REQUEST, Stores, account_of
from tests.store.scene import FAILED, LEASE_MS, Scene, ids_of

CAREFUL = msgspec.structs.replace(REQUEST, trigger_at_ms=1, delivery=Delivery.AT_MOST_ONCE)


async def claimed(store: Store, **options: int) -> Batch:
    return await store.claims.claim(0, **({"lease_ms": LEASE_MS, "most": 128} | options))


async def test_what_a_worker_without_the_key_gives_back_is_as_if_it_had_not_been_there(
    stores: Stores,
) -> None:
    behind = await stores.open(OLD)
    ahead = await stores.open(NEW, OLD)
    account_id = await account_of(ahead)
    schedule_id = await ahead.schedules.create(account_id, CAREFUL)
    for _ in range(3):
        batch = await claimed(behind)
        [(unread, why, key_id)] = batch.unread
        assert (batch.invocations, unread.schedule_id, unread.attempt) == ([], schedule_id, 1)
        assert key_id == Secrecy([NEW]).key_ids[0]
        assert key_id in why
        unread.due_at_ms = behind.clock.now_ms() - 1
        await behind.claims.release(0, [unread])
        # No worker holds it: it can be cancelled meanwhile.
        assert not (await ahead.schedules.get(account_id, schedule_id)).executing
    [invocation] = (await claimed(ahead)).invocations
    assert (invocation.attempt, invocation.due_at_ms) == (1, 1)
    assert not invocation.taken_over


@pytest.mark.parametrize("other_kind", [False, True])
async def test_a_request_that_cannot_be_read_is_no_matter_of_other_schedules(
    scene: Scene, other_kind: bool
) -> None:
    first, broken, last = [await scene.create() for _ in range(3)]
    if other_kind:
        await scene.spoil(scene.key(broken))
    else:
        await scene.redis.hset(scene.key(broken), "r", b"\x91\xa5later version's")
    claimed = await scene.claim()
    assert sorted(ids_of(claimed)) == sorted([first, last])
    assert await scene.ack(claimed) == [1, 1]
    assert await scene.claim() == []
    why = "is waiting, but its request is gone" if other_kind else "cannot be read"
    assert any(f"{broken} {why}" in each for each in await scene.store.check())


@pytest.mark.parametrize(
    ("place", "called"),
    [("waiting", "waiting schedules"), ("held", "held schedules"), ("tried", "attempts")],
)
async def test_an_account_that_is_damaged_is_no_matter_of_its_neighbours(
    scene: Scene, place: str, called: str
) -> None:
    [other] = await scene.neighbours(1)
    await scene.create()
    await scene.create(account_id=other)
    await scene.spoil(scene.base + place)
    batch = await scene.store.claims.claim(scene.shard, lease_ms=LEASE_MS, most=128)
    assert [each.account_id for each in batch.invocations] == [other]
    assert batch.broken == [scene.account_id]
    # And it is not looked at again at once.
    batch = await scene.store.claims.claim(scene.shard, lease_ms=LEASE_MS, most=128)
    assert (batch.broken, batch.full) == ([], False)
    told = await scene.store.check()
    sentence = f"{scene.account_id}: something of its {called} cannot be read: "
    assert any(each.startswith(sentence) for each in told)


@pytest.mark.parametrize("ended", [False, True])
async def test_what_is_damaged_is_told_by_a_check_without_any_key(
    scene: Scene, ended: bool
) -> None:
    damaged = await scene.run() if ended else await scene.create(60_000)
    field, head = ("o", bytes(6) + b"\xc1") if ended else ("r", b"")
    packed = await scene.redis.hget(scene.key(damaged), field)
    await scene.redis.hset(scene.key(damaged), field, head.ljust(len(packed), b"\xc0"))
    [told] = await scene.store.check()
    assert told.startswith(f"{scene.account_id}: {damaged} cannot be read: ")


@pytest.mark.parametrize("other_kind", [False, True])
@pytest.mark.parametrize("ended", [False, True])
async def test_a_list_shows_the_others(scene: Scene, ended: bool, other_kind: bool) -> None:
    made = [await scene.create() for _ in range(3)]
    if ended:
        await scene.ack(await scene.claim(), FAILED)
    key = scene.key(made[1])
    if other_kind:
        await scene.spoil(key)
    else:
        await scene.redis.hset(key, "r", b"\xc0")
    listing = scene.store.failed if ended else scene.store.unended
    page = await listing.page(scene.account_id, Selection())
    assert {each.schedule_id for each in page.schedules} == {made[0], made[2]}


@pytest.mark.parametrize("place", ["waiting", "held", "log", "accounts"])
async def test_a_restore_names_what_is_damaged_and_goes_on(scene: Scene, place: str) -> None:
    """Whichever of its walks meets it."""
    other = await scene.account("other")
    await scene.create(-1000)
    await scene.create(-1000, account_id=other)
    shard, _ = keys.parts(scene.account_id)
    key = keys.shard(shard) + place if place == "accounts" else scene.base + place
    await scene.spoil(key)
    restore, now_ms = scene.store.restore, await scene.clock.now_ms()
    ended: list[int] = []
    await restore.last_entry_ms(now_ms)
    await restore.take_back()
    await restore.due(now_ms)
    await restore.expire(now_ms, ended.append)
    assert sum(ended) >= 1
    assert all("script" not in each for each in restore.damaged)
    named = f"accounts of shard {shard}" if place == "accounts" else scene.account_id
    assert any(named in each for each in restore.damaged)
