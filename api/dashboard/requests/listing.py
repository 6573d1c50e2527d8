"""A page of requests, read from the store: around this moment, or on from a place."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from api.dashboard.requests.filters import PER_PAGE, Filter
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
    """`unfinished`: there is more to look through, up to `reached_ms` it was done. `next` and
    `before` are the cursors of the pages beside this one."""

    entries: list[LogEntry]
    next: str | None = None
    before: str | None = None
    unfinished: bool = False
    reached_ms: int | None = None


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
    """A full page, or what was found in the time of one step."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + _STEP_S
    page = await store.logs.page(account_id, query)
    entries, first = page.entries, page.first_cursor
    while len(entries) < query.limit and page.next_cursor and loop.time() < until_s:
        left = query.limit - len(entries)
        page = await store.logs.page(
            account_id, query._replace(cursor=page.next_cursor, limit=left)
        )
        entries, first = entries + page.entries, first or page.first_cursor
    return _rows(entries, page, first, query.limit)


def _rows(entries: list[LogEntry], page: LogPage, first: str | None, limit: int) -> Rows:
    unfinished = len(entries) < limit and page.next_cursor is not None
    return Rows(entries, page.next_cursor, first, unfinished, page.reached_ms)
