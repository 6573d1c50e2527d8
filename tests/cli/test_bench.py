"""`postdate bench`, as a real process: nothing is left of it when it ends."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from unittest.mock import patch

import pytest
import uvloop
from redis import Redis

from cli.bench.command import _measure
from cli.bench.load import LoadTarget, load
from cli.bench.rounds import PROCESSES, Lateness, Measurement, Round
from cli.bench.sizing import Figure, SizingReport, alone, as_json, as_text, findings
from cli.bench.stage import Measured
from cli.port import reserve
from scheduler.errors import PostdateError
from tests.cli.running import Running
from tests.servers import (
    ValkeyCluster,
    ValkeyProcess,
    postdate,
    postdate_process,
    processes_of,
    until,
)


def test_it_measures_and_leaves_nothing(tmp_path: Path) -> None:
    """Settings that would have it measure something else, or not start, count for nothing."""
    done = postdate_process(
        *("bench", "--seconds", "0.5", "--rate", "1e6", "--json", "--directory", str(tmp_path)),
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
    assert nothing_is_left(tmp_path)


def test_an_interrupted_one_leaves_nothing(tmp_path: Path) -> None:
    running = Running("bench", "--directory", str(tmp_path))
    try:
        until(lambda: any("cli.main worker" in p for p in children_of(tmp_path)), "its worker")
    finally:
        assert running.end() == (1, "Ended before it was done.\n")
    assert running.lines == []
    assert nothing_is_left(tmp_path)


def test_a_store_with_an_account_is_refused_and_stays_as_it_was(valkey: ValkeyProcess) -> None:
    postdate("account", "create", "customer", redis_url=valkey.url)
    before = valkey_contents(valkey)
    done = postdate_process("bench", "--seconds", "0.5", "--redis-url", valkey.url)
    assert (done.returncode, done.stdout) == (1, "")
    assert "has accounts (1): only one without any is measured" in done.stderr
    assert valkey_contents(valkey) == before


def test_a_given_cluster_is_measured_on_all_nodes_and_left_without_accounts() -> None:
    """In one round, by what the command runs."""
    with (
        ValkeyCluster() as cluster,
        patch.dict(os.environ),
        patch("cli.bench.rounds.ROUNDS", 1),
    ):
        found = as_json(*uvloop.run(_measure(Path(), cluster.url, 0.5, 1000.0)))
        store = found["store"]
        assert (store["own"], store["url"], store["servers"]) == (False, cluster.url, 3)
        kept = {name for each in cluster.primaries for name in valkey_contents(each)}
        assert not {name for name in kept if b":s:" in name or b"name:" in name}


def valkey_contents(valkey: ValkeyProcess) -> dict[bytes, bytes]:
    """Every key, and all that is in it."""
    with Redis.from_url(valkey.url) as redis:
        return {name: redis.dump(name) for name in redis.scan_iter(count=1000)}


def children_of(directory: Path) -> list[str]:
    return [line for home in directory.iterdir() for line in processes_of(home).values()]


def nothing_is_left(directory: Path) -> bool:
    homes = [name for line in processes_of(directory).values() for name in line.split()]
    return not list(directory.iterdir()) and not any("postdate-bench" in name for name in homes)


def test_a_directory_that_cannot_be_written_is_one_sentence() -> None:
    done = postdate_process("bench", "--directory", "/proc")
    assert done.returncode == 1
    assert done.stderr.startswith("Nothing can be made in /proc")


OWN = Measured("unix:///store")


def measured(accept: float = 2000.0, fire: float = 10_000.0, others: float = 0.0) -> Round:
    api = {"client": 0.2, "api": 0.9, "store": 0.1, "worker": 0.0}
    firing = {"client": 0.1, "api": 0.0, "store": 0.2, "worker": 0.3}
    return Round(
        Measurement(
            accept, {"client": 40.0, "api": 200.0, "store": 20.0, "worker": 0.0}, api, others
        ),
        400.0,
        Measurement(
            fire, {"client": 9.0, "api": 0.0, "store": 30.0, "worker": 50.0}, firing, others
        ),
        Lateness(500, 0.5, 2.0),
    )


def found_of(*done: Round, rate: float = 1000.0) -> SizingReport:
    return findings(done, 4, rate)


def test_processes_are_counted_by_what_one_core_does_at_70_per_cent() -> None:
    needed = found_of(measured(), rate=16_667).needed
    assert needed.api_processes == 5  # 200 us each: 3,500 a second
    assert needed.workers == 2  # 50 us: 14,000
    assert needed.store_cores == pytest.approx(16_667 * 50e-6 / 0.7)
    assert "a cluster of 2 nodes" in as_text(found_of(measured(), rate=16_667), OWN)
    assert "cluster" not in as_text(found_of(measured()), OWN)
    without_cpu_times = measured()
    without_cpu_times.accept.each_us["api"] = 0.0
    assert alone(found_of(without_cpu_times).accept, "api") == 2000.0


def test_medians_are_told_with_what_they_lay_between() -> None:
    found = found_of(*(measured(accept=rate) for rate in (1000.0, 2000.0, 9000.0)))
    assert found.accept.per_second == Figure(2000.0, 1000.0, 9000.0)
    assert "The rounds differ by 400 %" in as_text(found, OWN)


def test_what_saturated_first_and_what_disturbed_is_said() -> None:
    assert found_of(measured()).accept.saturated == "api"
    assert found_of(measured()).fire.saturated == "waiting"
    assert found_of(measured(others=3.0)).fire.saturated == "machine"
    assert found_of(measured(), measured()).noise == []
    assert "Other programs" in found_of(measured(others=2.0)).noise[0]


async def test_a_target_takes_requests_in_any_pieces() -> None:
    target = LoadTarget()
    url = await target.listen()
    port = int(url.rpartition(":")[2].partition("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    target.expect(3)
    one = b"POST / HTTP/1.1\r\nContent-Length: 3\r\nPostdate-Trigger-At: %b\r\n\r\nabc"
    sent = one % b"1970-01-01T00:00:01.000Z" * 2
    for part in (sent[:10], sent[10:-1], sent[-1:] + b"GET / HTTP/1.1\r\n", b"Host: a\r\n\r\n"):
        writer.write(part)
        await asyncio.sleep(0.01)
    arrivals = await target.all_came()
    assert [each.due for each in arrivals] == [b"1970-01-01T00:00:01.000Z"] * 2 + [b""]
    assert arrivals[0].late_ms == pytest.approx(arrivals[0].at_ns / 1e6 - 1000)
    assert (await reader.readexactly(120)).count(b"HTTP/1.1 200 OK") == 3
    writer.close()
    await writer.wait_closed()
    target.close()


async def test_a_refusal_ends_the_load_with_what_the_api_said() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b'HTTP/1.1 429 Too Many\r\nContent-Length: 14\r\n\r\n{"error": "x"}')
        await reader.read()
        writer.close()

    port = await reserve("127.0.0.1", 0, patience_s=0.0)
    [listener] = port.listen()
    server = await asyncio.start_server(refuse, sock=listener)
    with pytest.raises(PostdateError, match=r'refused a schedule: {"error": "x"}'):
        await load(port, [b"POST / HTTP/1.1\r\n\r\n"], 0.2)
    server.close()
    await asyncio.sleep(0.05)  # its connections have read the end
    port.free()
