"""The server behind the store: refused versions and settings, and errors while it is away."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trustme
from structlog.testing import capture_logs

from scheduler.errors import (
    OutcomeUnknown,
    StoreError,
    StoreMisconfigured,
    StoreRefused,
    StoreUnavailable,
    Unreadable,
)
from scheduler.models import Plan
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.server.clock import StoreClock
from scheduler.store.server.failures import Unreachable, reason_of
from scheduler.store.store import _refuse_unusable
from tests.store.clocks import ServerClock
from tests.store.scene import Scene, settled
from tests.support.plain import redis_of
from tests.support.servers import DroppingProxy, ValkeyProcess, free_port, refusing_port


@pytest.fixture
def strict_valkey(store_server: str) -> Iterator[ValkeyProcess]:
    """One that asks for a password and listens on TCP too."""
    with ValkeyProcess(port=free_port()) as server:
        yield server


async def refusal(url: str) -> StoreError:
    """What opening a store of this URL raises."""
    result = await settled(lambda: Store.open(Settings(redis_url=url)))
    assert isinstance(result, StoreError), result
    return result


@asynccontextmanager
async def opened(url: str, **fields: Any) -> AsyncIterator[Store]:
    store = await Store.open(Settings(redis_url=url, **fields))
    yield store
    await store.aclose()


async def round_trip(store: Store) -> None:
    """From an account to the statistics of what it ran."""
    account = await store.accounts.create("first", credits=10, plan=Plan.FREE)
    scene = Scene(store, ServerClock(store), account.account_id)
    schedule_id = await scene.run()
    await scene.create(60_000)
    cancelled = await scene.create(60_000)
    assert (await store.canceller.cancel(account.account_id, cancelled)).credits == 8
    assert schedule_id in [entry.schedule_id for entry in await scene.log()]
    assert set(await store.claims.look(range(store.shards.count))) == set(range(store.shards.count))
    await scene.assert_sound()


@pytest.mark.parametrize("url", ["redis://localhost:notaport", "redis+sentinel://host:1"])
async def test_a_url_that_cannot_be_used_is_a_sentence(url: str) -> None:
    error = await refusal(url)
    assert isinstance(error, StoreMisconfigured)
    assert "URL cannot be used" in str(error)


async def test_a_server_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    urls = [f"redis://127.0.0.1:{refusing_port()}/0", f"unix://{tmp_path}/none.sock"]
    for url in (*urls, "redis://no-such-host.invalid:6379"):
        assert type(await refusal(url)) is StoreUnavailable


async def test_a_wrong_password_is_said_at_once(strict_valkey: ValkeyProcess) -> None:
    async with opened(strict_valkey.url) as store:
        await redis_of(store).config_set("requirepass", "secret")
    tcp = strict_valkey.tcp_url
    for url in (
        tcp,
        tcp.replace("//", "//:wrong@"),
        tcp.replace("//", "//nobody:secret@"),
        strict_valkey.url,
        strict_valkey.url.replace("//", "//:wrong@"),
    ):
        error = await refusal(url)
        assert isinstance(error, StoreMisconfigured), (url, error)
        assert "refuses us" in str(error)
        assert "secret" not in str(error)
    async with opened(tcp.replace("//", "//:secret@")) as store:
        await round_trip(store)


def test_too_old_a_server_is_refused() -> None:
    with pytest.raises(StoreMisconfigured, match=r"version 6\.2\.14; Postdate needs 7.0"):
        _refuse_unusable({"redis_version": "6.2.14"})
    for version in ("7.0.0", "10.0.0"):
        _refuse_unusable({"redis_version": version})


def test_an_evicting_server_is_refused() -> None:
    with pytest.raises(StoreMisconfigured, match=r"allkeys-lru.*noeviction"):
        _refuse_unusable({"maxmemory_policy": "allkeys-lru"})


async def test_a_server_that_went_away_is_unavailable_and_comes_back(
    own_valkey: ValkeyProcess,
) -> None:
    store = await Store.open(Settings(redis_url=own_valkey.url))
    account = await store.accounts.create("first", credits=5, plan=Plan.FREE)
    scene = Scene(store, ServerClock(store), account.account_id)
    kept = await scene.create()
    due_ms = await scene.clock.now_ms()
    own_valkey.kill()
    for call in (store.ping, lambda: scene.create_at(due_ms), scene.claim):
        assert isinstance(await settled(call), StoreUnavailable | OutcomeUnknown)
    assert type(await settled(store.ping)) is StoreUnavailable
    own_valkey.start()
    [invocation] = await scene.claim()
    assert invocation.schedule_id == kept
    assert await scene.ack([invocation]) == [1]
    await scene.assert_sound()
    await store.aclose()


async def test_a_full_turn_over_tcp_and_over_a_unix_socket(strict_valkey: ValkeyProcess) -> None:
    """Two databases of one server are two stores."""
    tcp = strict_valkey.tcp_url
    async with opened(tcp, shards=4) as one, opened(tcp[:-1] + "1") as two:
        await round_trip(one)
        assert (await two.accounts.some())[0] == []
        await round_trip(two)
    strict_valkey.flush()
    async with opened(strict_valkey.url) as store:
        await round_trip(store)


async def test_a_full_turn_over_tls_with_a_password(
    own_valkey: ValkeyProcess, tmp_path: Path
) -> None:
    authority, tls = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with DroppingProxy(own_valkey.socket, tls=tls) as line:
        plain = f"rediss://127.0.0.1:{line.port}/0?ssl_ca_certs={tmp_path}/ca.pem"
        url = plain.replace("//", "//default:secret@", 1)
        async with opened(plain) as store:
            await store.server.ask("CONFIG", "SET", "requirepass", "secret")
        async with opened(url) as store:
            await round_trip(store)
        assert type(await refusal(url.partition("?")[0])) is StoreUnavailable  # who is that?


def test_the_clock_is_never_ahead_and_follows_one_that_is_set_back() -> None:
    clock = StoreClock()
    server_us = 1_795_161_600_000_000
    clock.observe(server_us)
    assert 0 <= clock.now_us() - server_us < 1_000_000
    # A reply that took long says less than one that did not.
    clock.observe(server_us - 500_000)
    assert clock.now_us() >= server_us
    for _ in range(32):
        clock.observe(server_us - 10_000_000)
    assert clock.now_us() < server_us - 8_000_000


def test_the_clock_stands_still_rather_than_go_back_when_its_best_reading_is_forgotten() -> None:
    clock = StoreClock()
    clock.observe(time.monotonic_ns() // 1000)
    told_us = clock.now_us()
    for _ in range(32):
        clock.observe(time.monotonic_ns() // 1000 - 10_000)
    first_us = clock.now_us()
    assert told_us <= first_us <= clock.now_us()
    assert clock.at_us(time.monotonic()) <= time.monotonic_ns() // 1000 - 10_000


async def test_the_server_is_the_one_that_the_test_names(
    valkey_store: Store, store_server: str
) -> None:
    told = await redis_of(valkey_store).info("server")
    assert ("valkey_version" in told) == (store_server == "valkey")


@pytest.mark.parametrize("at_once", ["", "pd:{0}:"])
async def test_what_is_read_of_a_key_of_another_type_is_damaged(store: Store, at_once: str) -> None:
    await redis_of(store).set("pd:{0}:a", "none of ours")
    commands = [("HGET", "pd:{0}:a", "r"), ("ZRANGE", "pd:{0}:b", 0, 0, "WITHSCORES")]
    await redis_of(store).zadd("pd:{0}:b", {"s": 1.5})
    why, members = await store.server.reads(commands, at_once=at_once, damaged=True)
    assert (type(why), members) == (Unreadable, [b"s", b"1.5"])
    with pytest.raises(Unreadable):
        await store.server.reads(commands, at_once=at_once)
    with pytest.raises(StoreRefused, match="refused a command"):
        await store.server.reads([("GET", "pd:{0}:a", "?")], at_once=at_once, damaged=True)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://:secret@127.0.0.1:{port}/0", r"Error 111 connecting to 127\.0\.0\.1:{port}\."),
        ("redis://postdate.invalid:{port}", r"Error -\d+ connecting to postdate\.invalid:{port}\."),
        ("unix:///nowhere/valkey.sock", r"Error 2 connecting to /nowhere/valkey\.sock\."),
        ("redis+cluster://127.0.0.1:{port}", r"one reachable node: Error 111 .*:{port}\."),
        (
            "redis+sentinel://:secret@127.0.0.1:{port},localhost:{port}/primary",
            r"^Sentinel 127\.0\.0\.1:{port}: Error 111 .*; Sentinel localhost:{port}: Error 111 ",
        ),
    ],
)
async def test_a_failure_names_what_was_tried(url: str, reason: str) -> None:
    port = str(refusing_port())
    with pytest.raises(StoreUnavailable, match="The store cannot be reached") as caught:
        await Store.open(Settings(redis_url=url.replace("{port}", port)))
    found = reason_of(caught.value)
    assert re.search(reason.replace("{port}", port), found), found
    assert "secret" not in found


def test_that_it_is_away_is_logged_at_once_each_minute_and_at_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks_s = iter((0.0, 1.0, 59.0, 60.0, 61.0, 130.0))
    clock = SimpleNamespace(monotonic=lambda: next(looks_s))
    monkeypatch.setattr("scheduler.runtime.reminder.time", clock)
    unreachable = Unreachable(Settings(redis_url="redis://:secret@store.example:6379/0?x=secret"))
    away = StoreUnavailable("The store cannot be reached")
    away.__cause__ = OSError(111, "Connection refused")
    with capture_logs() as logged:
        for _ in range(6):
            unreachable.note(away)
        unreachable.end()
        unreachable.end()
    assert [(each["event"], each.get("reason")) for each in logged] == [
        *[("the store cannot be reached; trying on", "[Errno 111] Connection refused")] * 3,
        ("the store can be reached again", None),
    ]
    assert {each["store"] for each in logged} == {"redis://…@store.example:6379/0"}
