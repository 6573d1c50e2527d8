"""Accounts, and their ledger."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from scheduler import ids
from scheduler.errors import NotFound, StoreMisconfigured, Taken, TooMany
from scheduler.models import Account, Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from tests.store.scene import CREDITS, Scene, settled
from tests.support.servers import ValkeyProcess

pytestmark = [pytest.mark.sound, pytest.mark.usefixtures("checks_at_once")]


async def test_what_is_read_is_what_was_made(scene: Scene) -> None:
    name, email = "É *[x]?{y}:z", "a@example.com"
    accounts = scene.store.accounts
    before_ms = await scene.clock.now_ms()
    made = await accounts.create(name, credits=5, plan=Plan.PRO, email=email, operator=True)
    after_ms = await scene.clock.now_ms()
    expected = (made.account_id, name, Plan.PRO, 5, 5, 0, made.created_at_ms, True)
    assert made == Account(*expected)
    assert await accounts.find(name) == made
    assert await accounts.find(made.account_id) == made
    assert made in (await accounts.some())[0]
    assert before_ms - 1000 < made.created_at_ms < after_ms + 1000


async def test_an_unknown_account_is_not_found(scene: Scene) -> None:
    accounts, unknown = scene.store.accounts, ids.new_account_id(0)
    for call, which in (
        (accounts.find, "unknown"),
        (accounts.find, unknown),
        (accounts.get, unknown),
        (partial(accounts.grant, credits=1), unknown),
    ):
        with pytest.raises(NotFound):
            await call(which)  # type: ignore[operator]


async def test_a_name_is_taken_once(scene: Scene) -> None:
    results = await asyncio.gather(*(settled(lambda: scene.account("wanted")) for _ in range(20)))
    assert sorted(type(each).__name__ for each in results) == ["Taken"] * 19 + ["str"]
    for again in (scene.account, partial(scene.store.changes.rename, scene.account_id)):
        with pytest.raises(Taken, match="'wanted'"):
            await again("wanted")
    names = [each.name for each in (await scene.store.accounts.some())[0]]
    assert sorted(names) == ["first", "wanted"]
    assert (await scene.store.accounts.find("wanted")).account_id in results


async def test_a_grant_repeated_with_its_operation_is_done_once(scene: Scene) -> None:
    for operation in ("one", "one", "two", "one"):
        await scene.store.accounts.grant(scene.account_id, 10, operation)
    assert await scene.credits() == CREDITS + 20


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
    assert caller.account_id == theirs
    assert valkey_scene.store.shards.count == 5
    await raised.aclose()
    await unasked.aclose()


async def test_more_credits_than_can_be_counted_are_refused(scene: Scene) -> None:
    with pytest.raises(TooMany, match="cannot be counted"):
        await scene.store.accounts.grant(scene.account_id, 2**53)
    await scene.assert_sound()
    assert await scene.credits() == CREDITS


@pytest.mark.harmed
async def test_a_damaged_account_hides_no_other(scene: Scene) -> None:
    other = await scene.account("other")
    await scene.redis.hset(scene.base + keys.ACCOUNT, "plan", "none")
    assert [each.account_id for each in (await scene.store.accounts.some())[0]] == [other]
