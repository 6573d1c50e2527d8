"""The metrics of an API process: its own, and those of the whole store."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from api.door.connections import ConnectionLimits
from api.service import PATIENCE_S, Service
from metrics.common import LoopLag, common
from metrics.families import Metric, counter, gauge, histogram
from scheduler.errors import StoreError, StoreReplaced
from scheduler.recurrence.recurring import RuleState
from scheduler.store.operators.census import LANE_STATES, WINDOW_MS, WINDOWS, Figures
from scheduler.store.operators.heartbeats import Process
from scheduler.store.operators.system import PERSISTENCE, ServerStatus

_KEPT_S = 5.0
# The share of what a worker can fire that it is given, and is late with nothing.
_BUSY = 0.7


class Seen(NamedTuple):
    """The store at one moment."""

    figures: Figures
    workers: list[Process]
    servers: list[ServerStatus]


class ApiSource:
    """Of one process, and of the whole store, which is read at most every five seconds; while it
    cannot be read, nothing is shown of it."""

    def __init__(self, service: Service, guard: ConnectionLimits, pulse: LoopLag) -> None:
        self._service = service
        self._guard = guard
        self._pulse = pulse
        self._looked_s = float("-inf")
        self._seen: Seen | None = None

    async def look(self) -> None:
        """Reads the store unless that was done just now. Not more than one call at a time."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _KEPT_S:
            return
        self._looked_s, self._seen = now_s, None
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                store = self._service.store
                figures, workers = await store.census.look(), await store.workers.all()
                now_ms = store.clock.now_ms()
                alive = [each for each in workers if not each.is_lost(now_ms)]
                self._seen = Seen(figures, alive, await store.system.servers())

    async def unready(self) -> str | None:
        if self._service.draining:
            return "This process is about to end."
        try:
            await self._service.reach_store()
        except StoreReplaced as error:
            return f"{error}."
        except StoreError:
            return "The store cannot be reached."
        return None

    def families(self) -> Iterator[Metric]:
        opened = self._service.opened
        yield from common("api", self._pulse, opened)
        yield from self._requests()
        yield gauge(
            "postdate_api_connections", "Connections of clients.", len(self._guard.connections)
        )
        created = opened.schedules.created if opened else 0
        yield counter("postdate_created", "Schedules that were stored.", created)
        cancelled = opened.canceller.cancelled if opened else 0
        yield counter("postdate_cancelled", "Schedules that were cancelled.", cancelled)
        seen = self._seen
        yield gauge(
            "postdate_store_up", "Whether the store can be read: 1, or 0.", float(seen is not None)
        )
        if seen is not None:
            yield from _of_shards(seen)
            yield from _of_workers(seen, self._service.settings.fires_per_worker)
            yield from _of_ledgers(seen)
            yield from _of_servers(seen.servers)

    def _requests(self) -> Iterator[Metric]:
        tally = self._service.tally
        yield counter(
            "postdate_api_requests",
            "Requests that were answered; code 0: the client went away before.",
            {
                (route, method, str(status)): count
                for (route, method, status), count in tally.requests.items()
            },
            ("route", "method", "code"),
        )
        yield histogram(
            "postdate_api_request_duration_seconds",
            "From a request's head to the end of its answer.",
            {(route,): counted for route, counted in tally.durations_s.items()},
            ("route",),
        )
        yield counter(
            "postdate_refused",
            "Refused requests, items of a batch each by itself.",
            {(reason,): count for reason, count in tally.refused.items()},
            ("reason",),
        )
        if self._service.settings.qstash == "on":
            yield counter(
                "postdate_qstash_ignored_headers",
                "Headers of QStash that its door does not know, by name; `other` beyond 64 names.",
                {(name,): count for name, count in tally.ignored.items()},
                ("name",),
            )
        yield counter(
            "postdate_api_rejected",
            "Connections refused before they sent a request, by the code of the answer.",
            {(str(code),): count for code, count in self._guard.rejected.items()},
            ("code",),
        )


def _of_shards(seen: Seen) -> Iterator[Metric]:
    def shard_gauge(name: str, description: str, values: Mapping[int, float]) -> Metric:
        return gauge(
            name, description, {(str(shard),): n for shard, n in values.items()}, ("shard",)
        )

    due, counted = seen.figures.due, seen.figures.counted
    yield shard_gauge(
        "postdate_overdue",
        "Schedules that are due and held by no worker, by shard.",
        {shard: each.overdue for shard, each in due.items()},
    )
    yield shard_gauge(
        "postdate_oldest_due_age_seconds",
        "For how long the oldest of those has been due, by shard.",
        {shard: each.oldest_ms / 1000 for shard, each in due.items()},
    )
    yield shard_gauge(
        "postdate_coming",
        f"Schedules that come due within {WINDOWS * WINDOW_MS // 1000} seconds, by shard.",
        {shard: sum(each.coming) for shard, each in due.items()},
    )
    yield shard_gauge(
        "postdate_on_hold_seconds",
        "For how long nothing has been claimed, by shard: `postdate hold`; 0: it is not on hold.",
        {shard: each.on_hold_ms / 1000 for shard, each in due.items()},
    )
    yield shard_gauge(
        "postdate_recurring_untended",
        "Recurring schedules without their next occurrence, or to be looked after, that a worker"
        " should have tended ten seconds ago, by shard.",
        {shard: each.untended for shard, each in due.items()},
    )
    yield shard_gauge(
        "postdate_waiting",
        "Schedules that wait, by shard.",
        {shard: each[0] for shard, each in counted.items()},
    )
    yield shard_gauge(
        "postdate_leased",
        "Schedules that workers hold, by shard.",
        {shard: each[1] for shard, each in counted.items()},
    )


