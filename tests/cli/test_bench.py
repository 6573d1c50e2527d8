"""`postdate bench`, as a real process: nothing is left of it when it ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from redis import Redis

from cli.bench.rounds import PROCESSES
from tests.support.servers import ValkeyProcess, postdate, postdate_process, processes_of


@pytest.fixture
def directory() -> Iterator[Path]:
    """Of a short path: a socket is made in it."""
    with TemporaryDirectory(prefix="pd-") as path:
        yield Path(path)


@pytest.mark.slow
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
