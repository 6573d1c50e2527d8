"""Calls follow the primary that sentinels name, and wait while it is replaced."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from scheduler.errors import OutcomeUnknown, StoreUnavailable
from scheduler.models import Delivery, Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.server import Script, sentinels
from scheduler.store.server.connection import Single
from scheduler.store.server.failures import reason_of
from scheduler.store.server.sentinels import Sentinels
from tests.store.clocks import ServerClock
from tests.store.scene import CREDITS, Scene, ids_of, settled
from tests.store.server.sentinel import SERVICE, FakeSentinel
from tests.support.cluster import ask, port_of
from tests.support.servers import DEADLINE_S, ValkeyProcess, free_port, until, until_async

Pair = tuple[ValkeyProcess, ValkeyProcess]
AT_ONCE = {"repl-diskless-sync-delay": 0}


@pytest.fixture(scope="module")
def pair(store_server: str) -> Iterator[Pair]:
    """Two servers that know nothing of each other, called a and b."""
    with (
        ValkeyProcess(port=free_port(), options=AT_ONCE) as a,
        ValkeyProcess(port=free_port(), options=AT_ONCE) as b,
    ):
        yield a, b


@pytest.fixture(autouse=True)
def _named(pair: Pair) -> None:
    for name, server in zip("ab", pair, strict=True):
        ask(server, "REPLICAOF", "NO", "ONE")
        server.flush()
        ask(server, "SET", "name", name)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentinels, "_LOOK_EVERY_S", 0.05)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


@pytest.fixture
async def sentinel(pair: Pair, stack: AsyncExitStack) -> FakeSentinel:
    return await stack.enter_async_context(FakeSentinel(pair[0]))


async def opened(stack: AsyncExitStack, *said: FakeSentinel, **settings: int) -> Store:
    hosts = ",".join(f"127.0.0.1:{each.port}" for each in said)
    url = f"redis+sentinel://{hosts}/{SERVICE}"
    store = await Store.open(Settings(redis_url=url, shards=1, **settings))  # type: ignore[arg-type]
    stack.push_async_callback(store.aclose)
    return store


def sentinels_of(store: Store) -> Sentinels:
    assert isinstance(store.server.way, Single)
    return store.server.way._sentinels


async def name(store: Store) -> str:
    """Of the server that calls reach."""
    return str((await store.server.read("GET", "name")).decode())


async def begun(sentinel: FakeSentinel, store: Store) -> None:
    """A failover, and the store knows."""
    sentinel.begin()
    await until_async(lambda: store.server.way.choosing, "the announcement")


async def looked(*said: FakeSentinel) -> None:
    """Returns once each was asked twice: the second look knows all that was said before."""
    before = [each.asked for each in said]

    def again() -> bool:
        return all(each.asked >= n + 2 for each, n in zip(said, before, strict=True))

    await until_async(again, "looks")


async def test_calls_wait_for_a_failover_and_go_to_the_next_primary(
    sentinel: FakeSentinel, stack: AsyncExitStack, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Announcements are enough. The sentinel that leads the failover names the next primary while
    it still goes on."""
    monkeypatch.setattr(sentinels, "_LOOK_EVERY_S", 4 * DEADLINE_S)
    store = await opened(stack, sentinel)
    assert await name(store) == "a"
    asked = sentinel.asked
    await begun(sentinel, store)
    call = asyncio.create_task(name(store))
    await until_async(lambda: sentinel.asked > asked, "a look")
    assert not call.done()
    sentinel.promoted = pair[1]
    sentinel.announce("+promoted-slave", f"slave 127.0.0.1:1 127.0.0.1 1 @ {SERVICE} 127.0.0.1 2")
    assert await call == "b"


async def test_a_failover_that_was_given_up_lets_calls_go_on(
    sentinel: FakeSentinel, stack: AsyncExitStack
) -> None:
    store = await opened(stack, sentinel)
    await begun(sentinel, store)
    call = asyncio.create_task(name(store))
    sentinel.choosing = False
    assert await call == "a"


async def test_a_switch_is_seen_without_an_announcement_and_ends_all_lines(
    sentinel: FakeSentinel, stack: AsyncExitStack, pair: Pair
) -> None:
    """Also those in use: replicas of the old primary confirm no more."""
    store = await opened(stack, sentinel, wait_replicas=1)
    async with store.server.apart(keys.shard(0)) as apart:
        sentinel.primary = pair[1]
        await until_async(lambda: not apart._line.is_open, "the line to end")
        with pytest.raises(OutcomeUnknown):
            await apart.replicated()
    assert await name(store) == "b"


async def test_announcements_of_another_service_are_not_ours(
    sentinel: FakeSentinel, stack: AsyncExitStack
) -> None:
    store = await opened(stack, sentinel)
    sentinel.begin("other")
    sentinel.announce("+switch-master", "other 127.0.0.1 1 127.0.0.1 2")
    await looked(sentinel)
    assert not store.server.way.choosing
    assert await name(store) == "a"


@pytest.mark.parametrize("newer", [0, 1])
async def test_the_newest_epoch_counts(
    sentinel: FakeSentinel, stack: AsyncExitStack, pair: Pair, newer: int
) -> None:
    """One sentinel has not heard of the failover yet."""
    said = [sentinel, await stack.enter_async_context(FakeSentinel(pair[0]))]
    said[newer].epoch, said[newer].primary = 2, pair[1]
    assert await name(await opened(stack, *said)) == "b"


