"""Metrics of every process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from prometheus_client import ProcessCollector

from metrics.families import Metric, counter, gauge, histogram
from metrics.pulse import Pulse
from scheduler.store import Store
from scheduler.store.server import Script
from scheduler.version import version


@cache
def _process() -> ProcessCollector:
    return ProcessCollector(registry=None)


def common(role: str, pulse: Pulse, store: Store | None) -> Iterator[Metric]:
    """Of the process, its event loop and its calls to the store."""
    yield gauge(
        "postdate_build_info",
        "Which version runs here, and as what.",
        {(version(), role): 1},
        ("version", "role"),
    )
    yield from _process().collect()
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
