"""An answer as bytes: the caps of its head, whether that says where it ends, and the kept part of
one that failed. Pure.

A parser callback for each header, or for bodies, would cost every small answer more than all others
together. So these read the bytes once more, of answers that are large or failed.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from typing import NamedTuple

import httptools
import msgspec

from scheduler.models import Answer
from scheduler.texts import cut

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADERS = 256
# An answer up to here can break no cap: each header has at least four bytes.
SMALL_BYTES = 4 * MAX_HEADERS

_END = b"\r\n\r\n"
_FRAMED = re.compile(
    rb"\r\n(?:content-length[ \t]*:|transfer-encoding[ \t]*:[^\r\n]*chunked[ \t]*\r)",
    re.IGNORECASE,
)
# Those whose Retry-After counts, and how long one may be: a date has 29 characters.
ASKING = frozenset({429, 503})
_RETRY_AFTER = re.compile(rb"\r\nretry-after[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_LONGEST_RETRY_AFTER = 64
_LONGEST_TYPE = 100
# So much larger than a body its framing by chunks may be for the body to be kept.
_FRAMING = 4
_ZIPPED = frozenset({b"gzip", b"x-gzip", b"deflate"})
_ANY_ZIP = zlib.MAX_WBITS | 32


class Received(msgspec.Struct, gc=False):
    """The parts of one answer that have come."""

    was_early: bool = False  # it began before the request had gone out whole
    heard_s: float | None = None  # when one in several pieces began, by the monotonic clock
    head: bytearray | None = msgspec.field(default_factory=bytearray)  # until it is whole
    status: int = 0
    reason: bytes = b""
    interims: int = 0
    body_bytes: int = 0
    body_lines: int = 0
    pieces: int = 0
    headers_done: bool = False
    framed: bool = False
    keep_alive: bool = False
    extra: bool = False
    done: bool = False
    raw: bytearray | None = None  # of one that failed, up to a bound
    most_raw_bytes: int = 0
    retry_after: str = ""  # of a 429 or 503
    kept: Answer | None = None  # of one that failed


class _Nothing(Received, frozen=True, gc=False):  # type: ignore[misc]  # msgspec permits it
    """Connections of all accounts share one of these, so it must not change."""


NOTHING: Received = _Nothing(head=None)


class Head(NamedTuple):
    """A whole head: where it ends, whether it breaks a cap, whether the answer is framed by a
    length or by chunks (else it ends with the connection)."""

    end: int
    too_large: bool
    framed: bool


def weigh(received: bytearray, interims: int) -> Head:
    """Weigh the head behind so many 1xx heads. Raises ValueError if they are not all there."""
    start, end = _bounds(received, interims)
    headers = received.count(b"\r\n", start, end) - 2  # less the status line and the empty one
    return Head(
        end=end,
        too_large=end > MAX_HEAD_BYTES or headers > MAX_HEADERS,
        framed=_FRAMED.search(received, start, end) is not None,
    )


def retry_after(received: bytes | bytearray, interims: int) -> str:
    """The Retry-After in the head of the received bytes, as `weigh` has it; "" if there is none."""
    found = _RETRY_AFTER.search(received, *_bounds(received, interims))
    text = b"" if found is None else found[1].strip()
    return text.decode("latin-1") if len(text) <= _LONGEST_RETRY_AFTER else ""


def _bounds(received: bytes | bytearray, interims: int) -> tuple[int, int]:
    start = 0
    for _ in range(interims):
        start = received.index(_END, start) + len(_END)
    return start, received.index(_END, start) + len(_END)


def most_raw_bytes(keep_bytes: int) -> int:
    """How much behind the head is needed to keep so many bytes of a body."""
    return _FRAMING * keep_bytes


def answer_of(received: bytes | bytearray, interims: int, keep_bytes: int) -> Answer | None:
    """The kept part of an answer that begins with these bytes, with so many 1xx before it;
    decompressed. None if there is no body. Never raises."""
    reader = _Reader(interims, keep_bytes)
    # What cannot be read, or follows the answer, ends the reading: what came before it counts.
    with contextlib.suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
        httptools.HttpResponseParser(reader).feed_data(bytes(received))
    body = bytes(reader.body)
    if reader.encoding in _ZIPPED:
        body = _unzipped(reader.body, keep_bytes + 1) or body
    body = cut(body, keep_bytes)
    if not body:
        return None
    return Answer("".join(filter(str.isprintable, reader.content_type))[:_LONGEST_TYPE], body)


class _Reader:
    """What the parser calls. Once the answer is whole nothing counts any more."""

    def __init__(self, interims: int, keep_bytes: int) -> None:
        self.body = bytearray()
        self.content_type = ""
        self.encoding = b""
        self._most_bytes = most_raw_bytes(keep_bytes)
        self._heads_left = interims + 1
        self._has_body = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_body or self._heads_left != 1:
            return  # a trailer, or a 1xx
        if name.lower() == b"content-type":
            self.content_type = value.decode("latin-1")
        elif name.lower() == b"content-encoding":
            self.encoding = value.strip().lower()

    def on_body(self, data: bytes) -> None:
        self._has_body = True
        if self._heads_left:
            self.body += data[: self._most_bytes - len(self.body)]

    def on_message_complete(self) -> None:
        self._heads_left = max(0, self._heads_left - 1)


def _unzipped(data: bytearray, most_bytes: int) -> bytes:
    """The first decompressed bytes, no more are made; empty if nothing was compressed."""
    try:
        return zlib.decompressobj(_ANY_ZIP).decompress(data, most_bytes)
    except zlib.error:
        return b""
