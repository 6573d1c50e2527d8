"""Replicas that must have what callers rely on: one that is there, that lags, that is gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from scheduler.errors import OutcomeUnknown, StoreUnavailable
from scheduler.events import Kind
from scheduler.lane_settings import LaneSettings
from scheduler.models import Delivery, Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.server.server import Replicated
from tests.store.clocks import ServerClock
from tests.store.scene import CREDITS, Holdings, Scene, ids_of, settled
from tests.support.cluster import ask, port_of
from tests.support.plain import redis_of
from tests.support.servers import DEADLINE_S, ValkeyProcess, free_port, until, until_async

SYNC_AT_ONCE = {"repl-diskless-sync-delay": 0}
LIMITS = LaneSettings(rate=1, per_ms=1000)
Lag = Callable[[], AbstractContextManager[None]]
_TIMEOUT = "scheduler.store.server.server._REPLICAS_TIMEOUT_MS"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.store.server.server._PAUSES_S", (0.0, 0.0))


@pytest.fixture(scope="module")
def servers(store_server: str) -> Iterator[tuple[ValkeyProcess, ValkeyProcess]]:
    """A primary and its replica-to-be."""
    with ValkeyProcess(port=free_port(), options=SYNC_AT_ONCE) as primary, ValkeyProcess() as other:
        yield primary, other


@pytest.fixture
def replica(servers: tuple[ValkeyProcess, ValkeyProcess]) -> ValkeyProcess:
    """It follows the primary, which is empty."""
    primary, replica = servers
    primary.flush()
    ask(replica, "REPLICAOF", "127.0.0.1", port_of(primary))
    until(lambda: ask(replica, "ROLE")[3] == b"connected", "the replica")
    until(lambda: len(ask(primary, "ROLE")[2]) == 1, "the primary to send it what it writes")
    return replica


@pytest.fixture
async def careful(
    servers: tuple[ValkeyProcess, ValkeyProcess], replica: ValkeyProcess
) -> AsyncIterator[Scene]:
    """An account in a store whose replica is there, and which waits for it."""
    store = await Store.open(Settings(redis_url=servers[0].url, wait_replicas=1, shards=2))
    account = await store.accounts.create("first", credits=CREDITS, plan=Plan.FREE)
    yield Scene(store, ServerClock(store), account.account_id)
    await store.aclose()


@pytest.fixture
def lag(replica: ValkeyProcess, monkeypatch: pytest.MonkeyPatch) -> Lag:
    """Meanwhile the replica hangs, and is waited for as briefly as can be."""

    @contextmanager
    def lagging() -> Iterator[None]:
        replica.pause()
        try:
            with monkeypatch.context() as patched:
                patched.setattr(_TIMEOUT, 20)
                yield
        finally:
            replica.resume()

    return lagging


async def test_a_replica_that_is_there_confirms(careful: Scene) -> None:
    cancelled = await careful.create(60_000)
    assert (await careful.cancel(cancelled)).credits == CREDITS
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
    await plain.lanes.put(account.account_id, "a", LIMITS)
    before, [names] = await scene.holdings(), [await redis_of(plain).keys("*")]
    store = await Store.open(Settings(redis_url=valkey.url, shards=2, wait_replicas=1))
    alone = Scene(store, scene.clock, account.account_id)
    for call in (
        lambda: alone.create(60_000),
        lambda: store.canceller.cancel(account.account_id, waiting),
        lambda: store.accounts.grant(account.account_id, 1),
        lambda: store.api_keys.create(account.account_id, "x"),
        lambda: store.lanes.put(account.account_id, "a", LIMITS),  # as it is already
        lambda: store.lanes.clear(account.account_id, "a"),
        lambda: store.pauses.change(account.account_id, lambda before: before),
    ):
        assert type(await settled(call)) is StoreUnavailable
    assert await scene.holdings() == before
    assert (await store.lanes.read(account.account_id, "a")).settings.rate == LIMITS.rate
    assert (await store.pauses.read(account.account_id)).pause is None
    assert sorted(await redis_of(plain).keys("*")) == sorted(names)
    await store.aclose()
    await plain.aclose()


async def test_a_wait_leaves_no_key_and_meets_none_of_another_account(careful: Scene) -> None:
    """An account may be called like another one, with any word behind it."""
    store, redis = careful.store, careful.redis
    other = await careful.account("secondwaited")
    account_id = await careful.account("second")
    async with store.events.act(Kind.RENAME, who="ann", account_id=account_id) as noted:
        await store.changes.rename(account_id, "third")
    assert not noted.lost
    secret = (await store.sessions.open(account_id, password="hash")).secret
    session = await store.sessions.find(secret)
    await store.sessions.say(session, "words")
    await store.signing.rotate(account_id, 0)
    await store.changes.plan(account_id, Plan.PRO)
    await store.api_keys.create(account_id, "key")
    assert (await store.accounts.find("secondwaited")).account_id == other
    assert await store.check() == []
    await store.changes.delete(account_id)
    await store.changes.rename(other, "second")
    assert (await store.accounts.find("second")).account_id == other
    assert await store.check() == []
    local = keys.parts(account_id).local
    names = [name.decode() for name in await redis.keys("*")]
    assert [name for name in names if local in name or name.endswith("waited")] == []


async def test_a_replica_that_lags_is_an_unknown_outcome(careful: Scene, lag: Lag) -> None:
    """It is done, and the error says that it may be: once the replica is back, nothing
    was done twice."""
    with lag(), pytest.raises(OutcomeUnknown, match="Too few replicas"):
        await careful.create(60_000)
    assert await careful.holdings() == Holdings(CREDITS - 1, 1, 1, 0, {"scheduled": 1})
    await careful.create(60_000)
    await careful.assert_sound()


async def test_a_replica_that_is_lost_is_missed_within_a_second(
    careful: Scene, replica: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In that second writes are known to be uncertain; after it, none happens."""
    clock = SimpleNamespace(now_s=1e6)
    timer = SimpleNamespace(monotonic=lambda: clock.now_s)
    monkeypatch.setattr("scheduler.store.server.server.time", timer)
    await careful.create(60_000)
    ask(replica, "REPLICAOF", "NO", "ONE")

    async def gone() -> bool:
        return (await careful.redis.execute_command("ROLE"))[2] == []

    await until_async(gone, "the replica to be missed")
    monkeypatch.setattr(_TIMEOUT, 20)
    assert type(await settled(lambda: careful.create(60_000))) is OutcomeUnknown
    before = await careful.holdings()
    assert before.waiting == 2
    clock.now_s += 1
    assert type(await settled(lambda: careful.create(60_000))) is StoreUnavailable
    assert await careful.holdings() == before
    await careful.assert_sound()


