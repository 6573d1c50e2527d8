"""`postdate bench --live` measures a store that others use, and leaves it as it was."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from redis import Redis

from cli.bench import warden
from cli.bench.live import in_use_by, is_remote, refuse_without_room
from cli.bench.report import as_text
from scheduler.errors import PostdateError
from scheduler.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.operators.system import Server
from scheduler.store.server.connection import connect
from tests import children
from tests.chaos.sentinels import SentinelStore
from tests.cli.test_bench import found_of, measured
from tests.servers import (
    Deployment,
    ValkeyCluster,
    ValkeyProcess,
    environment,
    postdate_process,
    processes_of,
    until,
    until_async,
)

SHORT = ("bench", "--live", "--seconds", "0.5", "--json")


@pytest.fixture
def valkey() -> Iterator[ValkeyProcess]:
    with ValkeyProcess() as running:
        yield running


def contents(*servers: ValkeyProcess) -> dict[bytes, bytes]:
    """Every key, and all that is in it."""
    found = {}
    for each in servers:
        with Redis.from_url(each.url) as redis:
            found |= {name: redis.dump(name) for name in redis.scan_iter(count=1000)}
    return found


def of_a_bench(valkey: ValkeyProcess) -> list[bytes]:
    with Redis.from_url(valkey.url) as redis:
        return list(redis.scan_iter(keys.BENCH + "*", count=1000))


def processes_with(valkey: ValkeyProcess, words: str) -> list[int]:
    found = processes_of(valkey.directory)
    return [process for process, line in found.items() if words in line]


@contextmanager
def long_bench(valkey: ValkeyProcess) -> Iterator[subprocess.Popen[str]]:
    """One that has begun to measure."""
    process = children.start(
        [sys.executable, "-P", "-m", "cli.main", "bench", "--live", "--yes"],
        env=environment(redis_url=valkey.url),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        until(lambda: len(of_a_bench(valkey)) > 300, "a bench that stores")
        yield process
    finally:
        process.kill()
        process.communicate()
        until(lambda: not processes_with(valkey, "cli."), "the end of all of them")


def test_what_is_in_use_is_measured_when_it_may_be_and_stays_as_it_was() -> None:
    """The due one, too, though the bench has a worker: that one looks nowhere else."""
    with Deployment() as deployment:
        deployment.api()
        customer = deployment.customer()
        due = customer.schedule("http://127.0.0.1:9000/")
        deployment.apis[0].stop()
        valkey = deployment.valkey
        assert isinstance(valkey, ValkeyProcess)
        before = contents(valkey)
        asked = postdate_process(*SHORT, redis_url=valkey.url)
        assert asked.returncode == 1
        assert f"is in use: it has {len(before)} keys" in asked.stderr
        done = postdate_process(*SHORT, "--yes", redis_url=valkey.url)
        assert (done.returncode, done.stderr) == (0, "")
        store = json.loads(done.stdout)["store"]
        assert contents(valkey) == before, f"{due} waits as it did, and nothing is left"
        assert store["removed"] > 500
        assert store["leftOver"] == 0
        assert 0 < store["waitedMs"] <= store["mostWaitedMs"] < 1000


def test_a_killed_one_is_cleared_by_the_process_beside_it(valkey: ValkeyProcess) -> None:
    with long_bench(valkey) as bench:
        bench.kill()
        until(lambda: not contents(valkey), "an empty store")


def test_where_all_of_it_was_killed_the_next_one_clears(valkey: ValkeyProcess) -> None:
    with long_bench(valkey) as bench:
        second = postdate_process(*SHORT, "--yes", redis_url=valkey.url)
        assert (second.returncode, second.stdout) == (1, "")
        assert "Another bench measures this store" in second.stderr
        [warden] = processes_with(valkey, "cli.bench.warden")
        os.kill(warden, signal.SIGKILL)
        _, stderr = bench.communicate(timeout=60)
        assert bench.returncode == 1
        assert "may still be there, below pd:bench:" in stderr
    left_over = len(of_a_bench(valkey))
    assert left_over > 300
    with Redis.from_url(valkey.url) as redis:
        redis.delete(keys.BENCH + "place")  # a minute later
    done = postdate_process(*SHORT, "--yes", redis_url=valkey.url)
    assert json.loads(done.stdout)["store"]["leftOver"] == left_over - 1
    assert contents(valkey) == {}


def test_an_interrupted_one_leaves_nothing(valkey: ValkeyProcess) -> None:
    with long_bench(valkey) as bench:
        bench.send_signal(signal.SIGINT)
        stdout, stderr = bench.communicate(timeout=60)
        assert (bench.returncode, stdout, stderr) == (1, "", "Ended before it was done.\n")
        assert contents(valkey) == {}


def test_a_store_that_hangs_for_a_second_is_spared_the_rest(valkey: ValkeyProcess) -> None:
    with long_bench(valkey) as bench:
        valkey.pause()
        time.sleep(1.5)  # what is tried is a hang of that length
        valkey.resume()
        _, stderr = bench.communicate(timeout=60)
        assert bench.returncode == 1
        assert "s to answer: ended, to spare who else uses it" in stderr
        assert contents(valkey) == {}


def test_a_cluster_is_measured_on_all_of_its_nodes() -> None:
    with ValkeyCluster() as cluster:
        done = postdate_process(*SHORT, redis_url=cluster.url)
        assert (done.returncode, done.stderr) == (0, "")
        store = json.loads(done.stdout)["store"]
        assert (store["servers"], contents(*cluster.primaries)) == (3, {})


def test_sentinels_lead_to_it_and_replicas_are_waited_for() -> None:
    with SentinelStore() as sentinels:
        settings = {"redis_url": sentinels.url, **sentinels.settings}
        done = postdate_process(*SHORT, **settings)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout)["store"]["removed"] > 500
        assert contents(sentinels.primary()) == {}


async def test_one_whose_place_another_has_by_now_ends(
    valkey: ValkeyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after it stood still for longer than its place is held."""
    told: list[dict[str, object]] = []
    monkeypatch.setattr(warden, "say", lambda **words: told.append(words))
    monkeypatch.setattr(warden, "_KEPT_EVERY_S", 0.0)
    store = Store(connect(valkey.url), Settings(redis_url=valkey.url))
    reading, writing = os.pipe()
    running = asyncio.create_task(warden.Warden(store).run(reading))
    await until_async(lambda: bool(told), "its beginning")
    with Redis.from_url(valkey.url) as redis:
        redis.set(keys.BENCH + "place", "another")
        await until_async(lambda: any("slow" in each for each in told), "its end")
        os.close(writing)
        await running
        assert told[-1]["removed"] is None
        assert redis.get(keys.BENCH + "place") == b"another"
    await store.aclose()
    os.close(reading)


