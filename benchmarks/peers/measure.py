"""The four questions, asked of one system once: enqueue and bytes, burst, lateness.

Each starts on a fresh store that has every write on disk before it answers. Times of arrival are
those of the receiver's log.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, NamedTuple

import redis

from benchmarks.peers import receiver
from benchmarks.peers.receiver import Arrival, Receiver
from benchmarks.peers.systems import Added, Place, System
from benchmarks.support import stage

_FAR_MS = 30 * 86_400_000
_LEAD_S = 3.0
_SETTLE_S = 1.5
_PATIENCE_S = 30.0
_POLL_S = 0.25
_PROBE = 300
_TRIES = 3


class Size(NamedTuple):
    """How much of each is measured."""

    burst: int
    rate: int
    spread_s: int
    singles: int
    bulk: int


FULL = Size(burst=20_000, rate=500, spread_s=6, singles=4_000, bulk=20_000)
QUICK = Size(burst=2_000, rate=500, spread_s=2, singles=1_000, bulk=4_000)


def enqueue(system: System, size: Size) -> dict[str, Any]:
    """Creates per second, one by one and in bulk, their CPU and bytes in the store; no worker."""
    with stage.valkey() as store, system.place(store) as place:
        url, due_ms = "http://127.0.0.1:9999/hook/", _now_ms() + _FAR_MS
        system.add(place, url, count=10, due_ms=due_ms)  # scripts loaded, queue made
        empty = _used_bytes(place)
        kinds = {"single": size.singles, **({"bulk": size.bulk} if system.has_bulk else {})}
        found: dict[str, float] = {}
        stored = 0
        for kind, count in kinds.items():
            busy = {"store": store, **({"api": place.api} if place.api else {})}
            before_s = {name: each.cpu_s() for name, each in busy.items()}
            added = system.add(place, url, count=count, due_ms=due_ms, bulk=kind == "bulk")
            stored += added.count
            found[f"{kind}_per_second"] = added.per_second
            for name, each in busy.items():
                found[f"{kind}_{name}_us"] = (each.cpu_s() - before_s[name]) * 1e6 / added.count
        return {**found, "bytes_each": (_used_bytes(place) - empty) / stored}


def burst(system: System, size: Size) -> dict[str, Any]:
    """Requests per second, first to last, of many that are due at one moment."""
    count = int(size.burst * system.burst_share)
    with (
        stage.valkey(server=system.worker_store) as store,
        system.place(store) as place,
        receiver.nginx() as received,
        system.worker(place, received.url) as worker,
    ):
        due_ms, before = _fill(system, place, received, count, every_us=0)
        time.sleep(max(0.0, (due_ms - _now_ms()) / 1000 - 0.2))
        busy = (worker, store, received.running)
        before_s = [each.cpu_s() for each in busy]
        _wait(received, before + count)
        worker_s, store_s, receiver_s = (
            each.cpu_s() - then_s for each, then_s in zip(busy, before_s, strict=True)
        )
        arrivals = received.arrivals(before)
    took_s = (arrivals[-1].at_ms - arrivals[0].at_ms) / 1000
    return {
        "burst_count": count,
        "burst_per_second": (len(arrivals) - 1) / took_s,
        "burst_first_ms": arrivals[0].at_ms - due_ms,
        "burst_last_ms": arrivals[-1].at_ms - due_ms,
        "burst_worker_cores": worker_s / took_s,
        "burst_worker_us": worker_s * 1e6 / count,
        "burst_store_us": store_s * 1e6 / count,
        "burst_receiver_cores": receiver_s / took_s,
        **_account(arrivals, count),
    }


def lateness(system: System, size: Size) -> dict[str, Any]:
    """How late requests arrive that are spread evenly over some seconds."""
    count, every_us = size.rate * size.spread_s, 1_000_000 // size.rate
    with (
        stage.valkey(server=system.worker_store) as store,
        system.place(store) as place,
        receiver.ours() as received,
        system.worker(place, received.url) as worker,
    ):
        due_ms, before = _fill(system, place, received, count, every_us)
        time.sleep(max(0.0, (due_ms - _now_ms()) / 1000))
        before_s = worker.cpu_s()
        time.sleep(max(0.0, (due_ms - _now_ms()) / 1000 + size.spread_s))
        worker_s = worker.cpu_s() - before_s
        _wait(received, before + count)
        arrivals = received.arrivals(before)
    late = [a.at_ms - (due_ms + a.number * every_us // 1000) for a in arrivals]
    cuts = statistics.quantiles(late, n=100, method="inclusive")
    return {
        "late_count": count,
        "late_worker_cores": worker_s / size.spread_s,
        "late_least_ms": min(late),
        "late_p50_ms": cuts[49],
        "late_p99_ms": cuts[98],
        "late_most_ms": max(late),
        "late_behind_ms": arrivals[-1].at_ms - (due_ms + (count - 1) * every_us // 1000),
        **_account(arrivals, count, "late_"),
    }


def _fill(
    system: System, place: Place, received: Receiver, count: int, every_us: int
) -> tuple[int, int]:
    """Stores them ahead; returns when the first is due, and how many lines the log has before.

    What some warm-up requests take to be stored tells how far ahead they must be due. If they were
    not all stored in time they are waited for, and it is done again with more time.
    """
    factor = system.fill_factor
    # Warm-up: every connection made, every script loaded, and how fast this machine is now.
    probe = system.add(
        place, received.url, count=_PROBE, due_ms=_now_ms() + 1000, bulk=system.has_bulk
    )
    _wait(received, _PROBE)
    expected = _PROBE
    for _ in range(_TRIES):
        ahead_s = _LEAD_S + (probe.beside_s + count / min(probe.per_second, 5_000)) * factor
        due_ms = _now_ms() + int(ahead_s * 1000)
        what = {"count": count, "due_ms": due_ms, "every_us": every_us, "bulk": system.has_bulk}
        filled: Added = system.add(place, received.url, **what)
        if _now_ms() < due_ms - 500:
            return due_ms, expected
        probe, factor, expected = filled, factor * 1.5, expected + count
        _wait(received, expected)
    raise SystemExit(f"{count} of {system.title} were not stored in time; is the machine busy?")


def _wait(received: Receiver, expected: int) -> None:
    """Returns once the log has that many, or when nothing has come for a while."""
    seen, since_s = -1, time.monotonic()
    while (count := received.count()) < expected:
        if count != seen:
            seen, since_s = count, time.monotonic()
        elif time.monotonic() - since_s > _PATIENCE_S:
            return  # `_account` reports missing requests
        time.sleep(_POLL_S)


def _account(arrivals: list[Arrival], count: int, prefix: str = "") -> dict[str, int]:
    """How many never came, and how many came more than once."""
    distinct = len({arrival.number for arrival in arrivals})
    return {f"{prefix}lost": count - distinct, f"{prefix}twice": len(arrivals) - distinct}


def _used_bytes(place: Place) -> int:
    """What the store holds, less what its clients' buffers happen to take."""
    time.sleep(_SETTLE_S)  # buffers shrink, and the table being resized is freed
    with redis.Redis(unix_socket_path=place.socket) as client:
        memory: Any = client.info("memory")
    return int(memory["used_memory"]) - int(memory["mem_clients_normal"])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
