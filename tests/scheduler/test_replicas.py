"""Replicas that must have what callers rely on: one that is there, that lags, that is gone."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
import structlog
from redis.asyncio import Redis

from scheduler.errors import OutcomeUnknown, StoreUnavailable
from scheduler.models import Delivery, Plan
from scheduler.settings import Settings
from scheduler.store import Store
from scheduler.store.server import Server
from scheduler.store.server.line import Argument
from scheduler.store.server.replicated import Replicated
from tests.plain import redis_of
from tests.scheduler.clocks import ServerClock
from tests.scheduler.scene import CREDITS, Holdings, Scene, ids_of, settled
from tests.servers import ValkeyProcess, free_port, until_async

SYNC_AT_ONCE = {"repl-diskless-sync-delay": 0}


@pytest.fixture
def primary(store_server: str) -> Iterator[ValkeyProcess]:
    with ValkeyProcess(port=free_port(), options=SYNC_AT_ONCE) as server:
        yield server


@pytest.fixture
def replica(store_server: str) -> Iterator[ValkeyProcess]:
    """A server that follows no primary yet."""
    with ValkeyProcess() as server:
        yield server


@pytest.fixture
async def careful(primary: ValkeyProcess, replica: ValkeyProcess) -> AsyncIterator[Scene]:
    """An account in a store whose replica is there, and which waits for it."""
    store = await Store.open(Settings(redis_url=primary.url, wait_replicas=1, shards=2))
    await follow(replica, primary, store)
    account = await store.accounts.create("first", credits=CREDITS, plan=Plan.FREE)
    yield Scene(store, ServerClock(store), account.account_id)
    await store.aclose()


async def follow(replica: ValkeyProcess, primary: ValkeyProcess, store: Store) -> None:
    """Returns once the primary sends it what it writes."""
    assert primary.tcp_url is not None
    host, port = primary.tcp_url.split("//")[1].removesuffix("/0").split(":")
    async with Redis.from_url(replica.url) as follower:
        await follower.replicaof(host, port)

    async def there() -> bool:
        return (await redis_of(store).info("replication")).get("slave0", {}).get(
            "state"
        ) == "online"

    await until_async(there, "the replica")


async def count_replicas(scene: Scene) -> int:
    return len((await redis_of(scene.store).execute_command("ROLE"))[2])


def forget_replicas(server: Server) -> None:
    """As if a second had passed since it asked how many there are."""
    server._enough_until_s.clear()


async def test_a_replica_that_is_there_confirms(careful: Scene) -> None:
    cancelled = await careful.create(60_000)
    assert (await careful.store.canceller.cancel(careful.account_id, cancelled)).credits == CREDITS
    schedule_id = await careful.create(delivery=Delivery.AT_MOST_ONCE)
    claimed = await careful.claim()
    assert ids_of(claimed) == [schedule_id]
    assert await careful.ack(claimed) == [1]
    await careful.assert_sound()


async def test_without_a_replica_nothing_is_written(valkey: ValkeyProcess) -> None:
    """Certainly so: that is what "unavailable" means."""
    plain = await Store.open(Settings(redis_url=valkey.url, shards=2))
    account = await plain.accounts.create("first", credits=CREDITS, plan=Plan.FREE)
    scene = Scene(plain, ServerClock(plain), account.account_id)
    waiting = await scene.create(60_000)
    before, [names] = await scene.holdings(), [await redis_of(plain).keys("*")]
    store = await Store.open(Settings(redis_url=valkey.url, shards=2, wait_replicas=1))
    alone = Scene(store, scene.clock, account.account_id)
    began_s = time.monotonic()
    for call in (
        lambda: alone.create(60_000),
        lambda: store.canceller.cancel(account.account_id, waiting),
        lambda: store.accounts.grant(account.account_id, 1),
        lambda: store.api_keys.create(account.account_id, "x"),
    ):
        assert type(await settled(call)) is StoreUnavailable
    assert time.monotonic() - began_s < 2
    assert await scene.holdings() == before
    assert sorted(await redis_of(plain).keys("*")) == sorted(names)
    await store.aclose()
    await plain.aclose()


async def test_that_writes_are_refused_is_told_once(valkey: ValkeyProcess) -> None:
    store = await Store.open(Settings(redis_url=valkey.url, shards=2, wait_replicas=1))
    with structlog.testing.capture_logs() as told:
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await store.accounts.create("first", credits=1, plan=Plan.FREE)
    assert [each["reason"] for each in told] == ["Too few replicas of the store are connected"]
    await store.aclose()


async def test_a_replica_that_lags_is_an_unknown_outcome(
    careful: Scene, replica: ValkeyProcess
) -> None:
    """It is done, and the error says that it may be: once the replica is back, nothing
    was done twice."""
    replica.pause()
    try:
        began_s = time.monotonic()
        with pytest.raises(OutcomeUnknown, match=r"Too few replicas|answer was lost"):
            await careful.create(60_000)
        assert time.monotonic() - began_s < 10
    finally:
        replica.resume()
    assert await careful.holdings() == Holdings(CREDITS - 1, 1, 1, 0, {"scheduled": 1})
    await careful.create(60_000)
    await careful.assert_sound()


async def test_a_replica_that_is_lost_is_missed_within_a_second(
    careful: Scene, replica: ValkeyProcess
) -> None:
    """In that second writes are known to be uncertain; after it, none happens."""
    await careful.create(60_000)
    replica.kill()

    async def gone() -> bool:
        return await count_replicas(careful) == 0

    await until_async(gone, "the replica to be missed")
    first = await settled(lambda: careful.create(60_000))
    assert isinstance(first, OutcomeUnknown | StoreUnavailable)
    forget_replicas(careful.store.server)
    before = await careful.holdings()
    assert type(await settled(lambda: careful.create(60_000))) is StoreUnavailable
    assert await careful.holdings() == before
    assert before.waiting == 1 + isinstance(first, OutcomeUnknown)
    await careful.assert_sound()


async def test_how_many_there_are_is_asked_once_a_second(
    careful: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, asked = careful.store.server, 0
    ask = Replicated.enough_replicas

    async def counted(apart: Replicated) -> None:
        nonlocal asked
        asked += 1
        await ask(apart)

    monkeypatch.setattr(Replicated, "enough_replicas", counted)
    forget_replicas(server)
    began_s = time.monotonic()
    for _ in range(5):
        await careful.create(60_000)
    assert 1 <= asked <= 1 + (time.monotonic() - began_s)
    forget_replicas(server)
    await careful.create(60_000)
    assert asked >= 2


async def test_at_most_once_ones_wait_for_the_replicas_that_others_do_not(
    careful: Scene, replica: ValkeyProcess
) -> None:
    once = await careful.create(delivery=Delivery.AT_MOST_ONCE)
    usual = await careful.create()
    replica.pause()
    try:
        assert ids_of(await careful.claim()) == [usual]
    finally:
        replica.resume()

    async def acknowledged() -> list[str]:
        return ids_of(await careful.claim())

    assert await until_async(acknowledged, "the replica to be there") == [once]
    await careful.assert_sound()


async def test_others_are_handed_out_though_the_careful_ones_cannot_be_given_back(
    careful: Scene, replica: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = await careful.create(delivery=Delivery.AT_MOST_ONCE)
    usual = await careful.create()

    async def fails(*_: object) -> None:
        raise OutcomeUnknown("The store's answer was lost")

    replica.pause()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(careful.store.claims, "release", fails)
            claimed = await careful.claim()
    finally:
        replica.resume()
    assert ids_of(claimed) == [usual]
    # It waits for its lease's end.
    assert (await careful.store.schedules.get(careful.account_id, once)).executing
    await careful.assert_sound()


async def test_a_full_store_does_not_make_a_done_write_look_undone(
    careful: Scene, replica: ValkeyProcess
) -> None:
    """What follows the script to ask the replicas must not answer for it; and an ack, which
    no client relies on, waits for none."""
    waiting, _ = await careful.create(60_000), await careful.create(-1000)
    [held] = await careful.claim()
    await redis_of(careful.store).config_set("maxmemory", 1)
    replica.pause()
    try:
        with pytest.raises(OutcomeUnknown):
            await careful.store.canceller.cancel(careful.account_id, waiting)
        assert await careful.ack([held]) == [1]
    finally:
        replica.resume()
        await redis_of(careful.store).config_set("maxmemory", 0)
    assert await careful.store.accounts.credits(careful.account_id) == CREDITS - 1
    await careful.assert_sound()


async def test_replicas_that_cannot_be_asked_are_an_unknown_outcome(
    careful: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never "unavailable", which would say that nothing was done."""

    replies = Replicated._replies

    async def broken(apart: Replicated, commands: Sequence[Sequence[Argument]]) -> list[Any]:
        if commands[-1][0] == "WAIT":
            raise StoreUnavailable("The store cannot be reached")
        return await replies(apart, commands)

    with monkeypatch.context() as patched:
        patched.setattr(Replicated, "_replies", broken)
        with pytest.raises(OutcomeUnknown):
            await careful.create(60_000)
    assert (await careful.holdings()).waiting == 1


async def test_a_claim_that_was_cut_off_is_not_confirmed_by_whoever_is_there_then(
    careful: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next server may have taken over without the claim, and its replicas confirm all the
    same; so a connection that broke is not made anew to ask."""
    schedule_id = await careful.create(delivery=Delivery.AT_MOST_ONCE)
    ask = Replicated.replicated

    async def after_a_cut(apart: Replicated) -> None:
        await redis_of(careful.store).execute_command("CLIENT KILL TYPE normal")
        await ask(apart)

    with monkeypatch.context() as patched:
        patched.setattr(Replicated, "replicated", after_a_cut)
        assert await careful.claim() == []
    assert ids_of(await careful.claim()) == [schedule_id]
    await careful.assert_sound()
