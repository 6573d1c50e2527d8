"""The line to the server: calls follow one another on one connection, whatever becomes of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from scheduler.errors import OutcomeUnknown, StoreUnavailable, Unreadable
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.server import line
from scheduler.store.server.connection import Single, connect
from scheduler.store.server.line import Line, Lines
from tests.store.clocks import ServerClock
from tests.store.scene import CREDITS, Scene, settled
from tests.support.servers import DroppingProxy, ValkeyProcess, script, until_async
from tests.support.waiting import DEADLINE_S

AT_ONCE = 200
RESETS = 30


@pytest.fixture
async def far(proxy: DroppingProxy) -> AsyncIterator[Scene]:
    """An account in a store behind a proxy, over TCP."""
    async for scene in _scene(f"redis://127.0.0.1:{proxy.port}/0"):
        yield scene


async def _scene(url: str) -> AsyncIterator[Scene]:
    """Every script has been used, so each is known."""
    store = await Store.open(Settings(redis_url=url, shards=1))
    scene = await Scene.of(store, ServerClock(store), CREDITS + 1)
    await scene.run()
    yield scene
    await store.aclose()


def lines_of(store: Store) -> Lines:
    assert isinstance(store.server.way, Single)
    return store.server.way._lines


def line_of(scene: Scene) -> Line:
    return lines_of(scene.store)._line


async def test_many_calls_share_one_connection_and_each_gets_its_own_reply(
    valkey_scene: Scene,
) -> None:
    scene, server = valkey_scene, valkey_scene.store.server
    for n in range(AT_ONCE):
        await scene.redis.set(f"{n}", n)
    opened = line_of(scene)

    async def read(n: int) -> None:
        wanted = [("GET", f"{m % AT_ONCE}") for m in range(n, n + n % 7 + 1)]
        expected = [b"%d" % (m % AT_ONCE) for m in range(n, n + n % 7 + 1)]
        assert await server.reads(wanted) == expected

    await asyncio.gather(*(read(n) for n in range(AT_ONCE)))
    assert line_of(scene) is opened


async def test_an_error_among_pipelined_replies_is_told_to_its_caller_alone(
    valkey_scene: Scene,
) -> None:
    scene, server = valkey_scene, valkey_scene.store.server
    await scene.redis.set("text", "x")
    good = [("GET", "text")]
    bad = [("GET", "text"), ("HGET", "text", "field"), ("GET", "text")]

    async def read(n: int) -> object:
        return await settled(lambda: server.reads(bad if n % 3 == 1 else good))

    results = await asyncio.gather(*(read(n) for n in range(30)))
    kinds = [type(each) for each in results]
    assert kinds == [Unreadable if n % 3 == 1 else list for n in range(30)]
    assert all(each == [b"x"] for each in results if isinstance(each, list))
    assert "WRONGTYPE" in str(results[1])
    assert await scene.run()


@pytest.mark.parametrize("opens", [False, True])
async def test_a_call_that_is_given_up_does_not_disturb_those_behind(
    valkey_scene: Scene, opens: bool
) -> None:
    """Be there a line already, or not yet."""
    scene = valkey_scene
    await scene.redis.set("mine", 1)
    if opens:
        lines_of(scene.store).renew()
    calls = [asyncio.create_task(scene.store.server.reads([("GET", "mine")])) for _ in range(20)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in results[::2])
    assert results[1::2] == [[b"1"]] * 10
    assert await scene.run()


async def test_resets_at_any_moment_change_nothing_twice(far: Scene, proxy: DroppingProxy) -> None:
    """While idle, while a call is being written, while its reply is on its way; while the next
    connection is being made, and then it is certain that nothing was done."""
    due_ms, made = await far.clock.now_ms() + 60_000, 0
    for n in range(RESETS):
        call = asyncio.create_task(settled(lambda: far.create_at(due_ms)))
        for _ in range(n % 10):
            await asyncio.sleep(0)
        proxy.reset()
        if n % 2:
            await asyncio.sleep(0.001 * (n % 5))
        result = await call
        assert isinstance(result, str | StoreUnavailable), result
        made += isinstance(result, str)
    found = await far.holdings()
    assert made > RESETS // 2
    assert (found.credits, found.waiting) == (CREDITS - made, made)
    assert proxy.accepted > RESETS // 2
    await far.assert_sound()


async def test_a_lost_reply_is_unknown_to_all_who_wait_and_to_none_after(
    far: Scene, proxy: DroppingProxy
) -> None:
    before = line_of(far)
    await far.create()
    proxy.drop_reply(script("lifecycle/claim/claim"))
    results = await asyncio.gather(*(settled(far.claim) for _ in range(2)))
    assert [type(each) for each in results] == [OutcomeUnknown] * 2
    assert not before.is_open
    # The first one was done: its lease holds.
    assert await far.claim() == []
    assert (await far.holdings()).held == 1


@pytest.mark.slow
async def test_a_reply_that_does_not_come_ends_the_line(
    far: Scene, proxy: DroppingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    line_of(far).close()
    assert await far.claim() == []
    before = line_of(far)
    monkeypatch.setattr(line, "REPLY_TIMEOUT_S", 0.3)
    proxy.hold_reply(script("lifecycle/claim/claim"))
    began_s = time.monotonic()
    results = await asyncio.gather(*(settled(far.claim) for _ in range(3)))
    assert [type(each) for each in results] == [OutcomeUnknown] * 3
    assert time.monotonic() - began_s > 0.25
    assert not before.is_open
    monkeypatch.setattr(line, "REPLY_TIMEOUT_S", DEADLINE_S)
    proxy.let_go()
    assert await far.claim() == []
    assert line_of(far) is not before


async def test_an_unknown_script_is_sent_whole(valkey_scene: Scene) -> None:
    scene, opened = valkey_scene, line_of(valkey_scene)
    await scene.redis.script_flush()
    made = await asyncio.gather(*(scene.create() for _ in range(5)))
    assert len(await scene.claim()) == len(made)
    assert line_of(scene) is opened


async def test_a_server_that_may_only_read_is_left(own_valkey: ValkeyProcess) -> None:
    """It was the primary once. A write fails without effect, and the line looks for another."""
    async for scene in _scene(own_valkey.url):
        before = line_of(scene)
        async with Redis.from_url(own_valkey.url) as operator:
            await operator.replicaof("127.0.0.1", "1")
            assert type(await settled(scene.create)) is StoreUnavailable
            assert not before.is_open
            assert type(await settled(scene.claim)) is StoreUnavailable
            assert await scene.store.server.reads([("GET", "none")]) == [None]
            await operator.replicaof("NO", "ONE")
        await scene.create()
        assert len(await scene.claim()) == 1
        await scene.assert_sound()


async def test_what_is_no_reply_ends_the_line_and_is_unknown(tmp_path: Path) -> None:
    """Somebody else listens there: what it says is not taken for an answer."""

    open_ = 0

    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_
        open_ += 1
        while data := await reader.read(65_536):
            hello = data.count(b"CLIENT") + data.count(b"PING")
            writer.write(b"+OK\r\n" * hello if hello else b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()
        open_ -= 1

    server = await asyncio.start_unix_server(nonsense, tmp_path / "s")
    store = Store(connect(f"unix://{tmp_path}/s"), Settings())
    assert type(await settled(lambda: store.server.call("SET", "x", "y"))) is OutcomeUnknown
    assert type(await settled(lambda: store.server.reads([("GET", "x")]))) is StoreUnavailable
    await store.aclose()
    await until_async(lambda: open_ == 0, "its connections to end")
    server.close()
