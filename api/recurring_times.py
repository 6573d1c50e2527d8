"""Searches for the times of a rule, within what an account may search."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scheduler.cron import may_take_long
from scheduler.recurrence import Timing, first_slot, soon
from scheduler.store import Store
from scheduler.store.scans import Scan

_YEAR_MS = 366 * 86_400_000
_YEARS_OF_A_SEARCH = 50
# To look for a day in each year: the thread that searches takes so long.
_YEAR_US = 400.0


async def judge_first(store: Store, account_id: str, timing: Timing, now_ms: int) -> None:
    """Raises InvalidRequest if the rule has no first time, TooManyScans if it may take long to see
    and the account has searched too much. Afterwards the first time is known."""
    async with _search(store, account_id, timing) as scan:
        scan.us = _YEARS_OF_A_SEARCH * _YEAR_US
        first_ms = await first_slot(timing, now_ms)
        scan.us = _us(now_ms, first_ms)


async def next_times(
    store: Store, account_id: str, timing: Timing, after_ms: int, most: int
) -> list[int]:
    """At most so many. Raises TooManyScans as above."""
    async with _search(store, account_id, timing) as scan:
        found = await soon(timing, after_ms, most)
        years = _YEARS_OF_A_SEARCH if len(found) < most and timing.ends_at_ms is None else 0
        scan.us = _us(after_ms, found[-1] if found else after_ms) + years * _YEAR_US
        return found


@asynccontextmanager
async def _search(store: Store, account_id: str, timing: Timing) -> AsyncIterator[Scan]:
    """Around one that may take long: one at a time of each account, counted as its searches are."""
    searches = timing.cron is not None and may_take_long(timing.cron)
    async with store.scans.of(account_id, searches=searches) as scan:
        yield scan


def _us(from_ms: int, to_ms: int) -> float:
    return max(0, to_ms - from_ms) / _YEAR_MS * _YEAR_US