async def test_at_most_once_ones_wait_for_the_replicas_that_others_do_not(
    careful: Scene, lag: Lag
) -> None:
    once = await careful.create(delivery=Delivery.AT_MOST_ONCE)
    usual = await careful.create()
    with lag():
        assert ids_of(await careful.claim()) == [usual]

    async def acknowledged() -> list[str]:
        return ids_of(await careful.claim())

    assert await until_async(acknowledged, "the replica to be there") == [once]
    await careful.assert_sound()


async def test_a_claim_that_was_cut_off_is_not_confirmed_by_whoever_is_there_then(
    careful: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next server may have taken over without the claim, and its replicas confirm all the
    same; so a connection that broke is not made anew to ask, nor waited for."""
    schedule_id = await careful.create(delivery=Delivery.AT_MOST_ONCE)
    replicated = Replicated.replicated

    async def after_a_cut(apart: Replicated) -> None:
        await careful.redis.execute_command("CLIENT KILL TYPE normal")
        await until_async(lambda: not apart._line.is_open, "the connection to break")
        await replicated(apart)

    monkeypatch.setattr("scheduler.store.server.line.REPLY_TIMEOUT_S", 2 * DEADLINE_S)
    with monkeypatch.context() as patched:
        patched.setattr(Replicated, "replicated", after_a_cut)
        async with asyncio.timeout(DEADLINE_S):
            assert await careful.claim() == []
    assert ids_of(await careful.claim()) == [schedule_id]
    await careful.assert_sound()


@pytest.mark.parametrize(("wait_replicas", "min_replicas"), [(0, 0), (1, 0), (0, 1), (1, 1)])
async def test_a_start_tells_what_a_failover_may_lose(
    servers: tuple[ValkeyProcess, ValkeyProcess],
    replica: ValkeyProcess,
    wait_replicas: int,
    min_replicas: int,
) -> None:
    settings = Settings(redis_url=servers[0].url, wait_replicas=wait_replicas)
    ask(servers[0], "CONFIG", "SET", "min-replicas-to-write", min_replicas)
    try:
        with capture_logs() as logs:
            await (await Store.open(settings)).aclose()
    finally:
        ask(servers[0], "CONFIG", "SET", "min-replicas-to-write", 0)
    told = " ".join(each.get("finding", "") for each in logs)
    assert ("POSTDATE_WAIT_REPLICAS is 0" in told) == (wait_replicas == 0)
    assert ("min-replicas-to-write is 0" in told) == (min_replicas == 0)
