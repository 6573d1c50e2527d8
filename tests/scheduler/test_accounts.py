"""Accounts, and their ledger."""

from __future__ import annotations

import asyncio

import pytest

from scheduler import ids
from scheduler.errors import NotFound, StoreMisconfigured, Taken, TooMany
from scheduler.models import Account, Plan
from scheduler.rollups import DAY_MS
from scheduler.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.server import Script
from tests.plain import redis_of
from tests.scheduler.conftest import SHARDS
from tests.scheduler.scene import CREDITS, Scene, settled
from tests.servers import ValkeyProcess


async def test_what_is_read_is_what_was_made(scene: Scene) -> None:
    made = await scene.store.accounts.create(
        "É *[x]?{y}:z", credits=5, plan=Plan.PRO, email="a@example.com", operator=True
    )
    assert made == Account(
        made.account_id,
        "É *[x]?{y}:z",
        Plan.PRO,
        5,
        5,
        0,
        made.created_at_ms,
        "a@example.com",
        True,
    )
    assert await scene.store.accounts.find("É *[x]?{y}:z") == made
    assert await scene.store.accounts.find(made.account_id) == made
    assert made in await scene.store.accounts.list_accounts()
    assert abs(made.created_at_ms - await scene.clock.now_ms()) < 1000
    await scene.assert_sound()


async def test_an_unknown_account_is_not_found(scene: Scene) -> None:
    accounts, nobody = scene.store.accounts, ids.new_account_id(0)
    for call in (
        lambda: accounts.find("nobody"),
        lambda: accounts.find(nobody),
        lambda: accounts.get(nobody),
        lambda: accounts.credits(nobody),
        lambda: accounts.grant(nobody, 1),
    ):
        assert isinstance(await settled(call), NotFound)


async def test_a_name_is_taken_once(scene: Scene) -> None:
    results = await asyncio.gather(
        *(settled(lambda: scene.account("wanted", credits=7)) for _ in range(20))
    )
    assert sorted(type(each).__name__ for each in results) == ["Taken"] * 19 + ["str"]
    with pytest.raises(Taken, match="wanted"):
        await scene.account("wanted")
    assert [each.name for each in await scene.store.accounts.list_accounts()].count("wanted") == 1
    assert (await scene.store.accounts.find("wanted")).credits == 7
    await scene.assert_sound()


async def test_a_name_left_over_from_a_crash_is_told_and_healed(scene: Scene) -> None:
    left_over = ids.new_account_id(1)
    await redis_of(scene.store).set(keys.NAME + "half", left_over)
    with pytest.raises(NotFound):
        await scene.store.accounts.find("half")
    [sentence] = await scene.store.check()
    assert "'half'" in sentence
    assert left_over in sentence
    assert await scene.account("half") == left_over
    await scene.assert_sound()


async def test_accounts_are_spread_over_the_shards(scene: Scene) -> None:
    for n in range(7):
        await scene.account(f"account {n}")
    sizes = [
        await redis_of(scene.store).zcard(keys.shard(shard) + keys.ACCOUNTS)
        for shard in range(SHARDS)
    ]
    assert sizes == [8 // SHARDS] * SHARDS


async def test_parallel_grants_all_count(scene: Scene) -> None:
    await asyncio.gather(*(scene.store.accounts.grant(scene.account_id, n) for n in range(1, 51)))
    account = await scene.store.accounts.get(scene.account_id)
    assert (account.credits, account.granted) == (CREDITS + 1275, CREDITS + 1275)
    await scene.assert_sound()


async def test_a_grant_repeated_with_its_operation_is_done_once(scene: Scene) -> None:
    for operation in ("one", "one", "two", "one"):
        await scene.store.accounts.grant(scene.account_id, 10, operation)
    assert await scene.store.accounts.credits(scene.account_id) == CREDITS + 20
    await scene.assert_sound()


async def test_an_account_made_again_with_its_operation_is_made_once(scene: Scene) -> None:
    local = ids.new_account_id(0)[-8:]
    await redis_of(scene.store).set(keys.NAME + "x", f"acc_00_{local}")
    made = [
        await scene.store.server.run(
            Script("accounts/create"),
            keys.shard(0),
            (local, operation, "x", "free", 9, "", 0, DAY_MS, "sec_1", "whsec_"),
        )
        for operation in ("one", "one", "two")
    ]
    assert made == [1, 1, 0]
    assert await scene.store.accounts.credits(f"acc_00_{local}") == 9
    await scene.assert_sound()


async def test_the_days_movements_are_the_ledgers(scene: Scene) -> None:
    await scene.store.accounts.grant(scene.account_id, 11)
    await scene.run()
    cancelled = await scene.create()
    await scene.store.canceller.cancel(scene.account_id, cancelled)
    moved: dict[bytes, int] = {}
    async for key in redis_of(scene.store).scan_iter(match=scene.base + "day:*"):
        for name, value in (await redis_of(scene.store).hgetall(key)).items():
            name = b"spent" if name.endswith(b"s") else name
            if name in (b"granted", b"spent", b"refunded"):
                moved[name] = moved.get(name, 0) + int(value)
    assert moved == {b"granted": CREDITS + 11, b"spent": 2, b"refunded": 1}
    await scene.assert_sound()


async def test_more_shards_are_taken_up_and_fewer_refused(
    valkey: ValkeyProcess, settings: Settings, valkey_scene: Scene
) -> None:
    async def opened(shards: int | None) -> Store:
        return await Store.open(Settings(redis_url=valkey.url, shards=shards))

    with pytest.raises(StoreMisconfigured, match="POSTDATE_SHARDS is 1, but the store has 2"):
        await opened(1)
    raised = await opened(5)
    unasked = await opened(None)
    try:
        assert (raised.shards.count, unasked.shards.count) == (5, 5)
        # A process that started with fewer meets an account of a shard it did not know.
        while True:
            account = await raised.accounts.create(ids.new_operation(), credits=1, plan=Plan.SCALE)
            if account.account_id.startswith("acc_04"):
                break
        _, value = await raised.api_keys.create(account.account_id, "x")
        caller = await valkey_scene.store.api_keys.admit(value)
        assert caller is not None
        assert caller.account_id == account.account_id
        assert valkey_scene.store.shards.count == 5
    finally:
        await raised.aclose()
        await unasked.aclose()
    await valkey_scene.assert_sound()


async def test_a_new_store_has_sixteen_shards(valkey: ValkeyProcess) -> None:
    store = await Store.open(Settings(redis_url=valkey.url))
    assert store.shards.count == 16
    await store.aclose()


async def test_more_credits_than_can_be_counted_are_refused(scene: Scene) -> None:
    with pytest.raises(TooMany, match="cannot be counted"):
        await scene.store.accounts.grant(scene.account_id, 2**53)
    await scene.assert_sound()
    assert await scene.store.accounts.credits(scene.account_id) == CREDITS
