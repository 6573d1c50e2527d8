"""Accounts, and their ledger."""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

import pytest

from scheduler import ids
from scheduler.errors import NotFound, StoreMisconfigured, Taken, TooMany
from scheduler.models import Account, Plan
from scheduler.rollups import DAY_MS
from scheduler.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.server import Script
from tests.scheduler.scene import CREDITS, Scene, settled
from tests.servers import ValkeyProcess

pytestmark = [pytest.mark.sound, pytest.mark.usefixtures("checks_at_once")]


async def test_what_is_read_is_what_was_made(scene: Scene) -> None:
    name, email = "É *[x]?{y}:z", "a@example.com"
    accounts = scene.store.accounts
    made = await accounts.create(name, credits=5, plan=Plan.PRO, email=email, operator=True)
    expected = (made.account_id, name, Plan.PRO, 5, 5, 0, made.created_at_ms, email, True)
    assert made == Account(*expected)
    assert await accounts.find(name) == made
    assert await accounts.find(made.account_id) == made
    assert made in await accounts.list_accounts()
    assert abs(made.created_at_ms - await scene.clock.now_ms()) < 1000


async def test_an_unknown_account_is_not_found(scene: Scene) -> None:
    accounts, unknown = scene.store.accounts, ids.new_account_id(0)
    for call, which in (
        (accounts.find, "unknown"),
        (accounts.find, unknown),
        (accounts.get, unknown),
        (accounts.credits, unknown),
        (partial(accounts.grant, credits=1), unknown),
    ):
        with pytest.raises(NotFound):
            await call(which)  # type: ignore[operator]


async def test_a_name_is_taken_once(scene: Scene) -> None:
    results = await asyncio.gather(*(settled(lambda: scene.account("wanted")) for _ in range(20)))
    assert sorted(type(each).__name__ for each in results) == ["Taken"] * 19 + ["str"]
    with pytest.raises(Taken, match="wanted"):
        await scene.account("wanted")
    assert [each.name for each in await scene.store.accounts.list_accounts()].count("wanted") == 1
    assert (await scene.store.accounts.find("wanted")).account_id in results


async def test_a_name_left_over_from_a_crash_is_told_and_healed(scene: Scene) -> None:
    left_over = ids.new_account_id(1)
    await scene.redis.set(keys.NAME + "half", left_over)
    with pytest.raises(NotFound):
        await scene.store.accounts.find("half")
    [sentence] = await scene.store.check()
    assert all(each in sentence for each in ("'half'", left_over))
    assert await scene.account("half") == left_over


async def test_accounts_are_spread_over_the_shards(scene: Scene) -> None:
    made = [scene.account_id] + [await scene.account(f"account {n}") for n in range(7)]
    assert sorted(keys.parts(each).shard for each in made) == [0, 0, 0, 0, 1, 1, 1, 1]


async def test_parallel_grants_all_count(scene: Scene) -> None:
    await asyncio.gather(*(scene.store.accounts.grant(scene.account_id, n) for n in range(1, 51)))
    account = await scene.store.accounts.get(scene.account_id)
    assert (account.credits, account.granted) == (CREDITS + 1275, CREDITS + 1275)


async def test_a_grant_repeated_with_its_operation_is_done_once(scene: Scene) -> None:
    for operation in ("one", "one", "two", "one"):
        await scene.store.accounts.grant(scene.account_id, 10, operation)
    assert await scene.credits() == CREDITS + 20


async def test_an_account_made_again_with_its_operation_is_made_once(scene: Scene) -> None:
    local = ids.new_account_id(0)[-8:]
    await scene.redis.set(keys.NAME + "x", f"acc_00_{local}")
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


async def test_the_days_movements_are_the_ledgers(scene: Scene) -> None:
    await scene.store.accounts.grant(scene.account_id, 11)
    await scene.run()
    await scene.cancel(await scene.create())
    moved: Counter[bytes] = Counter()
    async for key in scene.redis.scan_iter(match=scene.base + "day:*"):
        for name, value in (await scene.redis.hgetall(key)).items():
            moved[b"spent" if name.endswith(b"s") else name] += int(value)
    assert [moved[name] for name in (b"granted", b"spent", b"refunded")] == [CREDITS + 11, 2, 1]


async def test_more_shards_are_taken_up_and_fewer_refused(
    valkey: ValkeyProcess, valkey_scene: Scene
) -> None:
    async def opened(shards: int | None) -> Store:
        return await Store.open(Settings(redis_url=valkey.url, shards=shards))

    with pytest.raises(StoreMisconfigured, match="POSTDATE_SHARDS is 1, but the store has 2"):
        await opened(1)
    raised = await opened(5)
    unasked = await opened(None)
    assert (raised.shards.count, unasked.shards.count) == (5, 5)
    # A process that started with fewer meets an account of a shard it did not know.
    scene = Scene(raised, valkey_scene.clock, valkey_scene.account_id)
    made = [await scene.account(f"{n}") for n in range(5)]
    [theirs] = [each for each in made if keys.parts(each).shard == 4]
    _, value = await raised.api_keys.create(theirs, "x")
    caller = await valkey_scene.store.api_keys.admit(value)
    assert caller is not None
    assert caller.account_id == theirs
    assert valkey_scene.store.shards.count == 5
    await raised.aclose()
    await unasked.aclose()


async def test_a_new_store_has_sixteen_shards(valkey: ValkeyProcess) -> None:
    store = await Store.open(Settings(redis_url=valkey.url))
    assert store.shards.count == 16
    await store.aclose()


async def test_more_credits_than_can_be_counted_are_refused(scene: Scene) -> None:
    with pytest.raises(TooMany, match="cannot be counted"):
        await scene.store.accounts.grant(scene.account_id, 2**53)
    await scene.assert_sound()
    assert await scene.credits() == CREDITS
