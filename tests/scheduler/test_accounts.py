"""Accounts, their ledger, and their keys."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from scheduler import ids
from scheduler.errors import NameTaken, NotFound, StoreMisconfigured, TooMany
from scheduler.models import Account, Caller, Plan, Rate
from scheduler.rollups import DAY_MS
from scheduler.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.server import Script
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
        lambda: accounts.create_key(nobody, "key"),
        lambda: accounts.list_keys(nobody),
        lambda: accounts.deactivate_key(ids.new_key_id(0)),
        lambda: accounts.deactivate_key(ids.new_key_id(SHARDS + 1)),
        lambda: accounts.deactivate_key("key"),
    ):
        assert isinstance(await settled(call), NotFound)


async def test_a_name_is_taken_once(scene: Scene) -> None:
    results = await asyncio.gather(
        *(settled(lambda: scene.account("wanted", credits=7)) for _ in range(20))
    )
    assert sorted(type(each).__name__ for each in results) == ["NameTaken"] * 19 + ["str"]
    with pytest.raises(NameTaken, match="wanted"):
        await scene.account("wanted")
    assert [each.name for each in await scene.store.accounts.list_accounts()].count("wanted") == 1
    assert (await scene.store.accounts.find("wanted")).credits == 7
    await scene.assert_sound()


async def test_a_name_left_over_from_a_crash_is_told_and_healed(scene: Scene) -> None:
    left_over = ids.new_account_id(1)
    await scene.store.client.set(keys.account_name("half"), left_over)
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
        await scene.store.client.zcard(keys.shard(shard) + keys.ACCOUNTS) for shard in range(SHARDS)
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
    await scene.store.client.set(keys.account_name("x"), f"acc_00_{local}")
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
    await scene.store.schedules.cancel(scene.account_id, cancelled)
    moved: dict[bytes, int] = {}
    async for key in scene.store.client.scan_iter(match=scene.base + "day:*"):
        for name, value in (await scene.store.client.hgetall(key)).items():
            name = b"spent" if name.endswith(b"s") else name
            if name in (b"granted", b"spent", b"refunded"):
                moved[name] = moved.get(name, 0) + int(value)
    assert moved == {b"granted": CREDITS + 11, b"spent": 2, b"refunded": 1}
    await scene.assert_sound()


async def test_a_key_admits_its_holder(scene: Scene) -> None:
    key, value = await scene.store.accounts.create_key(scene.account_id, "laptop")
    caller = await scene.store.accounts.admit(value)
    assert caller == Caller(scene.account_id, key.key_id, Plan.FREE, Rate(10, 9, 1, 0))
    assert key.active
    assert value.startswith(key.prefix)
    assert len(key.prefix) < 16
    assert [each.key_id for each in await scene.store.accounts.list_keys(scene.account_id)] == [
        key.key_id
    ]


async def test_only_the_hash_of_a_key_is_stored(scene: Scene) -> None:
    _, value = await scene.store.accounts.create_key(scene.account_id, "laptop")
    secret = value.split("_", 2)[2].encode()
    async for key in scene.store.client.scan_iter():
        assert secret not in key
        if await scene.store.client.type(key) == b"hash":
            assert secret not in b"".join((await scene.store.client.hgetall(key)).values())
        if await scene.store.client.type(key) == b"string":
            assert secret not in await scene.store.client.get(key)


async def test_unknown_keys_admit_nobody(scene: Scene) -> None:
    _, value = await scene.store.accounts.create_key(scene.account_id, "laptop")
    for wrong in (
        "",
        "x",
        value[:-1],
        value + "x",
        value[:-1] + ("A" if value[-1] != "A" else "B"),
        ids.new_api_key(scene.shard),
        ids.new_api_key(SHARDS + 5),
        ids.new_api_key(99_999),
        value.replace("pd_0", "pd_1"),
        "pd_00_" + "é" * 43,
    ):
        assert await scene.store.accounts.admit(wrong) is None


async def test_a_deactivated_key_is_refused_by_every_process_at_once(
    valkey: ValkeyProcess, settings: Settings, valkey_scene: Scene
) -> None:
    other = await Store.open(msgspec.structs.replace(settings, redis_url=valkey.url))
    try:
        key, value = await valkey_scene.store.accounts.create_key(valkey_scene.account_id, "x")
        for store in (valkey_scene.store, other):
            assert await store.accounts.admit(value) is not None
        for _ in range(2):
            assert not (await other.accounts.deactivate_key(key.key_id)).active
        for store in (valkey_scene.store, other):
            assert await store.accounts.admit(value) is None
        [listed] = await valkey_scene.store.accounts.list_keys(valkey_scene.account_id)
        assert not listed.active
    finally:
        await other.aclose()


async def test_parallel_admissions_each_get_their_own_answer(scene: Scene) -> None:
    made = [await scene.store.accounts.create_key(scene.account_id, f"{n}") for n in range(20)]
    await scene.store.accounts.deactivate_key(made[3][0].key_id)
    callers = await asyncio.gather(*(scene.store.accounts.admit(value) for _, value in made))
    expected = [key.key_id for key, _ in made]
    assert [caller and caller.key_id for caller in callers] == [
        None if n == 3 else key_id for n, key_id in enumerate(expected)
    ]


async def test_last_use_is_noted_at_most_once_a_minute(fake_scene: Scene) -> None:
    scene = fake_scene
    key, value = await scene.store.accounts.create_key(scene.account_id, "laptop")
    assert key.last_used_at_ms is None

    async def last_used() -> int | None:
        await scene.store.accounts.admit(value)
        [listed] = await scene.store.accounts.list_keys(scene.account_id)
        return listed.last_used_at_ms

    first_ms = await scene.clock.now_ms()
    assert await last_used() == first_ms
    await scene.clock.pass_ms(59_999)
    assert await last_used() == first_ms
    await scene.clock.pass_ms(1)
    assert await last_used() == first_ms + 60_000


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
        _, value = await raised.accounts.create_key(account.account_id, "x")
        caller = await valkey_scene.store.accounts.admit(value)
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


async def test_an_account_has_a_hundred_active_keys_at_most(scene: Scene) -> None:
    accounts = scene.store.accounts
    made = [await accounts.create_key(scene.account_id, f"{n}") for n in range(100)]
    with pytest.raises(TooMany, match=r"100 active API keys; deactivate one first"):
        await accounts.create_key(scene.account_id, "one more")
    assert len(await accounts.list_keys(scene.account_id)) == 100
    await accounts.deactivate_key(made[50][0].key_id)
    await accounts.create_key(scene.account_id, "one more")
    await accounts.create_key(await scene.account("another"), "its first")


async def test_of_three_hundred_keys_the_oldest_inactive_one_is_forgotten(scene: Scene) -> None:
    accounts = scene.store.accounts
    first, first_value = await accounts.create_key(scene.account_id, "stays")
    made = []
    for n in range(301):
        key, value = await accounts.create_key(scene.account_id, f"{n}")
        made.append(await accounts.deactivate_key(key.key_id))
        if n < 3:  # those of one millisecond are in no order
            await scene.clock.pass_ms(2)
    listed = await accounts.list_keys(scene.account_id)
    assert {each.name for each in listed} == {"stays", *map(str, range(2, 301))}
    assert listed[0] == first
    assert await accounts.admit(first_value) is not None
    assert await accounts.admit(value) is None
    with pytest.raises(NotFound):
        await accounts.deactivate_key(made[0].key_id)


async def test_more_credits_than_can_be_counted_are_refused(scene: Scene) -> None:
    with pytest.raises(TooMany, match="cannot be counted"):
        await scene.store.accounts.grant(scene.account_id, 2**53)
    await scene.assert_sound()
    assert await scene.store.accounts.credits(scene.account_id) == CREDITS
