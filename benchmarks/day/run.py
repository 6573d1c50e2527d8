"""Runs a day on servers of its own: hour by hour, each counted at its end."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import aiohttp
import msgspec
import uvloop

from benchmarks.day.before import Owner, stored
from benchmarks.day.clock import SteppedClock
from benchmarks.day.feed import Feed
from benchmarks.day.look import Hour, descriptors, kinds, rss_bytes, totals, unended
from benchmarks.day.plan import HOUR_MS, SETTLE_MS, Plan
from benchmarks.day.receiver import Report
from benchmarks.support import stage
from scheduler.runtime.settings import Settings
from scheduler.store import Store

_STEP_PATIENCE_S, _DRAIN_PATIENCE_S, _POLL_S = 5, 120, 0.2
_RETRY_MS = 2000  # more than a target that refused is left alone for


class Scene(NamedTuple):
    """What runs, and the store as the benchmark sees it."""

    plan: Plan
    clock: SteppedClock
    target: str
    processes: dict[str, stage.Running]
    store: Store
    session: aiohttp.ClientSession


def run(plan: Plan) -> list[Hour]:
    """The day's hours; the first was counted before it began."""
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as home:
        clock = SteppedClock(Path(home) / "clock")
        with (
            stage.valkey(preload=clock.environment()) as server,
            stage.listening("benchmarks.day.receiver", "--clock", str(clock.file)) as receiver,
        ):
            return uvloop.run(_with_store(plan, clock, server, receiver.url))


async def _with_store(
    plan: Plan, clock: SteppedClock, server: stage.Running, target: str
) -> list[Hour]:
    kept = {
        "schedule_retention_hours": plan.kept_hours,
        "failed_retention_hours": plan.failed_hours,
        "log_retention_days": 1,
        "log_max_entries": plan.log_most,
    }
    others = {"log_level": "error", "metrics_port": 0, "allow_targets": "127.0.0.0/8"}
    store = await Store.open(Settings(redis_url=server.url, **kept))
    try:
        start_ms = (clock.now_ms() // HOUR_MS + 2) * HOUR_MS
        owners = await stored(store, plan, target, start_ms)
        with (
            stage.api(server.url, **kept, **others) as api,
            stage.worker(server.url, **kept, **others) as worker,
        ):
            processes = {"API": api, "worker": worker, "store": server}
            async with aiohttp.ClientSession(api.url) as session:
                scene = Scene(plan, clock, target, processes, store, session)
                return await _day(scene, owners, start_ms)
    finally:
        await store.aclose()


async def _day(scene: Scene, owners: list[Owner], start_ms: int) -> list[Hour]:
    accounts = [each.account_id for each in owners]
    feed = Feed(scene.session, scene.plan, scene.clock, scene.target)
    if scene.clock.now_ms() > start_ms:
        raise SystemExit("The schedules were not stored in time; take fewer.")
    hours = [await _counted(scene, accounts, Hour(rate=0))]
    for number in range(scene.plan.hours):
        began_s = time.monotonic()
        hour_ms = start_ms + number * HOUR_MS
        await _stepped(scene, hour_ms)
        found = await _hour(scene, owners, feed, number, hour_ms)
        found.took_s = time.monotonic() - began_s
        hours.append(await _counted(scene, accounts, found))
        print(_line(number, hours[-1]), flush=True)
    return hours


async def _stepped(scene: Scene, moment_ms: int) -> None:
    """Returns once the store has seen that it is that moment: it looks ten times a second."""
    scene.clock.step_to(moment_ms)
    deadline_s = time.monotonic() + _STEP_PATIENCE_S
    while scene.store.clock.observe_reply(await scene.store.server.ask("TIME")) < moment_ms:
        if time.monotonic() > deadline_s:
            raise SystemExit("The store's clock was not stepped.")
        await asyncio.sleep(_POLL_S)


async def _hour(scene: Scene, owners: list[Owner], feed: Feed, number: int, hour_ms: int) -> Hour:
    plan, before = scene.plan, feed.reads
    async with feed.reading(owners):
        creating = asyncio.create_task(feed.hour(owners, number, hour_ms))
        await asyncio.sleep((hour_ms + SETTLE_MS - scene.clock.now_ms()) / 1000)
        burst = await _report(scene)
        cancelled = await creating
        end_ms = hour_ms + SETTLE_MS + plan.busy_ms
        await asyncio.sleep(max(0, end_ms - scene.clock.now_ms()) / 1000)
    await _drained(scene, [each.account_id for each in owners])
    came = await _report(scene)
    return Hour(
        rate=plan.rate(number),
        expected=plan.sent(number),
        cancelled=cancelled,
        came=dict(Counter(burst.came) + Counter(came.came)),
        again=burst.again + came.again,
        refused=burst.refused + came.refused,
        least_ms=came.least_ms,
        p50_ms=came.p50_ms,
        p99_ms=came.p99_ms,
        reads=feed.reads - before,
    )


async def _report(scene: Scene) -> Report:
    async with scene.session.get(f"{scene.target}/report") as answer:
        return msgspec.json.decode(await answer.read(), type=Report)


async def _drained(scene: Scene, accounts: list[str]) -> None:
    """Returns once nothing is due or held, no retry is to come, and no callback is pending."""
    deadline_s = time.monotonic() + _DRAIN_PATIENCE_S
    while left := await unended(scene.store, accounts, scene.clock.now_ms() + _RETRY_MS):
        if time.monotonic() > deadline_s:
            raise SystemExit(f"{left} schedules and callbacks did not end.")
        await asyncio.sleep(_POLL_S)


async def _counted(scene: Scene, accounts: list[str], hour: Hour) -> Hour:
    """With all that is to be seen at its end."""
    memory, file = [await scene.store.server.info(each) for each in ("memory", "persistence")]
    hour.rss = {name: rss_bytes(each) for name, each in scene.processes.items()}
    hour.descriptors = {name: descriptors(each) for name, each in scene.processes.items()}
    hour.used_bytes = int(memory["used_memory"])
    hour.aof_bytes = int(file["aof_current_size"])
    hour.aof_base_bytes = int(file["aof_base_size"])
    found = await totals(scene.store, accounts)
    hour.waiting, hour.logged = found.waiting, found.logged
    hour.completed, hour.failed = found.completed, found.failed
    hour.kinds = await kinds(scene.store)
    return hour


def _line(number: int, hour: Hour) -> str:
    mib = 2**20
    return (
        f"{number:2}:00  {hour.rate:5,}/s  {sum(hour.came.values()):7,} came, {hour.refused:5,} "
        f"refused  p50 {hour.p50_ms:6.2f}  p99 {hour.p99_ms:7.2f} ms  {hour.kinds['s']:9,} "
        f"schedules, {hour.logged:7,} logged  MiB: store {hour.used_bytes // mib:,}, file "
        f"{hour.aof_bytes // mib:,}, worker {hour.rss['worker'] // mib}, API "
        f"{hour.rss['API'] // mib}  {hour.took_s:.0f} s"
    )
