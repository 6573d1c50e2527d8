"""What a target said when it failed: the first bytes of its body, and what it calls them. Pure.

From the bytes as they came, read once more by a parser of their own: the wire's has no callback for
bodies, which every answer that succeeds would pay for.
"""

from __future__ import annotations

import contextlib
import zlib

import httptools

from scheduler.models import Answer

_LONGEST_TYPE = 100
# Framing by chunks may be larger than what it frames; what hides behind more than that is not kept.
_FRAMING = 4
_ZIPPED = frozenset({b"gzip", b"x-gzip", b"deflate"})
_ANY_ZIP = zlib.MAX_WBITS | 32


def most_raw_bytes(keep_bytes: int) -> int:
    """How much behind the head is needed to keep so many bytes of a body."""
    return _FRAMING * keep_bytes


def answer_of(received: bytes | bytearray, interims: int, keep_bytes: int) -> Answer | None:
    """What is kept of an answer that begins with these bytes, with so many 1xx before it: of a body
    that was compressed, what it was before. None if there is no body. Never raises."""
    reader = _Reader(interims, keep_bytes)
    # What cannot be read, or follows the answer, ends the reading: what came before it counts.
    with contextlib.suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
        httptools.HttpResponseParser(reader).feed_data(bytes(received))
    body = bytes(reader.body[:keep_bytes])
    if reader.encoding in _ZIPPED:
        body = _unzipped(reader.body, keep_bytes) or body
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
    """The first bytes of what was compressed, no more are made; empty if it was not."""
    try:
        return zlib.decompressobj(_ANY_ZIP).decompress(data, most_bytes)
    except zlib.error:
        return b""
