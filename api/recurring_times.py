"""Calls about the rules of an account search for times, within its budget of searches, and
make the occurrences after cancelled ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from scheduler.errors import InvalidRequest, NotFound, StoreError
from scheduler.recurrence.cron import may_take_long
from scheduler.recurrence.recurrence import Timing, first_slot, soon
from scheduler.store import Store
from scheduler.store.lifecycle.end.cancel import Cancellations
from scheduler.store.scans import Scan

_YEAR_MS = 366 * 86_400_000
_YEARS_OF_A_SEARCH = 50
# To look for a day in each year: the thread that searches takes so long.
_YEAR_US = 400.0


async def judge_first(store: Store, account_id: str, timing: Timing, now_ms: int) -> None:
    """Raises InvalidRequest if a rule has no first time, TooManyScans if that may take long to see
    and the account has searched too much."""
    async with _search(store, account_id, timing) as scan:
        scan.us = _YEARS_OF_A_SEARCH * _YEAR_US
        scan.us = (await first_slot(timing, now_ms) - now_ms) / _YEAR_MS * _YEAR_US


async def search_ahead(store: Store, account_id: str, timing: Timing, now_ms: int) -> None:
    """Finds a first time that may take long, so that it is known when the store asks for it. Raises
    TooManyScans as above."""
    if timing.cron is not None and may_take_long(timing.cron):
        with suppress(InvalidRequest):
            await judge_first(store, account_id, timing, now_ms)


async def next_times(
    store: Store, account_id: str, timing: Timing, after_ms: int, most: int
) -> list[int]:
    """At most so many. Raises TooManyScans as above."""
    async with _search(store, account_id, timing) as scan:
        found = await soon(timing, after_ms, most)
        years = (found[-1] - after_ms) / _YEAR_MS if found else 0
        scan.us = (years if len(found) == most else years + _YEARS_OF_A_SEARCH) * _YEAR_US
        return found


async def follow(store: Store, account_id: str, done: Cancellations) -> Cancellations:
    """Makes the occurrences that follow cancelled ones; with the credits that are left then. A
    failure is none of the call that has cancelled them: a worker makes them then."""
    rules = {each.recurring_id for each in done.each if each.recurring_id is not None}
    if not rules:
        return done
    with suppress(StoreError, NotFound):  # the account may be gone by now
        await store.recurring.tend(account_id, rules)
        return done._replace(credits=(await store.accounts.get(account_id)).credits)
    return done


@asynccontextmanager
async def _search(store: Store, account_id: str, timing: Timing) -> AsyncIterator[Scan]:
    """Around one that may take long: one at a time of each account, counted as its searches are."""
    searches = timing.cron is not None and may_take_long(timing.cron)
    async with store.scans.of(account_id, searches=searches) as scan:
        yield scan
