"""A page of requests, read from the store: around this moment, or on from a place."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from api.dashboard.requests.filters import PER_PAGE, Filter
from scheduler.errors import TooManyScans
from scheduler.models import LogEntry
from scheduler.store import Store
from scheduler.store.log.logs import LogPage, LogQuery

# Of what is next, a list around this moment shows so many.
_COMING = 8
# How long one step of a search may take. It is made of reads that are bounded each.
_STEP_S = 0.4
# Our idea of the store's clock may be behind it by as long as a reply takes.
_CLOCK_TOLERANCE_MS = 100


class Rows(NamedTuple):
    """`unfinished`: there is more to look through, up to `reached_ms` it was done; after `wait_ms`,
    if the account's searches have used up what they may. `next` and `before` are the cursors of the
    pages beside this one."""

    entries: list[LogEntry]
    next: str | None = None
    before: str | None = None
    unfinished: bool = False
    reached_ms: int | None = None
    wait_ms: int = 0

    @property
    def refused_ms(self) -> int:
        """How long to wait, if nothing was looked through."""
        return 0 if self.entries or self.reached_ms is not None else self.wait_ms


class Listing(NamedTuple):
    """`coming` is None where the list is not around this moment; the latest of it comes first, as
    in the rest."""

    rows: Rows
    coming: Rows | None = None

    @property
    def is_empty(self) -> bool:
        return not self.rows.entries and not (self.coming and self.coming.entries)

    @property
    def is_unfinished(self) -> bool:
        return self.rows.unfinished or bool(self.coming and self.coming.unfinished)

    @property
    def refused_ms(self) -> int:
        """How long to wait, if neither side was looked through."""
        sides = [self.rows] if self.coming is None else [self.rows, self.coming]
        return max(each.refused_ms for each in sides) if all(s.refused_ms for s in sides) else 0


async def listing(store: Store, account_id: str, wanted: Filter, now_ms: int) -> Listing:
    """The page that a filter asks for. Raises InvalidRequest for a bad cursor."""
    if wanted.is_around_now(now_ms):
        edge_ms = now_ms + _CLOCK_TOLERANCE_MS
        past = wanted.query(now_ms)._replace(to_ms=edge_ms, limit=PER_PAGE - _COMING)
        # What ends while we read moves from the future to the past: it is looked for there last.
        coming = await coming_rows(store, account_id, wanted, edge_ms)
        found = await searched(store, account_id, past)
        return Listing(found._replace(before=None), coming)
    found = await searched(store, account_id, wanted.query(now_ms))
    if wanted.back:
        turned = Rows(found.entries[::-1], next=found.before, before=found.next)
        return Listing(turned)
    return Listing(found if wanted.cursor else found._replace(before=None))


async def coming_rows(
    store: Store, account_id: str, wanted: Filter, from_ms: int, cursor: str | None = None
) -> Rows:
    """What is next, the soonest last."""
    query = LogQuery(
        from_ms=from_ms,
        to_ms=wanted.to_ms,
        limit=_COMING,
        descending=False,
        cursor=cursor,
        url_part=wanted.q,
    )
    found = await searched(store, account_id, query)
    return found._replace(entries=found.entries[::-1])


async def searched(store: Store, account_id: str, query: LogQuery) -> Rows:
    """A full page, or what was found in the time of one step, and within what the account's
    searches may."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _STEP_S
    found = Rows([], query.cursor)
    while True:
        left = query.limit - len(found.entries)
        try:
            page = await store.logs.page(account_id, query._replace(cursor=found.next, limit=left))
        except TooManyScans as refusal:
            here = found.next or query.beginning
            return found._replace(next=here, unfinished=True, wait_ms=refusal.wait_ms)
        found = _with(found, page, query.limit)
        if not found.unfinished or loop.time() >= until_s:
            return found


def _with(found: Rows, page: LogPage, limit: int) -> Rows:
    entries = found.entries + page.entries
    unfinished = len(entries) < limit and page.next_cursor is not None
    before = found.before or page.first_cursor
    return Rows(entries, page.next_cursor, before, unfinished, page.reached_ms)
