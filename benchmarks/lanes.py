"""Do lanes keep their limits, whatever dies?

    python -m benchmarks.lanes [rate parallel] [--seconds 30] [--rounds 3]

rate      one lane of 100 a second, burst 1, and eight workers, one of which is killed (-9) and
          started again every 5 s: the most starts in any second, at a kept-alive receiver
parallel  parallelism 5 with a receiver that answers after 50 ms, without and with such kills: the
          most at once there; parallelism 1 and 5 ms: starts a second

All run on one machine, so there is one clock. While the receiver waits for a core, requests pile up
before it and seem to start together: it gets the highest priority, where that is allowed, and the
report says how long it waited. `benchmarks.lane_costs` has what lanes cost others.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.support import stage
from benchmarks.support.beside import LEAD_MS, connected
from benchmarks.support.payload import new_account, request, schedule_all
from benchmarks.support.windows import most_at_once, most_within
from scheduler.lane_settings import LaneSettings
from scheduler.store import Store

RATE, WORKERS, KILL_EVERY_S = 100, 8, 5.0
_SECOND_MS = 1000
_FIRST = -20  # before all else


class Received(NamedTuple):
    """When each request was whole at the receiver and when it was answered (ms)."""

    begin_ms: float
    end_ms: float


class Crew:
    """Workers on one store; the next one in turn is killed."""

    def __init__(self, redis_url: str, count: int) -> None:
        self._redis_url = redis_url
        self._members = [self._start() for _ in range(count)]
        self.killed = 0

    def replace_one(self) -> None:
        stack, worker = self._members.pop(0)
        worker.process.kill()
        stack.close()
        self.killed += 1
        self._members.append(self._start())

    def close(self) -> None:
        for stack, _ in self._members:
            stack.close()

    def _start(self) -> tuple[contextlib.ExitStack, stage.Running]:
        stack = contextlib.ExitStack()
        return stack, stack.enter_context(stage.worker(self._redis_url, metrics_port=0))


class Drain(NamedTuple):
    """How a lane that had `count` due was worked off; `waited_ms`: the receiver, for a core."""

    count: int
    received: list[Received]
    killed: int
    waited_ms: float

    @property
    def per_second(self) -> float:
        """Between the first and the last start."""
        begun = sorted(each.begin_ms for each in self.received)
        return (len(begun) - 1) * 1000 / (begun[-1] - begun[0])


def drained(
    limits: dict[str, int], count: int, *, workers: int, answer_after_ms: int = 0, kills: bool
) -> Drain:
    """Stores them all due at once in a lane with these limits, and returns when it is empty."""
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as home:
        log = Path(home) / "received"
        options = ("--log", str(log), "--answer-after-ms", str(answer_after_ms))
        with stage.valkey() as server, stage.own_target(*options) as target:
            with contextlib.suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, target.process.pid, _FIRST)
            crew = Crew(server.url, workers)
            with contextlib.closing(crew), connected(server.url) as ask:
                account_id = ask(lambda store: _filled(store, target.url, limits, count))
                killed_s = time.monotonic()
                while ask(lambda store: _is_busy(store, account_id)):
                    time.sleep(0.1)
                    if kills and time.monotonic() - killed_s >= KILL_EVERY_S:
                        crew.replace_one()
                        killed_s = time.monotonic()
                waited_ms = target.waited_ms()
        found = [_received(line) for line in log.read_text().splitlines()]
    return Drain(count, found, crew.killed, waited_ms)


def _received(line: str) -> Received:
    begin_ns, _, end_ns = (line + " ").split(" ")[:3]
    return Received(int(begin_ns) / 1e6, int(end_ns or begin_ns) / 1e6)


async def _filled(store: Store, url: str, limits: dict[str, int], count: int) -> str:
    account_id = (await new_account(store, "lanes")).account_id
    await limit(store, account_id, "limited", **limits)
    due_ms = store.clock.now_ms() + LEAD_MS + count // 8
    await schedule_all(store, account_id, [request(url, due_ms, "limited")] * count)
    return account_id


async def _is_busy(store: Store, account_id: str) -> bool:
    lane = await store.lanes.read(account_id, "limited")
    return lane.waiting > 0 or lane.running > 0


def rate(options: argparse.Namespace) -> None:
    limits = {"rate": RATE, "per_ms": _SECOND_MS}
    for number in range(1, options.rounds + 1):
        found = drained(limits, RATE * options.seconds, workers=WORKERS, kills=True)
        begun = [each.begin_ms for each in found.received]
        print(
            f"rate {RATE}/s, burst 1, round {number}: {most_within(begun, _SECOND_MS)} starts in "
            f"the fullest second ({RATE + 1} allowed); {found.count} schedules, {len(begun)} "
            f"starts, {found.per_second:.1f}/s, {found.killed} of {WORKERS} workers killed; the "
            f"receiver waited {found.waited_ms:.0f} ms for a core",
            flush=True,
        )


def parallel(options: argparse.Namespace) -> None:
    for kills in (False, True):
        found = drained(
            {"parallelism": 5}, 50 * options.seconds, workers=4, answer_after_ms=50, kills=kills
        )
        print(
            f"parallelism 5, {found.killed} of 4 workers killed: {most_at_once(found.received)} "
            f"at once, {found.per_second:.1f}/s of at most 100",
            flush=True,
        )
    for workers in (1, 4):
        ones = drained(
            {"parallelism": 1}, 30 * options.seconds, workers=workers, answer_after_ms=5,
            kills=False,
        )  # fmt: skip
        print(
            f"parallelism 1, answers after 5 ms, {workers} workers: "
            f"{most_at_once(ones.received)} at once, {ones.per_second:.1f} starts a second",
            flush=True,
        )


async def limit(store: Store, account_id: str, lane: str, **limits: int) -> None:
    await store.lanes.put(account_id, lane, LaneSettings(**limits))


PARTS = {each.__name__: each for each in (rate, parallel)}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures whether lanes keep their limits.")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="by default all")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for part in options.parts or PARTS:
        PARTS[part](options)


if __name__ == "__main__":
    main()
