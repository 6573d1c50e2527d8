"""What there is at the end of an hour: of the processes, and in the store."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec

from benchmarks.support import stage
from scheduler.store import Store, keys

_AT_ONCE = 5000
_LOCAL = 8  # characters of an account's name in its shard


class Hour(msgspec.Struct):
    """One hour's figures; bytes, milliseconds. `came`: requests by kind, and how many were
    `expected`; `again`, `refused`: those among them that were repeated, and that failed;
    `completed` and `failed`: outcomes since ever; `aof_base_bytes`: the append-only file when it
    was last rewritten; `kinds`: keys of each kind."""

    rate: int
    expected: int = 0
    cancelled: int = 0
    came: dict[str, int] = {}
    again: int = 0
    refused: int = 0
    least_ms: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    reads: int = 0
    took_s: float = 0.0
    rss: dict[str, int] = {}
    descriptors: dict[str, int] = {}
    used_bytes: int = 0
    aof_bytes: int = 0
    aof_base_bytes: int = 0
    waiting: int = 0
    completed: int = 0
    failed: int = 0
    logged: int = 0
    kinds: dict[str, int] = {}


def rss_bytes(process: stage.Running) -> int:
    """What a process has in memory."""
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    [line] = [each for each in status.splitlines() if each.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def descriptors(process: stage.Running) -> int:
    return len(list(Path(f"/proc/{process.process.pid}/fd").iterdir()))


async def kinds(store: Store) -> dict[str, int]:
    """How many keys there are of each kind: all of them, by SCAN."""
    found: Counter[str] = Counter()
    async for some in store.server.keys("*", _AT_ONCE):
        found.update(kind_of(each.decode()) for each in some)
    return dict(sorted(found.items()))


def kind_of(key: str) -> str:
    """What `scheduler.store.keys` calls it, without whose it is; a schedule's, whose name is its id
    alone, is `s`."""
    name = key.removeprefix(keys.ROOT)
    if name.startswith("{"):
        name = name.partition("}")[2]
        if name[_LOCAL : _LOCAL + 1] == ":":
            name = name[_LOCAL + 1 :]
            if name[0].isdigit():
                return "s"
    return name.partition(":")[0].partition("{")[0]


class Totals(msgspec.Struct):
    """Of all accounts, since ever: executions by outcome. And what waits and is logged now."""

    completed: int = 0
    failed: int = 0
    waiting: int = 0
    logged: int = 0


async def totals(store: Store, accounts: list[str]) -> Totals:
    found = Totals()
    for account_id in accounts:
        base = keys.account(account_id)
        entries, sums, waiting, laned = await store.server.reads(
            [
                ("HGET", base + keys.LOGGED, "n"),
                ("HGET", base + keys.LOGGED, "t"),
                ("ZCARD", base + keys.WAITING),
                ("ZCARD", base + keys.LANED),
            ]
        )
        completed, failed, _ = map(int, (sums or b"0 0 0").split())
        found.completed += completed
        found.failed += failed
        found.waiting += waiting + laned
        found.logged += int(entries or 0)
    return found


async def unended(store: Store, accounts: list[str], to_ms: int) -> int:
    """How many schedules are due by then or held, and how many callbacks are pending."""
    found = 0
    for account_id in accounts:
        base = keys.account(account_id)
        found += sum(
            await store.server.reads(
                [
                    ("ZCOUNT", base + keys.WAITING, "-inf", to_ms),
                    ("ZCOUNT", base + keys.LANED, "-inf", to_ms),
                    ("ZCARD", base + keys.HELD),
                    ("ZCARD", base + keys.CALLBACKS),
                ]
            )
        )
    return found
