"""Entries of the log, in order: along the log itself or one of its indexes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from scheduler.models import LogEntry
from scheduler.rollups import kept_from
from scheduler.store import keys
from scheduler.store.log.entries import (
    DIGEST_BYTES,
    StoredEntry,
    chunks_of,
    log_entry,
    opened_chunk,
    readable_chunk,
)
from scheduler.store.queries.timeline import (
    ENDED,
    WAITING,
    Found,
    Place,
    Span,
    chunk_of,
    ends_chunk,
    place_in,
    rest_of,
    stream_place,
)
from scheduler.store.retention import Retention
from scheduler.store.scans import Scan
from scheduler.store.server import Argument, Server
from scheduler.store.server.clock import StoreClock

# How many wanted entries or other chunks, and bytes, a page may look at: short rather than slow.
_BUDGET = 2000
_MOST_BYTES = 1024 * 1024
# How many chunks the first round trip brings; the most that others bring, and about their bytes.
_FIRST = 2
_CHUNKS = 64
_BYTES = 512 * 1024
WHOLE_LOG = (keys.LOG,)


class Wanted(NamedTuple):
    """The entries that `entry` accepts. Each group of `indexes` has all of their chunks, in one or
    more streams, with `digest` if it is set; `part`, in small letters, is in these chunks."""

    entry: Callable[[StoredEntry], bool]
    indexes: Sequence[Sequence[str]] = ()
    digest: bytes = b""
    part: bytes = b""


class Ended:
    def __init__(self, server: Server, clock: StoreClock, retention: Retention) -> None:
        self._server = server
        self._clock = clock
        self._retention_ms = retention.promised_log_ms

    async def read(
        self, account_id: str, stretch: Span, limit: int, wanted: Wanted, scan: Scan
    ) -> Found[LogEntry]:
        """The next `limit` wanted ones, if the budget suffices; counts in `scan`. Read-only."""
        base = keys.account(account_id)
        streams, firsts = await self._shortest(base, wanted.indexes)
        found: list[tuple[Place, LogEntry]] = []
        ahead: list[tuple[bytes, bytes]] = []
        reached: Place | None = stretch.after
        chunks, looked_at, read_bytes, step, more, dense = 0, 0, 0, _FIRST, True, False
        while reached is not None and looked_at < _BUDGET and read_bytes < _MOST_BYTES:
            rest = stretch._replace(after=reached)
            if not ahead:
                if stretch.down and (chunks or reached.ms <= self._clock.now_ms()):
                    firsts = firsts or await self._firsts(base, streams)
                    streams = tuple(s for s in streams if s in firsts and firsts[s] < reached)
                # Of one URL, few in a chunk may be: then many of its index are needed.
                most = _CHUNKS if wanted.digest and streams != WHOLE_LOG else step
                ahead = await self._listed(base, streams, rest, most)
                more = len(ahead) == most
            page, ahead = ahead[:step], ahead[step:]
            if streams != WHOLE_LOG:
                page, dense = await self._logged(base, page, wanted.digest, dense=dense)
            reached = None
            for place, (stream_id, chunk) in enumerate(page, 1):
                packed = opened_chunk(chunk)
                left = limit - len(found)
                entries = _entries(account_id, stream_id, packed, rest, wanted, left)
                found += entries
                chunks, read_bytes = chunks + 1, read_bytes + len(packed)
                looked_at += max(1, len(entries))
                scan.add(1, len(entries), len(packed))
                if len(found) == limit:
                    return Found(found, found[-1][0])
                if place == len(page) and (ahead or more):
                    reached = stream_place(stream_id, last=not stretch.down)
            left = limit - len(found)
            step = math.ceil(left * chunks / len(found)) if found else _CHUNKS
            step = max(1, min(step, _CHUNKS, _BYTES * chunks // max(1, read_bytes)))
        return Found(found, reached)

    async def _shortest(
        self, base: str, indexes: Sequence[Sequence[str]]
    ) -> tuple[Sequence[str], dict[str, Place]]:
        """The streams to go along: the log, or the shorter group of indexes; and where they begin,
        if that was asked."""
        if len(indexes) < 2:
            return indexes[0] if indexes else WHOLE_LOG, {}
        names = [name for group in indexes for name in group]
        commands: list[Sequence[Argument]] = [("XLEN", base + name) for name in names]
        commands += [("XRANGE", base + name, "-", "+", "COUNT", 1) for name in names]
        replies = await self._server.reads(commands)
        lengths = iter(replies)
        shortest = min(indexes, key=lambda group: sum(next(lengths) for _ in group))
        return shortest, _places(names, replies[len(names) :])

    async def _firsts(self, base: str, streams: Sequence[str]) -> dict[str, Place]:
        """Where streams begin, those that have anything. In search of an entry before the first
        one, XREVRANGE walks a whole stream: 4 ms with a million entries."""
        commands = [("XRANGE", base + name, "-", "+", "COUNT", 1) for name in streams]
        return _places(streams, await self._server.reads(commands))

    async def _listed(
        self, base: str, streams: Sequence[str], stretch: Span, most: int
    ) -> list[tuple[bytes, bytes]]:
        """The next ones along streams: of the log, chunks with their ids; of an index, the ids with
        the digests in each."""
        bounds = self._bounds(stretch)
        if "(0-0" in bounds:
            return []  # nothing comes before the first id that can be, and servers say so
        command = "XREVRANGE" if stretch.down else "XRANGE"
        page = (*bounds, "COUNT", most)
        pages = await self._server.reads([(command, base + name, *page) for name in streams])
        return _merged(pages, most, down=stretch.down)

    async def _logged(
        self, base: str, listed: list[tuple[bytes, bytes]], digest: bytes, *, dense: bool
    ) -> tuple[list[tuple[bytes, bytes]], bool]:
        """The chunks that an index lists; b"" of one not wanted, or trimmed. And whether these lie
        side by side in the log: where the last ones did, a range brings the next ones, for half of
        what they take the store one by one."""
        log, found = base + keys.LOG, dict[bytes, bytes]()
        named = [stream_id for stream_id, digests in listed if _has(digests, digest)]
        low, high = sorted((named[0], named[-1]), key=stream_place) if named else (b"", b"")
        if dense and len(named) > 2:
            most = len(named) + len(named) // 4
            found |= chunks_of(await self._server.read("XRANGE", log, low, high, "COUNT", most))
        left = [each for each in named if each not in found]
        commands: list[Sequence[Argument]] = [("XRANGE", log, each, each) for each in left]
        if looks := len(left) == 2 and not found:
            commands = [("XRANGE", log, low, high, "COUNT", 3), ("XRANGE", log, high, high)]
        replies = await self._server.reads(commands)
        found |= [pair for each in replies for pair in chunks_of(each)]
        dense = len(replies[0]) == 2 if looks else dense and not left
        chunks = {each: found.get(each, b"") for each in named}
        return [(stream_id, chunks.get(stream_id, b"")) for stream_id, _ in listed], dense

    def _bounds(self, stretch: Span) -> tuple[str, str]:
        """Where to begin and to end, clipped to the kept entries. The chunk that the place to go on
        from lies in is among them, unless nothing in it comes after."""
        oldest_ms = kept_from(self._clock.now_ms(), self._retention_ms)
        after, end_ms, down = stretch
        bound_ms = after.ms + (after.kind == WAITING)
        start = f"({bound_ms}-0" if down else str(max(bound_ms, oldest_ms))
        if after.kind == ENDED and (down or after.ms >= oldest_ms):
            start = ("(" if ends_chunk(after, down=down) else "") + chunk_of(after)
        return start, str(max(end_ms, oldest_ms)) if down else f"({end_ms}-0"


def _places(streams: Sequence[str], pages: Sequence[Any]) -> dict[str, Place]:
    """Of the one entry of each page."""
    found = zip(streams, pages, strict=True)
    return {name: stream_place(page[0][0]) for name, page in found if page}


def _merged(pages: Sequence[Any], most: int, *, down: bool) -> list[tuple[bytes, bytes]]:
    """The first ones of several streams, each once: a chunk is in the index of each status that it
    has."""
    if len(pages) == 1:
        return chunks_of(pages[0])
    found = {stream_id: digests for page in pages for stream_id, digests in chunks_of(page)}
    ordered = sorted(found.items(), key=lambda each: stream_place(each[0]), reverse=down)
    return ordered[:most]


def _has(digests: bytes, digest: bytes) -> bool:
    """Whether an index entry has the digest; one of a status has none."""
    places = range(0, len(digests), DIGEST_BYTES)
    return not (digests and digest) or digest in (digests[n : n + DIGEST_BYTES] for n in places)


def _entries(
    account_id: str, stream_id: bytes, packed: bytes, stretch: Span, wanted: Wanted, most: int
) -> list[tuple[Place, LogEntry]]:
    """The next wanted ones of a chunk, at most so many, in the order of reading. Only they are
    judged and made: a page is often a part of a chunk."""
    if not packed or (wanted.part and wanted.part not in packed.lower()):
        return []
    chunk = stream_place(stream_id)

    def next_ones(entries: list[StoredEntry]) -> list[tuple[int, StoredEntry]]:
        some = list[tuple[int, StoredEntry]]()
        for index in rest_of(chunk, len(entries), stretch):
            if wanted.entry(entries[index]):
                some.append((index, entries[index]))
                if len(some) == most:
                    break
        return some

    some = readable_chunk(account_id, stream_id, packed, next_ones)
    return [(place_in(chunk, index), log_entry(stored, chunk.ms)) for index, stored in some]
