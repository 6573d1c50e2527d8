"""Claims from several shards share a round trip, as do the outcomes of several: nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.errors import OutcomeUnknown, StoreError, Unreadable
from scheduler.models import Invocation
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.lifecycle.claim.claim import Batch, ClaimOrder
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.verdict import Verdict
from tests.store.clocks import ServerClock
from tests.store.scene import COMPLETED, LEASE_MS, Scene, ids_of
from tests.support.servers import DroppingProxy, script

pytestmark = pytest.mark.sound


@pytest.fixture
async def accounts(scene: Scene) -> list[str]:
    """The scene's own, and one in the other shard."""
    found = [scene.account_id, await scene.account("elsewhere")]
    assert [keys.parts(each).shard for each in found] in ([0, 1], [1, 0])
    return found


@pytest.fixture
def trips(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commands each round trip had."""
    way, found = scene.store.server.way, list[int]()
    replies = way.replies

    async def counted(commands: Sequence[Any], *key: Any, **options: Any) -> list[Any]:
        found.append(len(commands))
        return await replies(commands, *key, **options)

    monkeypatch.setattr(way, "replies", counted)
    return found


async def claim(scene: Scene, accounts: list[str], *most: int) -> list[Any]:
    orders = [
        ClaimOrder(keys.parts(account).shard, most)
        for account, most in zip(accounts, most or (128, 128), strict=True)
    ]
    return await scene.store.claims.claim_each(orders, lease_ms=LEASE_MS, most_accounts=16)


async def ack(scene: Scene, held: Sequence[Invocation]) -> list[Verdict | StoreError]:
    return await scene.store.ends.ack_each([Ack(each, COMPLETED, 0) for each in held])


async def held(scene: Scene, accounts: list[str], count: int = 1) -> list[Invocation]:
    for account in accounts:
        for _ in range(count):
            await scene.create(account_id=account)
    batches = await claim(scene, accounts)
    return [each for batch in batches for each in batch.invocations]


async def test_each_shard_has_its_own_room_and_its_own_leases(
    scene: Scene, accounts: list[str], trips: list[int]
) -> None:
    there = [[await scene.create(account_id=each) for _ in range(3)] for each in accounts]
    await claim(scene, accounts, 0, 0)  # the server knows the script by now
    trips.clear()
    found = await claim(scene, accounts, 2, 3)
    assert trips == [2], "both shards' claims in one round trip"
    assert [len(batch.invocations) for batch in found] == [2, 3]
    assert [batch.full for batch in found] == [True, False]
    for names, batch, account in zip(there, found, accounts, strict=True):
        assert set(ids_of(batch.invocations)) <= set(names)
        assert {each.shard for each in batch.invocations} == {keys.parts(account).shard}
    everything = [each for batch in found for each in batch.invocations]
    assert await ack(scene, everything) == [Verdict.DONE] * 5


@pytest.mark.parametrize("broken", [0, 1])
async def test_a_damaged_shard_spoils_no_other(
    scene: Scene, accounts: list[str], broken: int
) -> None:
    mine = await held(scene, accounts)
    for account in accounts:
        await scene.create(account_id=account)
    heads = keys.shard(keys.parts(accounts[broken]).shard) + keys.HEADS
    await scene.redis.rename(heads, "sound")
    await scene.redis.set(heads, "damaged")
    found = await claim(scene, accounts)
    assert isinstance(found[broken], Unreadable)
    assert [len(each.invocations) for each in found if isinstance(each, Batch)] == [1]
    verdicts = await ack(scene, mine)
    assert isinstance(verdicts[broken], Unreadable)
    assert verdicts[1 - broken] is Verdict.DONE
    await scene.redis.rename("sound", heads)
    assert await ack(scene, [mine[broken]]) == [Verdict.DONE]


async def test_a_shard_on_hold_says_so_for_itself(scene: Scene, accounts: list[str]) -> None:
    for account in accounts:
        await scene.create(account_id=account)
    await scene.redis.set(keys.shard(keys.parts(accounts[0]).shard) + keys.HOLD, 1)
    found = await claim(scene, accounts)
    assert [(batch.on_hold, len(batch.invocations)) for batch in found] == [(True, 0), (False, 1)]


async def test_only_the_account_with_a_stale_outcome_is_sent_again(
    scene: Scene, accounts: list[str], trips: list[int]
) -> None:
    mine = await held(scene, accounts, 2)
    await ack(scene, await held(scene, accounts))
    anothers = {mine[0].schedule_id[4:]: 1.5}
    await scene.redis.zadd(scene.base + keys.WAITING, anothers)
    trips.clear()
    verdicts = await ack(scene, mine)
    assert verdicts == [Verdict.HELD, Verdict.DONE, Verdict.DONE, Verdict.DONE]
    assert trips == [2, 1]
    own = {mine[0].schedule_id[4:]: int(mine[0].token) / 1000}
    await scene.redis.zadd(scene.base + keys.WAITING, own)
    assert await ack(scene, mine[:1]) == [Verdict.DONE]


async def test_a_script_that_the_server_does_not_know_is_sent_whole(
    scene: Scene, accounts: list[str], trips: list[int]
) -> None:
    await scene.redis.script_flush()
    mine = await held(scene, accounts)
    assert trips[-2:] == [2, 2]
    await scene.redis.script_flush()
    assert await ack(scene, mine) == [Verdict.DONE] * 2


@pytest.mark.parametrize("lost", ["lifecycle/claim/claim", "lifecycle/end/end"])
async def test_where_the_reply_is_lost_it_is_for_all_and_nothing_is_done_twice(
    proxy: DroppingProxy, lost: str
) -> None:
    store = await Store.open(Settings(redis_url=f"redis://127.0.0.1:{proxy.port}/0", shards=2))
    scene = await Scene.of(store, ServerClock(store))
    accounts = [scene.account_id, await scene.account("elsewhere")]
    await ack(scene, await held(scene, accounts))
    for account in accounts:
        await scene.create(account_id=account)
    proxy.drop_reply(script(lost))
    claimed = await claim(scene, accounts)
    if lost == "lifecycle/claim/claim":
        assert [type(each) for each in claimed] == [OutcomeUnknown] * 2
        assert (await claim(scene, accounts))[0].invocations == [], "its lease holds"
    else:
        mine = [each for batch in claimed for each in batch.invocations]
        assert [type(each) for each in await ack(scene, mine)] == [OutcomeUnknown] * 2
        first, second = await ack(scene, mine)
        assert first is Verdict.ENDED
        assert second in (Verdict.ENDED, Verdict.DONE), "the proxy cut the line before it, or not"
    await store.aclose()
