"""The execution log, a page at a time: what has ended, what has not, or both on one timeline."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.models import LogEntry, Schedule, Status
from scheduler.rollups import kept_from
from scheduler.store import keys, packing
from scheduler.store.clock import StoreClock
from scheduler.store.connection import Client, translated
from scheduler.store.scripts import Scripts
from scheduler.store.timeline import (
    ENDED,
    WAITING,
    Found,
    Place,
    Span,
    encode_cursor,
    merge,
    span,
)
from scheduler.store.unended import Unended

# How many index entries one page may look at (a page of a rare kind is short rather than slow),
# and how many one round trip brings.
_BUDGET = 2000
_CHUNK = 200
_SEQUENCE_DIGITS = 20

StreamEntries = list[tuple[bytes, dict[bytes, bytes]]]


class LogQuery(NamedTuple):
    """What to list: `from_ms` inclusive, `to_ms` exclusive, both on the log's timeline."""

    status: Status | None = None
    url: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    limit: int = 50
    descending: bool = True
    cursor: str | None = None

    def wants(self, status: Status, url: str) -> bool:
        return self.status in (None, status) and self.url in (None, url)


class LogPage(NamedTuple):
    """`next_cursor` is None at the end; before it, a page may be shorter than asked for."""

    entries: list[LogEntry]
    next_cursor: str | None


class Logs:
    """Reads an account's log."""

    def __init__(
        self, client: Client, scripts: Scripts, clock: StoreClock, retention_ms: int
    ) -> None:
        self._client = client
        self._unended = Unended(scripts)
        self._clock = clock
        self._retention_ms = retention_ms

    async def page(self, account_id: str, query: LogQuery) -> LogPage:
        """One page. Raises InvalidRequest for a bad cursor. Read-only."""
        stretch = span(query.from_ms, query.to_ms, query.cursor, down=query.descending)
        unended = ended = Found[LogEntry]([], None)
        # First what has not ended, then the log: what ends in between is seen twice, not never.
        if query.status in (None, Status.SCHEDULED):
            unended = await self._read_unended(account_id, query, stretch)
        if query.status is not Status.SCHEDULED:
            ended = await self._read_ended(account_id, query, stretch)
        page = merge([_without(unended, ended), ended], query.limit, stretch)
        return LogPage(page.entries, None if page.next is None else encode_cursor(page.next))

    async def _read_unended(
        self, account_id: str, query: LogQuery, stretch: Span
    ) -> Found[LogEntry]:
        def wanted(schedule: Schedule) -> bool:
            return query.wants(schedule.status, schedule.request.url)

        found = await self._unended.read(account_id, stretch, query.limit + 1, wanted)
        return Found(
            [(place, packing.unended_entry(schedule)) for place, schedule in found.entries],
            found.reached,
        )

    async def _read_ended(self, account_id: str, query: LogQuery, stretch: Span) -> Found[LogEntry]:
        base = keys.account(account_id)
        stream = base + await self._shortest(base, query)
        found: list[tuple[Place, LogEntry]] = []
        reached: Place | None = stretch.after
        looked_at = 0
        while reached is not None and looked_at < _BUDGET and len(found) <= query.limit:
            chunk = await self._chunk(stream, stretch._replace(after=reached))
            looked_at += len(chunk)
            reached = _place(chunk[-1][0]) if len(chunk) == _CHUNK else None
            if stream != base + "log":
                chunk = await self._entries(base + "log", chunk)
            for stream_id, fields in chunk:
                place = _place(stream_id)
                entry = packing.unpack_entry(fields[b"e"], place.ms)
                if query.wants(entry.status, entry.url):
                    found.append((place, entry))
        return Found(found, reached)

    async def _shortest(self, base: str, query: LogQuery) -> str:
        """The stream to go along: the log, or the shorter of the indexes that the query names."""
        names = []
        if query.status is not None:
            names.append(f"index:{query.status}")
        if query.url is not None:
            names.append(f"index:{packing.url_place(query.url)[0]}")
        if len(names) < 2:
            return names[0] if names else "log"
        with translated():
            lengths = [await self._client.xlen(base + name) for name in names]
        return names[lengths.index(min(lengths))]

    async def _chunk(self, stream: str, stretch: Span) -> StreamEntries:
        """The next entries of a stream, clipped to what is kept."""
        oldest_ms = kept_from(self._clock.now_ms(), self._retention_ms)
        after, end_ms, down = stretch
        bound_ms = after.ms + (after.kind == WAITING)
        start = f"({after.ms}-{int(after.tie)}" if after.kind == ENDED else f"{bound_ms}"
        if down and after.kind != ENDED:
            start = f"({bound_ms}-0"
        if (start if down else f"({end_ms}-0") == "(0-0":
            return []  # nothing comes before the first id that there can be, and servers say so
        with translated():
            if down:
                lowest = str(max(end_ms, oldest_ms))
                page = await self._client.xrevrange(stream, start, lowest, count=_CHUNK)
            else:
                start = start if after.ms >= oldest_ms else str(oldest_ms)
                page = await self._client.xrange(stream, start, f"({end_ms}-0", count=_CHUNK)
        return page  # type: ignore[no-any-return]

    async def _entries(self, log: str, found: StreamEntries) -> StreamEntries:
        """The log's entries of index entries; one that was trimmed meanwhile is left out."""
        if not found:
            return found
        async with self._client.pipeline(transaction=False) as pipe:
            for stream_id, _ in found:
                pipe.xrange(log, stream_id, stream_id)
            with translated():
                replies = await pipe.execute()
        return [entry for reply in replies for entry in reply]


def _place(stream_id: bytes) -> Place:
    ms, _, sequence = stream_id.decode().partition("-")
    return Place(int(ms), ENDED, sequence.zfill(_SEQUENCE_DIGITS))


def _without(unended: Found[LogEntry], ended: Found[LogEntry]) -> Found[LogEntry]:
    """Leaves out of what had not ended what has done so since."""
    gone = {entry.schedule_id for _, entry in ended.entries}
    return Found([e for e in unended.entries if e[1].schedule_id not in gone], unended.reached)
