"""Metrics of every process, and the pulse of its event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from prometheus_client import ProcessCollector

from metrics.families import Histogram, Metric, counter, gauge, histogram
from scheduler.runtime.version import version
from scheduler.store import Store
from scheduler.store.server import Script

STEP_S = 0.25
# A loop that has not stepped for so long hangs; a supervisor may restart the process.
HUNG_AFTER_S = 5.0
_LAG_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_process = ProcessCollector(registry=None)


class LoopLag:
    """Steps a few times a second by itself. Make it inside a running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.lag_s = Histogram(_LAG_S)
        self._stepped_s = self._loop.time()
        self._timer = self._loop.call_at(self._stepped_s + STEP_S, self._step)

    @property
    def beats(self) -> bool:
        """Whether the loop has stepped recently. The store is not asked: without it, workers must
        keep what they hold, and not be restarted."""
        return self._loop.time() - self._stepped_s < HUNG_AFTER_S

    def close(self) -> None:
        self._timer.cancel()

    def _step(self) -> None:
        now_s = self._loop.time()
        self.lag_s.note(max(0.0, now_s - self._stepped_s - STEP_S))
        self._stepped_s = now_s
        self._timer = self._loop.call_at(now_s + STEP_S, self._step)


def common(role: str, pulse: LoopLag, store: Store | None) -> Iterator[Metric]:
    """Of the process, its event loop and its calls to the store."""
    yield gauge(
        "postdate_build_info",
        "Which version runs here, and as what.",
        {(version(), role): 1},
        ("version", "role"),
    )
    yield from _process.collect()
    yield histogram(
        "postdate_loop_lag_seconds",
        "How late the event loop was, looked at four times a second.",
        pulse.lag_s,
    )
    yield gauge(
        "postdate_keys_missing",
        "Keys that sealed something in the store and that this process lacks.",
        len(store.sealing_keys.missing) if store else 0,
    )
    yield gauge(
        "postdate_store_replaced",
        "Whether the store was emptied or replaced since this process opened it: 1, or 0.",
        float(bool(store and store.shards.replaced)),
    )
    yield from _store_calls(store)


def _store_calls(store: Store | None) -> Iterable[Metric]:
    calls: dict[tuple[str, ...], float] = {}
    errors: dict[tuple[str, ...], float] = {}
    for script in Script.all:
        if script.calls:
            of = (script.path,)
            calls[of] = calls.get(of, 0) + script.calls
            errors[of] = errors.get(of, 0) + script.errors
    # Always there, so that a rate of it can be had before the first one.
    calls["reads",] = store.server.reads_made if store else 0
    errors["reads",] = store.server.reads_failed if store else 0
    yield counter(
        "postdate_store_calls",
        "Calls to the store: of each script, and plain reads.",
        calls,
        ("script",),
    )
    yield counter(
        "postdate_store_errors",
        "Calls to the store that failed, or whose answer was lost.",
        errors,
        ("script",),
    )
