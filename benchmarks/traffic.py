"""How many bytes does a schedule move, and a worker that has nothing to do?

    python -m benchmarks.traffic [--count 10000] [--accounts 16] [--seconds 5] [--shards 16]

By the store's own counters, which other load does not change: what it received and sent, commands
that it carried out, and growth of its append-only file. An idle worker first; then `--count`
schedules, created 500 at a time and one by one, all due at one moment, sent and recorded. Their
part has no looks in it. docs/internals/scaling.md reckons with these figures.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import NamedTuple

import uvloop

from benchmarks.support import stage
from benchmarks.support.payload import executed, new_account, request
from scheduler.runtime.settings import Settings
from scheduler.store import Store

_AT_ONCE = 500


class Traffic(NamedTuple):
    """Of a store so far. `received`, `sent` and `file` are bytes."""

    received: int
    sent: int
    commands: int
    file: int

    def since(self, before: Traffic, each: float) -> str:
        parts = [(now - then) / each for now, then in zip(self, before, strict=True)]
        return "received {:7,.0f}, sent {:7,.0f} bytes, commands {:6,.2f}, file {:6,.0f}".format(
            *parts
        )


async def traffic(store: Store) -> Traffic:
    stats, kept = await store.server.info("stats"), await store.server.info("persistence")
    return Traffic(
        received=int(stats["total_net_input_bytes"]),
        sent=int(stats["total_net_output_bytes"]),
        commands=int(stats["total_commands_processed"]),
        file=int(kept["aof_current_size"]),
    )


async def create(store: Store, owners: list[str], count: int, url: str, due_ms: int) -> None:
    for start in range(0, count, _AT_ONCE):
        some = range(start, min(count, start + _AT_ONCE))
        await asyncio.gather(
            *(store.schedules.create(owners[n % len(owners)], request(url, due_ms)) for n in some)
        )


async def life(
    store: Store, redis_url: str, owners: list[str], count: int, url: str
) -> tuple[str, str]:
    """Creates so many, which a worker of its own then sends."""
    before = await traffic(store)
    await create(store, owners, count, url, store.clock.now_ms() + 100)
    created = await traffic(store)
    await asyncio.sleep(0.2)
    with stage.worker(redis_url):
        for owner in owners:
            await executed(store, owner)
        fired = await traffic(store)
    return created.since(before, count), fired.since(created, count)


async def measure(redis_url: str, url: str, options: argparse.Namespace) -> None:
    store = await Store.open(Settings(redis_url=redis_url, shards=options.shards))
    try:
        names = [f"traffic-{n}" for n in range(options.accounts)]
        owners = [(await new_account(store, name)).account_id for name in names]
        with stage.worker(redis_url):
            await asyncio.sleep(2)  # it has found its shards
            before, began_s = await traffic(store), time.monotonic()
            await asyncio.sleep(options.seconds)
            took_s = time.monotonic() - began_s
            print(f"idle worker, a second  {(await traffic(store)).since(before, took_s)}")
        await life(store, redis_url, owners, len(owners), url)  # the store then knows the scripts
        created, fired = await life(store, redis_url, owners, options.count, url)
        print(f"a create               {created}\na fire                 {fired}")
    finally:
        await store.aclose()


def main() -> None:
    options = argparse.ArgumentParser(description="Counts the bytes of schedules.")
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--accounts", type=int, default=16)
    options.add_argument("--seconds", type=int, default=5)
    options.add_argument("--shards", type=int, default=16)
    with stage.valkey(rewrites=False) as server, stage.target() as target:
        uvloop.run(measure(server.url, target.url, options.parse_args()))


if __name__ == "__main__":
    main()
