"""The order of the log: places in it, cursors that name them, and merging reads.

An entry's place is its moment, its kind, and what tells it from others of the millisecond. A cursor
holds the place to read on after: what stays as it is, is never skipped or repeated.
"""

from __future__ import annotations

import base64
import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from scheduler.errors import FieldError, InvalidRequest

T = TypeVar("T")

# What a place is: the edge before all of its millisecond, a log entry, an unended schedule.
EDGE, ENDED, WAITING = -1, 0, 1
_END_OF_TIME_MS = 2**53
_SEQUENCES = 2**64
_SEQUENCE_DIGITS = 20
_INDEX_DIGITS = 5
_UNTIL_DIGITS = 12
_LAST_INDEX = 10**_INDEX_DIGITS - 1


class Place(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """`tie` is a waiting schedule's id, or a log entry's chunk (20 digits) and index in it (5)."""

    ms: int
    kind: int = EDGE
    tie: str = ""


class Span(NamedTuple):
    """A stretch still to be read: what comes strictly after `after`, up to `end_ms`.

    Upwards, `end_ms` is the first moment that is out; downwards, the last one that is in.
    """

    after: Place
    end_ms: int
    down: bool

    def past_end(self, ms: int) -> bool:
        return ms < self.end_ms if self.down else ms >= self.end_ms

    def has(self, place: Place) -> bool:
        return self.past(place, self.after) and not self.past_end(place.ms)

    def past(self, place: Place, other: Place) -> bool:
        return place < other if self.down else place > other

    def nearest(self, places: Iterable[Place | None]) -> Place | None:
        """Which of some places comes first on the way; None if there is none."""
        return (max if self.down else min)((p for p in places if p is not None), default=None)


class Found(NamedTuple, Generic[T]):
    """What one source has, in order, and the place it was read up to; None: to its end."""

    entries: list[tuple[Place, T]]
    reached: Place | None


class Page(NamedTuple, Generic[T]):
    """`first` is the place of the first entry, `next` that of the last one or further on."""

    entries: list[T]
    next: Place | None
    first: Place | None = None


def kept_since(stretch: Span, oldest_ms: int) -> Span:
    """The part of a stretch from that moment on."""
    if stretch.down:
        return stretch._replace(end_ms=max(stretch.end_ms, oldest_ms))
    return stretch._replace(after=max(stretch.after, Place(oldest_ms)))


def span(from_ms: int | None, to_ms: int | None, cursor: str | None, *, down: bool) -> Span:
    """The stretch that a period and a cursor leave. Raises InvalidRequest for a bad cursor."""
    low = 0 if from_ms is None else from_ms
    high = _END_OF_TIME_MS if to_ms is None else to_ms
    after = Place(high if down else low)
    if cursor is not None:
        last = decode_cursor(cursor)
        after = min(after, last) if down else max(after, last)
    return Span(after, low if down else high, down)


def encode_cursor(place: Place) -> str:
    return base64.urlsafe_b64encode(msgspec.msgpack.encode(place)).rstrip(b"=").decode()


def decode_cursor(text: str) -> Place:
    """Raises InvalidRequest for what `encode_cursor` did not make."""
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        place = msgspec.msgpack.decode(base64.urlsafe_b64decode(padded), type=Place)
        if _can_be(place):
            return place
    except ValueError:
        pass
    raise InvalidRequest([FieldError("cursor", "not a cursor from nextCursor")])


def until(cursor: str | None) -> tuple[str | None, int | None]:
    """A cursor, and the moment (ms) noted behind it: the walk is of what was listed before. None
    where the walk begins."""
    if cursor is None:
        return None, None
    try:
        return cursor[:-_UNTIL_DIGITS], int(cursor[-_UNTIL_DIGITS:], 16)
    except ValueError:
        raise InvalidRequest([FieldError("cursor", "not a cursor from nextCursor")]) from None


def cursor_until(cursor: str | None, until_ms: int) -> str | None:
    """The cursor from which `until` reads that moment."""
    return cursor and f"{cursor}{until_ms:0{_UNTIL_DIGITS}x}"


def lowered(text: str) -> bytes:
    """A text in which parts are looked for: ASCII letters small, as scripts make them too."""
    return text.encode().lower()


def chunk_of(place: Place) -> str:
    """The stream id of the chunk that holds this log entry."""
    return f"{place.ms}-{int(place.tie[:_SEQUENCE_DIGITS])}"


def ends_chunk(place: Place, *, down: bool) -> bool:
    """Whether nothing of its chunk comes after this place."""
    return int(place.tie[_SEQUENCE_DIGITS:]) == (0 if down else _LAST_INDEX)


def stream_place(stream_id: bytes, index: int = 0, *, last: bool = False) -> Place:
    """The place of an entry of a chunk; with `last`, one that is behind all of them."""
    ms, _, sequence = stream_id.decode().partition("-")
    number = _LAST_INDEX if last else index
    tie = sequence.zfill(_SEQUENCE_DIGITS) + str(number).zfill(_INDEX_DIGITS)
    return Place(int(ms), ENDED, tie)


def place_in(chunk: Place, index: int) -> Place:
    """The place of an entry of a chunk, by that of the chunk's first one."""
    return Place(chunk.ms, ENDED, chunk.tie[:_SEQUENCE_DIGITS] + str(index).zfill(_INDEX_DIGITS))


def rest_of(chunk: Place, count: int, span: Span) -> range:
    """The indexes of a chunk's entries that are still to be read, in the order of reading; the
    chunk by the place of its first entry, with so many."""
    after, first, end = span.after, 0, count
    if after.kind == ENDED and after.ms == chunk.ms and chunk_of(after) == chunk_of(chunk):
        index = int(after.tie[_SEQUENCE_DIGITS:])
        first, end = (0, min(index, count)) if span.down else (index + 1, count)
    elif not span.past(chunk, after):
        end = 0
    return range(first, end)[:: -1 if span.down else 1]


def _can_be(place: Place) -> bool:
    """Whether the store can be asked for what comes after this place."""
    if not 0 <= place.ms <= _END_OF_TIME_MS:
        return False
    if place.kind == ENDED:
        digits = place.tie.isascii() and place.tie.isdigit()
        whole = len(place.tie) == _SEQUENCE_DIGITS + _INDEX_DIGITS
        return digits and whole and int(place.tie[:_SEQUENCE_DIGITS]) < _SEQUENCES
    return place.kind == WAITING or place == Place(place.ms)


def merge(sources: Sequence[Found[T]], limit: int, span: Span) -> Page[T]:
    """The first `limit` entries of all sources together, and where to read on. A source that
    stopped early hides what comes after the place it reached: the page ends at the nearest such
    place, and the next one begins there."""
    stop = span.nearest(source.reached for source in sources)
    merged: Iterator[tuple[Place, T]] = heapq.merge(
        *(source.entries for source in sources), key=lambda found: found[0], reverse=span.down
    )
    page: list[T] = []
    first: Place | None = None
    last: Place | None = None
    for place, entry in merged:
        if stop is not None and span.past(place, stop):
            break
        if len(page) == limit:
            return Page(page, last, first)
        page.append(entry)
        first, last = first or place, place
    return Page(page, stop, first)
