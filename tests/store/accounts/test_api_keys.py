"""API keys: whom they admit, how often, and how many there are."""

from __future__ import annotations

import msgspec
import pytest

from scheduler import ids
from scheduler.callers import Caller, Rate
from scheduler.errors import NotFound, TooMany
from scheduler.models import Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from tests.store.conftest import SHARDS
from tests.store.scene import Scene
from tests.support.servers import ValkeyProcess


async def test_an_unknown_key_and_those_of_an_unknown_account_are_not_found(scene: Scene) -> None:
    api_keys, unknown = scene.store.api_keys, ids.new_account_id(0)
    missing = (ids.new_key_id(0), ids.new_key_id(SHARDS + 1), "key")
    for call in (
        api_keys.create(unknown, "key"),
        api_keys.of_account(unknown),
        *map(api_keys.deactivate, missing),
    ):
        with pytest.raises(NotFound):
            await call


async def test_a_key_admits_its_holder(scene: Scene) -> None:
    key, value = await scene.store.api_keys.create(scene.account_id, "laptop")
    caller = await scene.store.api_keys.admit(value)
    assert caller == Caller(scene.account_id, key.key_id, Plan.FREE, Rate(10, 9, 1, 0))
    assert key.active
    assert value.startswith(key.prefix)
    assert len(key.prefix) < 16
    [listed] = await scene.store.api_keys.of_account(scene.account_id)
    assert listed.key_id == key.key_id


@pytest.mark.parametrize("refused", ["suspended", "limited"])
async def test_a_key_whose_holder_is_refused_is_not_worth_a_try(scene: Scene, refused: str) -> None:
    _, value = await scene.store.api_keys.create(scene.account_id, "laptop")
    if refused == "suspended":
        await scene.store.changes.suspend(scene.account_id)
    else:
        await scene.redis.set(scene.base + keys.RATE, 2**53)
    assert await scene.store.api_keys.admit(value) is not None
    assert scene.store.api_keys.known(value) is None


async def test_unknown_keys_admit_nobody(scene: Scene) -> None:
    _, value = await scene.store.api_keys.create(scene.account_id, "laptop")
    for wrong in (
        "",
        value[:-1],
        value[:-1] + ("A" if value[-1] != "A" else "B"),
        ids.new_api_key(scene.shard),
        ids.new_api_key(SHARDS + 5),
        "pd_00_" + "é" * 43,
    ):
        assert await scene.store.api_keys.admit(wrong) is None


async def test_a_deactivated_key_is_refused_by_every_process_at_once(
    valkey: ValkeyProcess, settings: Settings, valkey_scene: Scene
) -> None:
    other = await Store.open(msgspec.structs.replace(settings, redis_url=valkey.url))
    stores, account_id = (valkey_scene.store, other), valkey_scene.account_id
    key, value = await other.api_keys.create(account_id, "x")
    assert all([await store.api_keys.admit(value) for store in stores])
    for _ in range(2):
        assert not (await other.api_keys.deactivate(key.key_id)).active
    assert [await store.api_keys.admit(value) for store in stores] == [None, None]
    [listed] = await valkey_scene.store.api_keys.of_account(account_id)
    assert not listed.active
    await other.aclose()


async def test_last_use_is_noted_at_most_once_a_minute(fake_scene: Scene) -> None:
    scene = fake_scene
    key, value = await scene.store.api_keys.create(scene.account_id, "laptop")
    assert key.last_used_at_ms is None

    async def last_used() -> int | None:
        await scene.store.api_keys.admit(value)
        [listed] = await scene.store.api_keys.of_account(scene.account_id)
        return listed.last_used_at_ms

    first_ms = await scene.clock.now_ms()
    assert await last_used() == first_ms
    await scene.clock.pass_ms(59_999)
    assert await last_used() == first_ms
    await scene.clock.pass_ms(1)
    assert await last_used() == first_ms + 60_000


async def test_an_account_has_a_hundred_active_keys_at_most(scene: Scene) -> None:
    api_keys = scene.store.api_keys
    made = [await api_keys.create(scene.account_id, f"{n}") for n in range(100)]
    with pytest.raises(TooMany, match=r"100 active API keys; deactivate one first"):
        await api_keys.create(scene.account_id, "one more")
    assert len(await api_keys.of_account(scene.account_id)) == 100
    await api_keys.deactivate(made[50][0].key_id)
    await api_keys.create(scene.account_id, "one more")
    await api_keys.create(await scene.account("another"), "its first")


async def test_of_a_plans_burst_the_last_bit_is_paid_for_after_a_second(fake_scene: Scene) -> None:
    scene = fake_scene
    _, value = await scene.store.api_keys.create(scene.account_id, "key")
    for _ in range(10):
        await scene.store.api_keys.admit(value)
    await scene.clock.pass_ms(950)
    standing = (await scene.store.api_keys.admit(value)).rate
    assert (standing.wait_s, standing.remaining) == (0, 8)
