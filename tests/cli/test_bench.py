"""`postdate bench`, as a real process: nothing is left of it when it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from redis import Redis

from cli.bench.rounds import PROCESSES, Lateness, Measurement, Round
from cli.bench.sizing import as_text, findings
from tests.servers import (
    ValkeyProcess,
    postdate,
    postdate_process,
    processes_of,
)


@pytest.fixture
def directory() -> Iterator[Path]:
    """Of a short path: a socket is made in it."""
    with TemporaryDirectory(prefix="pd-") as path:
        yield Path(path)


def test_it_measures_and_leaves_nothing(directory: Path) -> None:
    """Settings that would have it measure something else, or not start, count for nothing."""
    done = postdate_process(
        *("bench", "--seconds", "0.5", "--rate", "1e6", "--json", "--directory", str(directory)),
        redis_url="redis://127.0.0.1:1",
        allow_targets="none",
        max_horizon_days=1,
    )
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["rounds"] == 5
    for each in (found["accept"], found["fire"]):
        rate = each["perSecond"]
        assert 5 < rate["least"] <= rate["median"] <= rate["most"] < 1e6
        assert 1 < each["cpuUsEach"]["store"] < 10_000
        assert each["saturated"] in {*PROCESSES, "machine", "waiting"}
    assert 0 < found["lateness"]["p50Ms"]["median"] <= found["lateness"]["p99Ms"]["median"]
    # Few schedules: a table of the store's that grows meanwhile counts in full.
    assert 150 < found["waitingBytesEach"]["median"] < 3000
    assert found["needed"]["workers"] >= 2
    assert found["needed"]["storeCores"] > 1
    assert nothing_is_left(directory)


def test_a_store_with_an_account_is_refused_and_stays_as_it_was(valkey: ValkeyProcess) -> None:
    postdate("account", "create", "customer", redis_url=valkey.url)
    before = valkey_contents(valkey)
    done = postdate_process("bench", "--seconds", "0.5", "--redis-url", valkey.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert "has accounts (1): only one without any is measured" in done.stderr
    assert valkey_contents(valkey) == before


def valkey_contents(valkey: ValkeyProcess) -> dict[bytes, bytes]:
    """Every key, and all that is in it."""
    with Redis.from_url(valkey.url) as redis:
        return {name: redis.dump(name) for name in redis.scan_iter(count=1000)}


def nothing_is_left(directory: Path) -> bool:
    homes = [name for line in processes_of(directory).values() for name in line.split()]
    return not list(directory.iterdir()) and not any("postdate-bench" in name for name in homes)


def test_processes_are_counted_by_what_one_core_does_at_70_per_cent() -> None:
    each_us = {"client": 40.0, "api": 200.0, "store": 20.0, "worker": 0.0}
    busy = {"client": 0.2, "api": 0.9, "store": 0.1, "worker": 0.0}
    accept = Measurement(2000.0, each_us, busy)
    each_us = {"client": 9.0, "api": 0.0, "store": 30.0, "worker": 50.0}
    busy = {"client": 0.1, "api": 0.0, "store": 0.2, "worker": 0.3}
    fire = Measurement(10_000.0, each_us, busy)
    found = findings([Round(accept, 400.0, fire, Lateness(500, 0.5, 2.0))], 4, 16_667)
    assert found.needed.api_processes == 5  # 200 us each: 3,500 a second
    assert found.needed.workers == 2  # 50 us: 14,000
    assert found.needed.store_cores == pytest.approx(16_667 * 50e-6 / 0.7)
    assert "a cluster of 2 nodes" in as_text(found)
    assert (found.accept.saturated, found.fire.saturated) == ("api", "waiting")
