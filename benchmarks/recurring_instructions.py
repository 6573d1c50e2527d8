"""How many instructions does it take to make the next occurrence of a rule?

    python -m benchmarks.recurring_instructions [CASE …] [--rounds 8]

Steady where CPU time is noise: `benchmarks.recurring next` measures that. A store below Valgrind
counts all that its process executes for one call of `store.recurring.advance`, from its reads to
its replies; medians of `--rounds` calls, after one in which it compiles. A process of its own below
Valgrind, with a store that is not, counts what a worker executes: `--rounds` calls and the same
without them, the difference. All in thousands for each occurrence. Needs `valgrind`.

CASES have so many rules of so many accounts, each in a shard of its own, advanced in one call, and
how their times are found. Every second of the rules has a cron expression of its own minute.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec
import uvloop

from benchmarks.lane_instructions import Counted, counted
from benchmarks.support import stage
from benchmarks.support.payload import new_account, request
from scheduler import ids
from scheduler.models import Invocation, Occurrence
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.recurring.rules import StoredRule
from scheduler.store.recurring.steps import Steps
from scheduler.store.retention import Retention

HOUR_MS = 3_600_000
URL = "https://example.com/hook"
_FEWEST = 256  # occurrences of a process below Valgrind


class Case(NamedTuple):
    rules: int
    accounts: int = 1
    zone: str = ""  # by cron; otherwise by interval

    def timing(self, number: int) -> Timing:
        if self.zone:
            return Timing(cron=f"{number % 60} * * * *", zone=self.zone)
        return Timing(every_ms=HOUR_MS)


CASES = {
    "one": Case(1),
    "64": Case(64),
    "64-of-ten": Case(64, 10),
    "64-by-cron": Case(64, zone="UTC"),
    "64-by-cron-berlin": Case(64, zone="Europe/Berlin"),
}


class Rules:
    """Of a case, as they are stored; their occurrences are as if they had been claimed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._named: list[tuple[str, str]] = []

    async def store_all(self, name: str, case: Case) -> None:
        accounts: dict[int, str] = {}
        while len(accounts) < case.accounts:
            owner = (await new_account(self._store, f"{name}-{os.urandom(4).hex()}")).account_id
            accounts.setdefault(keys.parts(owner).shard, owner)
        for number in range(case.rules):
            owner = [*accounts.values()][number % case.accounts]
            draft = Draft(request(URL, 0), case.timing(number))
            created = await self._store.recurring.create(owner, draft, None)
            self._named.append((owner, ids.local(created.rule.recurring_id)))

    async def claimed(self) -> list[Invocation]:
        steps = Steps(self._store.server, self._store.clock, Retention.of(Settings()))
        found = await steps.read(self._named)
        return [occurrence(rule) for _, rule in found if isinstance(rule, StoredRule)]


def occurrence(rule: StoredRule) -> Invocation:
    slot_ms = rule.slot_ms or 0
    mark = Occurrence(rule.recurring_id, slot_ms)
    made = msgspec.structs.replace(request(URL, slot_ms), recurring=mark)
    schedule_id = ids.schedule_id(rule.occurrence)
    what = (keys.parts(rule.account_id).shard, rule.account_id, schedule_id, "", 1, 0.0)
    return Invocation(*what, made, slot_ms, size_bytes=len(rule.packed))


async def of_store(server: Counted, name: str, rounds: int) -> float:
    store = await Store.open(Settings(redis_url=server.url))
    try:
        rules, found = Rules(store), []
        await rules.store_all(name, CASES[name])
        for _ in range(rounds + 1):
            some = await rules.claimed()
            await server.dump()
            thousands, _ = await server.of(lambda: store.recurring.advance(some))  # noqa: B023
            found.append(thousands / len(some))
        return statistics.median(found[1:])
    finally:
        await store.aclose()


def of_worker(name: str, rounds: int) -> float:
    """So many calls are some milliseconds beside a process's start."""
    calls = max(rounds, _FEWEST // CASES[name].rules)
    with stage.valkey() as server:
        with_calls, without = (below_valgrind(server.url, name, calls, n) for n in (calls, 0))
    return (with_calls - without) / 1000 / calls / CASES[name].rules


def below_valgrind(url: str, name: str, rounds: int, advances: int) -> int:
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as folder:
        report = Path(folder) / "report"
        counting = ("--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
        command = ["valgrind", *counting, f"--log-file={report}", sys.executable, "-m"]
        command += [__spec__.name, "--below", url, name, str(rounds), str(advances)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "0"})
        total = re.search(r"I\s+refs:\s+([\d,]+)", report.read_text())
        assert total, report.read_text()
        return int(total[1].replace(",", ""))


async def act_as_worker(url: str, name: str, rounds: int, advances: int) -> None:
    store = await Store.open(Settings(redis_url=url))
    try:
        rules = Rules(store)
        await rules.store_all(name, CASES[name])
        for n in range(rounds + 1):
            some = await rules.claimed()
            if n <= advances:
                await store.recurring.advance(some)
    finally:
        await store.aclose()


def main() -> None:
    if sys.argv[1:2] == ["--below"]:
        _, _, url, name, rounds, advances = sys.argv
        uvloop.run(act_as_worker(url, name, int(rounds), int(advances)))
        return
    parser = argparse.ArgumentParser(description="Counts the instructions of an occurrence.")
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="by default all")
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("There is no `valgrind` on this machine.")
    print(f"{'thousands of':22}{'worker':>9}{'store':>9}")
    with counted(of="") as server:
        for name in options.cases or [*CASES]:
            store = uvloop.run(of_store(server, name, options.rounds))
            worker = of_worker(name, options.rounds)
            print(f"{name:22}{worker:9,.1f}{store:9,.1f}", flush=True)


if __name__ == "__main__":
    main()
