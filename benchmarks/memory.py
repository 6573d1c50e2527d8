"""How much memory does a schedule take: while it waits, and after it was executed?

    python -m benchmarks.memory [--count 100000] [--failed] [--new-connections]

Stores `--count` schedules of one account (about 190 bytes of request each) in a Valkey set up as
`postdate up` sets it up, through the store as the API does, and compares the server's used_memory
before and after. Then it claims and acks all of them through the store as a worker does, and
compares again: the rest is the ended schedule (kept for 24 h by default), its log entry, its
places in two index streams and its part of the rollups (30 days). Executed ones end at some speed;
rollups are shared by all of the same second, so slower traffic pays more of them. With `--failed`
all fail, and are dead letters (kept for a week by default). With `--new-connections` each had one
made for it, and its phases are kept.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable

import msgspec
import uvloop

from benchmarks.support import stage
from benchmarks.support.payload import new_account, request, schedule_all
from scheduler.models import Outcome, Phases, Status
from scheduler.runtime.settings import Settings
from scheduler.store import Store, keys
from scheduler.store.lifecycle.end.end_rows import Ack
from scheduler.store.stored import pack_request

URLS = [f"https://example.com/hooks/{n:04}" for n in range(100)]
COMPLETED = Outcome(Status.COMPLETED, 200, 42, "")
FAILED = Outcome(
    Status.FAILED, 503, 42, "Service Unavailable", phases=Phases(first_byte_ms=42, last_byte_ms=0)
)
_OVER_A_NEW_CONNECTION = Phases(None, 6, 14, 21, 1)
_AT_ONCE = 128
_SAMPLES = 1000


async def used_bytes(store: Store) -> int:
    """What the server holds, less what its clients' buffers happen to take."""
    await asyncio.sleep(1.5)  # buffers shrink, and the hash table being resized is freed
    memory = await store.server.info("memory")
    return int(memory["used_memory"]) - int(memory["mem_clients_normal"])


async def size_bytes(store: Store, names: Iterable[str]) -> int:
    """MEMORY USAGE of some keys, every element looked at."""
    usage = ("MEMORY", "USAGE")
    sizes = [await store.server.ask(*usage, name, "SAMPLES", 0) for name in names]
    return sum(size or 0 for size in sizes)


async def execute_all(store: Store, shard: int, outcome: Outcome) -> int:
    """Claims and acks all that is due; returns how many."""
    done = 0
    while True:
        batch = await store.claims.claim(shard, lease_ms=15_000, most=_AT_ONCE)
        if not batch.invocations:
            return done
        acks = [Ack(each, outcome, 3) for each in batch.invocations]
        codes = await store.ends.ack(shard, acks)
        assert codes == [1] * len(codes)
        done += len(codes)


async def keys_like(store: Store, pattern: str) -> list[str]:
    return [key.decode() async for some in store.server.keys(pattern, 1000) for key in some]


async def measure(redis_url: str, count: int, outcome: Outcome) -> None:
    store = await Store.open(Settings(redis_url=redis_url, shards=1))
    account = await new_account(store, "memory")
    base = keys.account(account.account_id)
    await schedule_all(store, account.account_id, [request(URLS[0], 2**42)])  # scripts loaded
    await store.claims.claim(0, lease_ms=1, most=1)
    empty = await used_bytes(store)

    due_ms = store.clock.now_ms() - count
    requests = [request(URLS[n % len(URLS)], due_ms + n) for n in range(count)]
    created = await schedule_all(store, account.account_id, requests)
    waiting = await used_bytes(store)
    sampled = [keys.schedule(account.account_id, created[n]) for n in range(0, count, 97)]
    sampled = sampled[:_SAMPLES]
    packed = len(pack_request(requests[0]))
    print(f"{count} schedules of one account, {packed} bytes of packed request each\n")
    report("waiting", count, waiting - empty)
    hash_bytes = await size_bytes(store, sampled) / len(sampled)
    parts(
        {
            "its hash": hash_bytes,
            "its place among the waiting": await size_bytes(store, [base + "waiting"]) / count,
        },
        (waiting - empty) / count,
    )

    assert await execute_all(store, 0, outcome) == count
    executed = await used_bytes(store)
    indexes = await keys_like(store, base + "index:*")
    by_status = [name for name in indexes if name.endswith(f":{outcome.status}")]
    rollups = await keys_like(store, base + "[mhd][ioa][nuy]*:*")
    report("executed", count, executed - empty)
    parts(
        {
            "its hash, for 24 h, or a week": await size_bytes(store, sampled) / len(sampled),
            "its place among the dead letters": await size_bytes(store, [base + "failed"]) / count,
            "its log entry": await size_bytes(store, [base + "log"]) / count,
            "its place in the index of its status": await size_bytes(store, by_status) / count,
            f"its place in the indexes of {len(URLS)} URLs": await size_bytes(
                store, [name for name in indexes if name not in by_status]
            )
            / count,
            f"its part of {len(rollups)} rollups": await size_bytes(store, rollups) / count,
        },
        (executed - empty) / count,
    )
    names = [keys.schedule(account.account_id, each) for each in created]
    for start in range(0, count, 1000):
        await store.server.call("UNLINK", *names[start : start + 1000])
    await store.server.call("UNLINK", base + keys.FAILED)
    report("executed, after that (log, indexes, rollups)", count, await used_bytes(store) - empty)
    await store.aclose()


def report(what: str, count: int, total_bytes: int) -> None:
    print(f"{total_bytes / count:7.0f} bytes per {what}  ({total_bytes / 2**20:.1f} MiB in all)")


def parts(shares: dict[str, float], whole: float) -> None:
    """Where the bytes are; the rest is the server's tables of keys and of their expiry."""
    for name, each in shares.items():
        print(f"    {each:7.1f}  {name}")
    print(f"    {whole - sum(shares.values()):7.1f}  tables of keys and expiry, fragments\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--failed", action="store_true")
    parser.add_argument("--new-connections", action="store_true")
    arguments = parser.parse_args()
    outcome = FAILED if arguments.failed else COMPLETED
    if arguments.new_connections:
        outcome = msgspec.structs.replace(outcome, phases=_OVER_A_NEW_CONNECTION)
    with stage.valkey() as server:
        uvloop.run(measure(server.url, arguments.count, outcome))


if __name__ == "__main__":
    main()