def test_a_store_that_is_nearly_full_is_not_measured() -> None:
    def server(used: int, most: int) -> Server:
        return Server("", "Valkey 9.1.0", used, used, most, 0, 1, 0, [], [])

    refuse_without_room([server(10**9, 0), server(10**9, 2 * 10**9)])
    with pytest.raises(PostdateError, match="954 MiB of at most 1,144"):
        refuse_without_room([server(0, 10**10), server(10**9, 12 * 10**8)])


def test_an_empty_store_is_not_in_use() -> None:
    assert in_use_by("here", 0, 0) == ""
    assert "it has 1,000 keys, and workers" in in_use_by("here", 1000, 2)


@pytest.mark.parametrize(
    ("url", "remote"),
    [
        ("unix:///run/valkey.sock", False),
        ("redis://127.0.0.1:6379/0", False),
        ("redis://:secret@localhost", False),
        ("redis+cluster://[::1]:7000,127.0.0.1:7001", False),
        ("redis://10.0.0.7:6379", True),
        ("redis+sentinel://localhost,sentinel-2:26379/main", True),
    ],
)
def test_cpu_of_a_store_elsewhere_is_not_this_machines(url: str, remote: bool) -> None:
    assert is_remote(url) is remote


def test_it_is_said_what_was_done() -> None:
    told = {
        "own": False,
        "url": "redis://…@db",
        "version": "Valkey 9.1.0",
        "servers": 3,
        "prefix": keys.BENCH,
        "backgroundCores": 0.3,
        "leftOver": 7,
        "removed": 12_345,
        "waitedMs": 0.2,
        "mostWaitedMs": 9.0,
    }
    text = " ".join(as_text(found_of(measured()), told).split())
    assert "redis://…@db (Valkey 9.1.0, 3 servers)" in text
    assert "12,345 keys below pd:bench:, all of the bench, were removed again" in text
    assert "7 keys of a bench before it" in text
    assert "Others had 0.30 cores of the store" in text
    assert "waited 0.2 ms for an answer, 9.0 ms at most" in text
