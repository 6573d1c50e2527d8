"""The execution log, a page at a time: what has ended, what has not, or both on one timeline."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.errors import NotFound
from scheduler.models import LogEntry, LogStatus, Schedule
from scheduler.rollups import kept_from
from scheduler.store import keys
from scheduler.store.log.entries import (
    StoredEntry,
    log_entry,
    logged_url,
    readable_chunk,
    unended_entry,
    url_place,
)
from scheduler.store.log.timeline import (
    ENDED,
    WAITING,
    Found,
    Place,
    Span,
    chunk_of,
    encode_cursor,
    ends_chunk,
    lowered,
    merge,
    span,
    stream_place,
)
from scheduler.store.queries.unended import Unended
from scheduler.store.retention import Retention
from scheduler.store.scans import Scan, Scans
from scheduler.store.server import Script, Server
from scheduler.store.server.clock import StoreClock

# How many entries one page may look at (a page of a rare kind is short rather than slow); how many
# chunks and bytes one round trip.
_BUDGET = 2000
_CHUNKS = 500
_BYTES = 512 * 1024
# Of a moment, the log has at most what one ack recorded; unless thousands of them met.
_MOST_PAGES_OF_A_MOMENT = 10

_PAGE = Script("log/page")


class LogQuery(NamedTuple):
    """What to list: `from_ms` inclusive, `to_ms` exclusive, both on the log's timeline.

    `url_part` is looked for in small letters and large. `answer` is how an execution ended: a
    status code, or the whole of an error message.
    """

    status: LogStatus | None = None
    url: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    limit: int = 50
    descending: bool = True
    cursor: str | None = None
    url_part: str = ""
    answer: str = ""

    @property
    def beginning(self) -> str:
        """The cursor of the first page."""
        return encode_cursor(span(self.from_ms, self.to_ms, None, down=self.descending).after)

    @property
    def is_search(self) -> bool:
        """Whether entries are looked through for those that it names."""
        return bool(self.url is not None or self.url_part or self.answer)

    def wants(self, status: LogStatus, url: str) -> bool:
        if self.status not in (None, status) or self.url not in (None, url):
            return False
        return not self.url_part or lowered(self.url_part) in lowered(url)

    def wants_entry(self, entry: LogEntry) -> bool:
        if not self.wants(entry.status, entry.url):
            return False
        return self.answer in ("", entry.error_message, str(entry.status_code))


class LogPage(NamedTuple):
    """`next_cursor` is None at the end; before it, a page may be shorter than asked for: it was
    read up to `reached_ms`. `first_cursor` is the place of its first entry: a page in the other
    direction from there is the one before."""

    entries: list[LogEntry]
    next_cursor: str | None
    first_cursor: str | None = None
    reached_ms: int | None = None


class Logs:
    """Reads an account's log."""

    def __init__(
        self, server: Server, clock: StoreClock, retention: Retention, scans: Scans
    ) -> None:
        self._server = server
        self._scans = scans
        self._unended = Unended(server)
        self._clock = clock
        self._retention_ms = retention.promised_log_ms

    async def page(self, account_id: str, query: LogQuery) -> LogPage:
        """One page. Raises InvalidRequest for a bad cursor, TooManyScans. Read-only."""
        stretch = span(query.from_ms, query.to_ms, query.cursor, down=query.descending)
        async with self._scans.of(account_id, searches=query.is_search) as scan:
            return await self._page(account_id, query, stretch, scan)

    async def _page(self, account_id: str, query: LogQuery, stretch: Span, scan: Scan) -> LogPage:
        unended = ended = Found[LogEntry]([], None)
        # First what has not ended, then the log: what ends in between is seen twice, not never.
        if query.status in (None, LogStatus.SCHEDULED) and not query.answer:
            unended = await self._read_unended(account_id, query, stretch, scan)
        if query.status != LogStatus.SCHEDULED:
            ended = await self._read_ended(account_id, query, stretch, scan)
        page = merge([_without(unended, ended), ended], query.limit, stretch)
        return LogPage(
            page.entries,
            None if page.next is None else encode_cursor(page.next),
            None if page.first is None else encode_cursor(page.first),
            None if page.next is None else page.next.ms,
        )

    async def find(self, account_id: str, schedule_id: str, at_ms: int) -> LogEntry:
        """The entry of a schedule that ended at this moment. Raises NotFound. Read-only."""
        query = LogQuery(from_ms=at_ms, to_ms=at_ms + 1, limit=_BUDGET)
        for _ in range(_MOST_PAGES_OF_A_MOMENT):
            page = await self.page(account_id, query)
            for each in page.entries:
                if each.schedule_id == schedule_id and each.status is not LogStatus.SCHEDULED:
                    return each
            if page.next_cursor is None:
                break
            query = query._replace(cursor=page.next_cursor)
        raise NotFound("There is no such entry in the log")

    async def _read_unended(
        self, account_id: str, query: LogQuery, stretch: Span, scan: Scan
    ) -> Found[LogEntry]:
        def wanted(schedule: Schedule) -> bool:
            return query.wants(LogStatus.SCHEDULED, schedule.request.url)

        part = lowered(query.url_part)
        found = await self._unended.read(account_id, stretch, query.limit + 1, wanted, scan, part)
        entries = [(place, unended_entry(schedule)) for place, schedule in found.entries]
        return Found(entries, found.reached)

    async def _read_ended(
        self, account_id: str, query: LogQuery, stretch: Span, scan: Scan
    ) -> Found[LogEntry]:
        stream = await self._shortest(keys.account(account_id), query)
        wanted = query._replace(url=query.url and logged_url(query.url))
        found: list[tuple[Place, LogEntry]] = []
        reached: Place | None = stretch.after
        looked_at = 0
        while reached is not None and looked_at < _BUDGET and len(found) <= query.limit:
            rest = stretch._replace(after=reached)
            end, chunks = await self._chunks(account_id, stream, rest, query, scan)
            for stream_id, packed in chunks:
                stored = readable_chunk(account_id, stream_id, packed)
                scan.add(0, len(stored), 0)
                entries = _entries_of(stream_id, stored, rest)
                looked_at += max(1, len(entries))
                found += [each for each in entries if wanted.wants_entry(each[1])]
            looked_at += _CHUNKS if len(chunks) == 0 else 0
            reached = stream_place(end, last=not stretch.down) if end else None
        return Found(found, reached)

    async def _shortest(self, base: str, query: LogQuery) -> str:
        """The stream to go along: the log, or the shorter of the indexes that the query names."""
        names = []
        if query.status is not None:
            names.append(keys.INDEX + query.status)
        if query.url is not None:
            names.append(keys.INDEX + url_place(query.url)[0])
        if len(names) < 2:
            return names[0] if names else keys.LOG
        lengths = await self._server.reads([("XLEN", base + name) for name in names])
        return names[lengths.index(min(lengths))]

    async def _chunks(
        self, account_id: str, stream: str, stretch: Span, query: LogQuery, scan: Scan
    ) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        """The next chunks along a stream, clipped to what is kept, with their ids, and the last one
        that was looked at (b"": there are no more). The one that the place to go on from lies in is
        among them, unless nothing in it comes after."""
        oldest_ms = kept_from(self._clock.now_ms(), self._retention_ms)
        after, end_ms, down = stretch
        bound_ms = after.ms + (after.kind == WAITING)
        start = f"({bound_ms}-0" if down else str(max(bound_ms, oldest_ms))
        if after.kind == ENDED and (down or after.ms >= oldest_ms):
            start = ("(" if ends_chunk(after, down=down) else "") + chunk_of(after)
        stop = str(max(end_ms, oldest_ms)) if down else f"({end_ms}-0"
        if "(0-0" in (start, stop):
            return b"", []  # nothing comes before the first id that can be, and servers say so
        digest = url_place(query.url)[1] if query.url is not None else b""
        limits = (query.limit + 1, _BYTES, _CHUNKS)
        arguments = (stream, int(down), start, stop, *limits, digest, lowered(query.url_part))
        end, looked_at, size_bytes, *found = await self._server.run(
            _PAGE, keys.account(account_id), arguments
        )
        scan.add(looked_at, 0, size_bytes)
        return end, list(zip(found[::2], found[1::2], strict=True))


def _entries_of(
    stream_id: bytes, chunk: list[StoredEntry], stretch: Span
) -> list[tuple[Place, LogEntry]]:
    """A chunk's entries that come after a place, in the order of reading."""
    entries = []
    for index, stored in enumerate(chunk):
        place = stream_place(stream_id, index)
        if stretch.past(place, stretch.after):
            entries.append((place, log_entry(stored, place.ms)))
    return entries[::-1] if stretch.down else entries


def _without(unended: Found[LogEntry], ended: Found[LogEntry]) -> Found[LogEntry]:
    """Leaves out of what had not ended what has done so since; what is retried has not."""
    gone = {
        entry.schedule_id for _, entry in ended.entries if entry.status is not LogStatus.RETRYING
    }
    left = [e for e in unended.entries if e[1].schedule_id not in gone]
    return unended._replace(entries=left)
