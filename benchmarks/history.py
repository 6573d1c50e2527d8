"""A past for an account: log, indexes and sums as acks at earlier moments would have left them.

The store's scripts only know the present, so this writes what they write, by the same formats, at
any moment. For an account that has executed nothing yet; the ledger stays balanced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

from scheduler.ids import new_schedule_ids
from scheduler.models import Outcome, Request, Status
from scheduler.rollups import (
    DAY_MS,
    HOUR_MS,
    MINUTE_MS,
    SECONDS_KEPT_MS,
    lateness_bucket,
    response_bucket,
)
from scheduler.store import Store, keys
from scheduler.store.log.entries import entry, pack_chunk, url_place

_AT_ONCE = 2000
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
    sums: dict[str, Counter[str]] = {}
    last = (0, 0)
    while some := list(islice(rest, _AT_ONCE)):
        async with store.client.pipeline(transaction=False) as pipe:
            for each in some:
                last = (each.at_ms, last[1] + 1 if each.at_ms == last[0] else 0)
                _append(pipe, base, f"{last[0]}-{last[1]}", each)
                _count(sums, each)
            await pipe.execute()
        written += len(some)
    await _settle(store, account_id, sums, written)
    return written


def _append(pipe: Any, base: str, stream_id: str, past: Past) -> None:
    [schedule_id] = new_schedule_ids(1, past.at_ms - HOUR_MS)
    chunk = pack_chunk([entry(schedule_id, past.request, past.outcome, past.lateness_ms)])
    pipe.xadd(base + keys.LOG, {"e": chunk}, id=stream_id)
    for index, digest in ((past.outcome.status, b""), url_place(past.request.url)):
        pipe.xadd(base + keys.INDEX + index, {"h": digest}, id=stream_id)


def _count(sums: dict[str, Counter[str]], past: Past) -> None:
    mark = "c" if past.outcome.status is Status.COMPLETED else "f"
    late = f"b{lateness_bucket(past.lateness_ms)}"
    took = f"r{response_bucket(past.outcome.response_time_ms)}"
    minute, hour, day = (past.at_ms // span for span in (MINUTE_MS, HOUR_MS, DAY_MS))
    places = (
        (f"minute:{minute}", past.at_ms // 1000 % 60, False),
        (f"hour:{hour}", minute % 60, True),
        (f"day:{day}", hour % 24, True),
    )
    for rollup, bucket, with_lateness in places:
        counter = sums.setdefault(rollup, Counter())
        counter[f"{bucket}{mark}"] += 1
        counter[f"{bucket}t"] += past.outcome.response_time_ms
        if with_lateness:
            counter[f"{bucket}{late}"] += 1
            counter[f"{bucket}{took}"] += 1
    sums[f"day:{day}"]["spent"] += 1


async def _settle(
    store: Store, account_id: str, sums: dict[str, Counter[str]], written: int
) -> None:
    base, oldest_minute = keys.account(account_id), _oldest_minute(store)
    await store.client.hincrby(base + keys.LOGGED, "n", written)
    kept = [each for each in sums.items() if not _is_gone(each[0], oldest_minute)]
    for at in range(0, len(kept), _ROLLUPS_AT_ONCE):
        async with store.client.pipeline(transaction=False) as pipe:
            for rollup, counter in kept[at : at + _ROLLUPS_AT_ONCE]:
                spent = counter.pop("spent", 0)
                pipe.hset(base + rollup, mapping=dict(counter))
                if spent:
                    pipe.hincrby(base + rollup, "spent", spent)
            await pipe.execute()
    await store.client.hincrby(base + "account", "granted", written)
    await store.client.hincrby(base + "account", "spent", written)


def _oldest_minute(store: Store) -> int:
    """Single seconds are not kept for longer than since then."""
    return (store.clock.now_ms() - SECONDS_KEPT_MS) // MINUTE_MS


def _is_gone(rollup: str, oldest_minute: int) -> bool:
    name, _, number = rollup.partition(":")
    return name == "minute" and int(number) < oldest_minute