async def test_one_sentinel_that_leads_a_failover_is_enough(
    sentinel: FakeSentinel, stack: AsyncExitStack, pair: Pair
) -> None:
    """The others hear of it once it is over. A process that starts meanwhile waits, too."""
    said = [sentinel, await stack.enter_async_context(FakeSentinel(pair[0]))]
    said[1].choosing = True
    opening = asyncio.create_task(opened(stack, *said))
    await looked(*said)
    assert not opening.done()
    said[1].promoted, said[1].epoch = pair[1], 2
    assert await name(await opening) == "b"


async def test_sentinels_that_are_away_or_hang_do_not_count(
    sentinel: FakeSentinel, stack: AsyncExitStack, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sentinels, "_ANSWER_S", 0.1)
    said = [await stack.enter_async_context(FakeSentinel(pair[1])) for _ in range(2)]
    await said[0].stop()
    said[1].hold()
    store = await opened(stack, *said, sentinel)
    assert await name(store) == "a"
    said[1].epoch = 2
    said[1].let_go()
    await looked(said[1])
    assert await name(store) == "b"


async def test_a_sentinel_that_refuses_us_is_named_with_its_reason(
    sentinel: FakeSentinel, stack: AsyncExitStack
) -> None:
    sentinel.refuses = True
    with pytest.raises(StoreUnavailable) as caught:
        await opened(stack, sentinel)
    assert re.fullmatch(
        rf"Sentinel 127.0.0.1:{sentinel.port}: .*password.*", reason_of(caught.value)
    )


async def test_a_look_from_before_the_announcement_does_not_end_the_wait(
    sentinel: FakeSentinel, stack: AsyncExitStack
) -> None:
    store = await opened(stack, sentinel)
    sentinel.hold()
    asked = sentinel.asked
    sentinels_of(store).look_soon()
    await until_async(lambda: sentinel.asked > asked, "a look")
    await begun(sentinel, store)
    call = asyncio.create_task(name(store))
    sentinel.let_go()
    await looked(sentinel)
    assert not call.done()
    sentinel.choosing = False
    assert await call == "a"


@pytest.mark.parametrize("away", [False, True])
async def test_a_failover_that_has_stuck_keeps_no_calls_for_ever(
    sentinel: FakeSentinel, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    """Each call ends after a while, with nothing done; later they reach the primary again. So it is
    if the sentinels end amid a failover."""
    monkeypatch.setattr(sentinels, "_WAIT_S", 0.01)
    store = await opened(stack, sentinel)
    await begun(sentinel, store)
    if away:
        await sentinel.stop()
    with pytest.raises(StoreUnavailable, match="choosing another primary"):
        await name(store)
    monkeypatch.setattr(sentinels, "_LONGEST_S", 0.1)
    await until_async(lambda: not store.server.way.choosing, "the end of the wait")
    assert await name(store) == "a"


async def test_a_failover_that_goes_on_after_a_rest_is_waited_for_again(
    sentinel: FakeSentinel, stack: AsyncExitStack, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentinel does nothing for half a minute after its machine stood still."""
    store = await opened(stack, sentinel)
    with monkeypatch.context() as patched:
        patched.setattr(sentinels, "_LONGEST_S", 0.1)
        await begun(sentinel, store)
        await until_async(lambda: not store.server.way.choosing, "the end of the wait")
    sentinel.begin(step="+failover-state-send-slaveof-noone")
    await until_async(lambda: store.server.way.choosing, "the step")
    call = asyncio.create_task(name(store))
    await looked(sentinel)
    assert not call.done()
    sentinel.promoted = pair[1]
    assert await call == "b"


@pytest.mark.parametrize("wait_replicas", [0, 1])
async def test_nothing_is_confirmed_while_another_primary_is_chosen(
    sentinel: FakeSentinel,
    stack: AsyncExitStack,
    pair: Pair,
    monkeypatch: pytest.MonkeyPatch,
    wait_replicas: int,
) -> None:
    """It may lack the writes of this one, whichever replica has confirmed them. So a create is of
    unknown outcome, and nothing at-most-once is sent."""
    a, b = pair
    ask(b, "REPLICAOF", "127.0.0.1", port_of(a))
    until(lambda: ask(b, "ROLE")[3] == b"connected", "the replica")
    until(lambda: len(ask(a, "ROLE")[2]) == 1, "the primary to send it what it writes")
    store = await opened(stack, sentinel, wait_replicas=wait_replicas)
    account = await store.accounts.create("first", credits=CREDITS, plan=Plan.FREE)
    scene = Scene(store, ServerClock(store), account.account_id)
    await scene.create(delivery=Delivery.AT_MOST_ONCE)
    usual = await scene.create()
    monkeypatch.setattr(sentinels, "_WAIT_S", 0.01)
    for method in ("run", "run_each"):
        before = getattr(Script, method)

        async def amid_a_failover(*words: Any, before: Any = before) -> Any:
            reply = await before(*words)
            await begun(sentinel, store)
            return reply

        monkeypatch.setattr(Script, method, amid_a_failover)
    assert ids_of(await scene.claim()) == [usual]
    sentinel.choosing = False
    await until_async(lambda: not store.server.way.choosing, "the end of the failover")
    assert type(await settled(scene.create)) is OutcomeUnknown
