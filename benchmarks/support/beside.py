"""How late are schedules beside others? The set-up that several benchmarks share."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.lateness import Lateness, arrivals_ms, lateness
from benchmarks.support import stage
from benchmarks.support.payload import schedule_all
from scheduler.models import Request
from scheduler.runtime.settings import Settings
from scheduler.store import Store

LEAD_MS = 2000
# Runs what awaits the store, and returns what that does.
Ask = Callable[[Callable[[Store], Awaitable[Any]]], Any]
# Of a benchmark: stores the schedules at the first URL, and others at the second one. Returns when
# each of the first is due (ms), by id.
Plan = Callable[[Ask, str, str], dict[str, int]]


@contextlib.contextmanager
def connected(redis_url: str) -> Iterator[Ask]:
    """A benchmark may block between two calls."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        store = runner.run(Store.open(Settings(redis_url=redis_url)))

        async def use(act: Callable[[Store], Awaitable[Any]]) -> Any:
            return await act(store)

        try:
            yield lambda act: runner.run(use(act))
        finally:
            runner.run(store.aclose())


def lateness_of(plan: Plan) -> Lateness:
    """How late the schedules of a plan are, with a store and a worker of its own."""
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as home:
        log = Path(home) / "received"
        with (
            stage.valkey(rewrites=False) as server,
            stage.logging_target(log) as target,
            stage.target() as other,
            stage.worker(server.url),
            connected(server.url) as ask,
        ):
            due = plan(ask, target.url, other.url)
            sleep_until(max(due.values()) + 2000)
        return lateness(arrivals_ms(log), due)


async def schedule_paced(
    store: Store, account_id: str, make: Callable[[int], Request], rate: int, moments: range
) -> dict[str, int]:
    """Stores what `make` makes of each moment (ms), `rate` a second in that range; returns the
    moments by id."""
    count = len(moments) * rate // 1000
    due = [moments.start + n * 1000 // rate for n in range(count)]
    made = await schedule_all(store, account_id, map(make, due))
    return dict(zip(made, due, strict=True))


def sleep_until(moment_ms: float) -> None:
    time.sleep(max(0.0, moment_ms / 1000 - time.time()))
