"""How does Postdate do beside its peers: BullMQ, ChasquiMQ, SAQ, arq, docket, streaQ and Celery?

    python -m benchmarks.peers              # a quarter of an hour at most; rewrites the report
    python -m benchmarks.peers --quick      # a few minutes, prints only

The same HTTP POST to the same receiver; for each measurement a fresh Valkey that has every write
on disk before it answers; one worker process each, set as its documentation says. Three rounds,
the systems in turn, medians. The receiver's CPU in each burst shows that it does not limit
the rate. Peers are installed, pinned, below `.peers`; the first run needs a
package index for that. Results go to benchmarks/results/peers.json, docs/benchmarks/peers.svg and
the marked passage of benchmarks/README.md. See benchmarks/README.md for the method.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.peers import environments, machine, measure, report
from benchmarks.peers.systems import ChasquiMQ, Postdate, System

SYSTEMS = (
    Postdate("postdate", "Postdate", (), "as it comes", has_bulk=True),
    System(
        "bullmq",
        "BullMQ",
        ("bullmq", "ioredis", "undici"),
        "Node.js; concurrency 100; ioredis; undici pool; completed jobs removed",
        has_bulk=True,
    ),
    ChasquiMQ(
        "chasquimq",
        "ChasquiMQ",
        ("chasquimq", "msgpack", "aiohttp", "uvloop"),
        "over TCP; uvloop; `Producer` with a pool of 8; worker on Redis 8.6, concurrency 100",
        has_bulk=True,
    ),
    System(
        "saq",
        "SAQ",
        ("saq", "redis", "hiredis", "aiohttp", "orjson", "uvloop"),
        "uvloop, hiredis, orjson; concurrency 200; retries=2, ttl=-1; schedule timer 1 s",
    ),
    System(
        "arq",
        "arq",
        ("arq", "redis", "hiredis", "aiohttp", "uvloop"),
        "uvloop, hiredis; max_jobs 1,000; poll_delay 1 ms; keep_result 0",
        burst_share=0.25,
    ),
    System(
        "docket",
        "docket",
        ("pydocket", "redis", "hiredis", "aiohttp", "uvloop"),
        "uvloop, hiredis; concurrency 100; looks every 5 ms; execution_ttl 0",
        has_bulk=True,
        burst_share=0.25,
    ),
    System(
        "streaq",
        "streaQ",
        ("streaq", "coredis", "aiohttp", "orjson", "uvloop"),
        "uvloop, orjson; concurrency 256; ttl=0, silent",
        has_bulk=True,
        burst_share=0.25,
    ),
    System(
        "celery",
        "Celery",
        ("celery", "kombu", "redis", "hiredis", "urllib3"),
        "pool of 16 threads; acks_late; ignore_result; no gossip, mingle or heartbeat",
        burst_share=0.25,
        fill_factor=2.5,
    ),
)
_QUESTIONS: tuple[Callable[[System, measure.Size], dict[str, Any]], ...] = (
    measure.enqueue,
    measure.burst,
    measure.lateness,
)


def main() -> None:
    options = argparse.ArgumentParser(description="Measures Postdate beside its peers.")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--quick", action="store_true", help="one short round, printed only")
    options.add_argument("--only", nargs="+", choices=[s.name for s in SYSTEMS], help="print only")
    options.add_argument("--render", action="store_true", help="only rewrite from the last JSON")
    chosen = options.parse_args()
    if chosen.render:
        report.write(report.load())
        return
    systems = prepared(chosen.only)
    size, rounds = (measure.QUICK, 1) if chosen.quick else (measure.FULL, chosen.rounds)
    began_s = time.monotonic()
    results = run(systems, size, rounds)
    results["took_s"] = round(time.monotonic() - began_s)
    print("\n" + report.table(results) + "\n\n" + report.proof(results))
    print("\n".join(report.notes(results)))
    print(f"{results['took_s']} s on {results['machine']['words']}")
    if not chosen.quick and not chosen.only:
        report.save(results)
        report.write(results)


def prepared(only: list[str] | None) -> list[System]:
    """The chosen systems that can be had here; says which cannot."""
    found = []
    for system in SYSTEMS:
        if only and system.name not in only:
            continue
        try:
            system.prepare()
            found.append(system)
        except environments.Unavailable as reason:
            print(f"{system.title} is left out: {reason}")
    return found


def run(systems: list[System], size: measure.Size, rounds: int) -> dict[str, Any]:
    """All rounds, interleaved."""
    found: dict[str, list[dict[str, Any]]] = {system.name: [] for system in systems}
    described = machine.describe()  # before it is busy with ourselves
    for number in range(rounds):
        for system in systems:
            measured: dict[str, Any] = {}
            for question in _QUESTIONS[:1] if system.needs else _QUESTIONS:
                measured |= question(system, size)
            found[system.name].append(measured)
            print(f"round {number + 1}  {report.line(system.title, measured)}", flush=True)
    return {
        "machine": described,
        "rounds": rounds,
        "size": size._asdict(),
        "systems": [_summary(system, found[system.name]) for system in systems],
    }


def _summary(system: System, rounds: list[dict[str, Any]]) -> dict[str, Any]:
    medians = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
    return {
        "name": system.name,
        "title": system.title,
        "versions": system.versions(),
        "settings": system.settings,
        "needs": system.needs,
        **medians,
        "each_round": rounds,
    }


if __name__ == "__main__":
    main()