def _of_workers(seen: Seen, most_per_s: int) -> Iterator[Metric]:
    due = seen.figures.due.values()
    coming = [sum(each.coming[place] for each in due) for place in range(WINDOWS)]
    able = [float(each.says.get("firesPerS", most_per_s)) for each in seen.workers]
    per_s = sum(able) / len(able) if able else float(most_per_s)
    wanted = workers_wanted(sum(each.overdue for each in due), coming, WINDOW_MS / 1000, per_s)
    yield gauge("postdate_workers", "Workers that were heard of of late.", len(seen.workers))
    yield gauge(
        "postdate_workers_wanted",
        "Workers that the schedules overdue or due within three minutes need; at least 1.",
        wanted,
    )
    yield gauge(
        "postdate_worker_fires_per_second", "Fires that a worker can make, by its own count.", per_s
    )


def workers_wanted(
    overdue: float, coming: Sequence[float], window_s: float, fires_per_s: float
) -> int:
    """How many workers are needed, at least one, to fire overdue schedules within one window beside
    those due in it. `coming` counts those due in each of the next windows; `fires_per_s` is the
    capacity of one worker."""
    first, *later = coming or (0.0,)
    most_per_s = max(overdue + first, *later, 0.0) / window_s
    return max(1, math.ceil(most_per_s / (fires_per_s * _BUSY)))


def _of_ledgers(seen: Seen) -> Iterator[Metric]:
    """Of all shards together, and only once all of them have been walked through."""
    figures = seen.figures
    if figures.counted.keys() != figures.due.keys():
        return
    totals = map(sum, zip(*figures.counted.values(), strict=True))
    _, _, accounts, broken, remaining, spent, *others = totals
    lanes, (pending, failing, *rules) = others[: len(LANE_STATES)], others[len(LANE_STATES) :]
    yield gauge("postdate_accounts", "Accounts that there are.", accounts)
    yield gauge(
        "postdate_ledgers_broken",
        "Accounts whose ledger does not balance: granted is not remaining and spent.",
        broken,
    )
    yield gauge(
        "postdate_credits",
        "Credits of all accounts together.",
        {("remaining",): remaining, ("spent",): spent},
        ("state",),
    )
    yield gauge(
        "postdate_lanes",
        "Lanes of all accounts: idle, ready to be looked at by a claim, looked at later, when they"
        " can next start something, or paused without an end.",
        {(state,): count for state, count in zip(LANE_STATES, lanes, strict=True)},
        ("state",),
    )
    yield gauge("postdate_callbacks_pending", "Callbacks that have not ended.", pending)
    yield gauge(
        "postdate_callback_accounts_failing",
        "Accounts with a callback that failed and waits for its next attempt.",
        failing,
    )
    yield gauge(
        "postdate_recurring",
        "Recurring schedules of all accounts: active, paused, blocked (without credits or room),"
        " or ended.",
        {(state,): count for state, count in zip(RuleState, rules, strict=True)},
        ("state",),
    )


def _of_servers(servers: list[ServerStatus]) -> Iterator[Metric]:
    """Labelled by index in the order of their names: metrics do not expose host names."""
    by_node = {(str(place),): server for place, server in enumerate(servers)}
    node = ("node",)
    yield gauge(
        "postdate_store_memory_bytes",
        "Memory that the store's servers use.",
        {of: each.used_bytes for of, each in by_node.items()},
        node,
    )
    yield gauge(
        "postdate_store_memory_limit_bytes",
        "Where they refuse new schedules; missing where there is no limit.",
        {of: each.most_bytes for of, each in by_node.items() if each.most_bytes},
        node,
    )
    yield gauge(
        "postdate_store_last_save_timestamp_seconds",
        "When they wrote their last snapshot.",
        {of: each.saved_at_s for of, each in by_node.items()},
        node,
    )
    yield gauge(
        "postdate_store_persistence_ok",
        "Whether it went well the last time: 1, or 0.",
        {
            (*of, what): float(what not in each.failed)
            for of, each in by_node.items()
            for what in PERSISTENCE
        },
        ("node", "what"),
    )
