"""A past for an account: log, indexes and sums as acks at earlier moments would have left them.

The store's scripts only know the present, so this writes what they write, by the same formats, at
any moment. For an account that has executed nothing yet; the ledger stays balanced.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import msgspec

from scheduler.ids import new_schedule_ids
from scheduler.models import Outcome, Request, Status
from scheduler.rollups import DAY_MS, HOUR_MS, MINUTE_MS, SECONDS_KEPT_MS, buckets_of
from scheduler.store import Store, keys
from scheduler.store.log.entries import entry, pack_chunk, recurring_place, url_place
from scheduler.store.server import Argument, flat

_AT_ONCE = 2000
Command = tuple[str, str, *tuple[Argument, ...]]
# What each bucket of each rollup sums, by name.
Sums = dict[str, dict[int, Counter[str]]]
_ROLLUPS_AT_ONCE = 50


class Past(NamedTuple):
    """One execution that is over; they come in the order of `at_ms`."""

    at_ms: int
    request: Request
    outcome: Outcome
    lateness_ms: int = 0


async def fill(store: Store, account_id: str, executions: Iterable[Past]) -> int:
    """Writes them, and returns how many there were."""
    base, rest, written = keys.account(account_id), iter(executions), 0
    sums: Sums = {}
    spent: Counter[str] = Counter()
    last: tuple[int, int] = (0, 0)
    totals: tuple[int, ...] = (0, 0, 0)
    while some := list(islice(rest, _AT_ONCE)):
        commands: list[Command] = []
        for each in some:
            last = (each.at_ms, last[1] + 1 if each.at_ms == last[0] else 0)
            ended, completed = each.outcome, each.outcome.status is Status.COMPLETED
            gains = (completed, not completed, ended.response_time_ms)
            totals = tuple(map(sum, zip(totals, gains, strict=True)))
            commands += _appended(base, f"{last[0]}-{last[1]}", each, totals)
            _count(sums, spent, each)
        await _do(store, commands)
        written += len(some)
    await store.server.call("HSET", base + keys.LOGGED, "t", _text(totals))
    await _settle(store, account_id, sums, spent, written)
    return written


async def _do(store: Store, commands: Iterable[Command]) -> None:
    """All at once: they share a connection."""
    await asyncio.gather(*(store.server.call(*words) for words in commands))


def _text(totals: tuple[int, ...]) -> str:
    return " ".join(map(str, totals))


def _appended(base: str, stream_id: str, past: Past, totals: tuple[int, ...]) -> list[Command]:
    [schedule_id] = new_schedule_ids(1, past.at_ms - HOUR_MS)
    chunk = pack_chunk([entry(schedule_id, past.request, past.outcome, past.lateness_ms)])
    indexes = [(past.outcome.status.value, b""), url_place(past.request.url)]
    if past.request.recurring is not None:
        indexes.append(recurring_place(past.request.recurring.recurring_id))
    return [
        ("XADD", base + keys.LOG, stream_id, "e", chunk, "t", _text(totals)),
        *(("XADD", base + keys.INDEX + index, stream_id, "h", digest) for index, digest in indexes),
    ]


def _count(sums: Sums, spent: Counter[str], past: Past) -> None:
    mark = "c" if past.outcome.status is Status.COMPLETED else "f"
    latenesses_ms = [] if past.lateness_ms is None else [past.lateness_ms]
    histograms = buckets_of([past.outcome.response_time_ms], latenesses_ms)
    minute, hour, day = (past.at_ms // span for span in (MINUTE_MS, HOUR_MS, DAY_MS))
    places = (
        (f"minute:{minute}", past.at_ms // 1000 % 60, False),
        (f"hour:{hour}", minute % 60, True),
        (f"day:{day}", hour % 24, True),
    )
    for rollup, bucket, with_lateness in places:
        counter = sums.setdefault(rollup, {}).setdefault(bucket, Counter())
        counter[mark] += 1
        counter["t"] += past.outcome.response_time_ms
        if with_lateness:
            counter.update(histograms)
    spent[f"day:{day}"] += 1


async def _settle(
    store: Store, account_id: str, sums: Sums, spent: Counter[str], written: int
) -> None:
    base, oldest_minute = keys.account(account_id), _oldest_minute(store)
    kept = [each for each in sums.items() if not _is_gone(each[0], oldest_minute)]
    for at in range(0, len(kept), _ROLLUPS_AT_ONCE):
        commands: list[Command] = []
        for rollup, buckets in kept[at : at + _ROLLUPS_AT_ONCE]:
            if spent[rollup]:
                commands.append(("HINCRBY", base + rollup, "spent", spent[rollup]))
            packed = {each: msgspec.msgpack.encode(counted) for each, counted in buckets.items()}
            commands.append(("HSET", base + rollup, *flat(packed.items())))
        await _do(store, commands)
    counts = ((keys.LOGGED, "n"), (keys.ACCOUNT, "granted"), (keys.ACCOUNT, "spent"))
    await _do(store, [("HINCRBY", base + name, field, written) for name, field in counts])


def _oldest_minute(store: Store) -> int:
    """Single seconds are not kept for longer than since then."""
    return (store.clock.now_ms() - SECONDS_KEPT_MS) // MINUTE_MS


def _is_gone(rollup: str, oldest_minute: int) -> bool:
    name, _, number = rollup.partition(":")
    return name == "minute" and int(number) < oldest_minute
