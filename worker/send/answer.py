"""An answer as bytes: the caps of its head, whether that says where it ends, and the kept part of
one that failed, or that a callback is to have. Pure.

A parser callback for each header, or for bodies, would cost every small answer more than all others
together. So these read the bytes once more, of answers that are large, failed, or to be reported.
"""

from __future__ import annotations

import contextlib
import re
import zlib
from http import HTTPStatus
from typing import NamedTuple

import httptools
import msgspec

from scheduler.callbacks import MOST_HEADER_BYTES, Response
from scheduler.models import Answer
from scheduler.qstash.heeded import heeded
from scheduler.texts import cut

MAX_HEAD_BYTES = 64 * 1024
# So many 1xx may come before an answer.
MAX_INTERIMS = 32
# An answer up to here can break no cap.
SMALL_BYTES = 1024
# No body follows the head of these, whatever it says.
BODILESS = frozenset({204, 304})

_END = b"\r\n\r\n"
_BLANK_LINES = re.compile(rb"[\r\n]*")
_FRAMED = re.compile(
    rb"\r\n(?:content-length[ \t]*:"
    rb"|(transfer-encoding)[ \t]*:(?:[^\r\n]*[,\t ])?chunked[ \t]*\r)",
    re.IGNORECASE,
)
# Of codings that may be the last one, only chunked says where an answer ends.
_CODED = re.compile(rb"\r\ntransfer-encoding[ \t]*:(?![ \t]*(?:identity[ \t]*)?\r)", re.IGNORECASE)
_WITH_BODY = re.compile(
    rb"\r\n(?:content-length[ \t]*:[ \t]*0*[1-9]|transfer-encoding[ \t]*:)", re.IGNORECASE
)
# Those whose Retry-After counts, and how long one may be: a date has 29 characters.
ASKING = frozenset({429, 503})
_RETRY_AFTER = re.compile(rb"\r\nretry-after[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)
_LONGEST_RETRY_AFTER = 64
# So much of an answer's end is enough to see that it has its last chunk.
LAST_CHUNK_BYTES = 16
_LAST_CHUNK = re.compile(rb"(?:([0-9a-fA-F]+)\r?)?\n(0+)\r?\n?\r?\n?\Z")
_LONGEST_TYPE = 100
_LONGEST_ODDITY = 150
_SEPARATORS_BYTES = 4  # of a header
# So much larger than a body its framing by chunks may be for the body to be kept.
_FRAMING = 4
_ZIPPED = frozenset({b"gzip", b"x-gzip", b"deflate"})
_ANY_ZIP, _RAW = zlib.MAX_WBITS | 32, -zlib.MAX_WBITS
_MOST_MEMBERS = 64


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
    chunked: bool = False
    keep_alive: bool = False
    extra: bool = False  # there is more behind the answer, or may come
    done: bool = False
    stumbled: str = ""  # what the parser said when it refused the head or the body
    begin: int = 0  # where the head begins that it refused
    seen: int = 0  # so much was searched for the end of that
    skipped: int = 0  # heads of 1xx before it
    odd: str = ""  # what was wrong with an answer whose status counts, or why none does
    tail: bytes = b""  # of one in chunks
    awaits_end: bool = False  # it had its last chunk, but not yet the line behind it
    raw: bytearray | None = None  # of one that failed or is to be reported, up to a bound
    most_raw_bytes: int = 0
    retry_after: str = ""  # of a 429 or 503
    kept: Answer | None = None  # of one that failed
    is_cut: bool = False  # it ended before its body did
    response: Response | None = None  # of one that is to be reported


class _Nothing(Received, frozen=True, gc=False):  # type: ignore[misc]  # msgspec permits it
    """Connections of all accounts share one of these, so it must not change."""


NOTHING: Received = _Nothing(head=None)


def oddity(what: str) -> str:
    """The message for an answer whose status counts though something is wrong with it."""
    first, _, _ = what.partition(" ")
    what = what if "-" in first else what[:1].lower() + what[1:]
    return f"Loose HTTP: {what}"[:_LONGEST_ODDITY]


class Head(NamedTuple):
    """A whole head: where it ends, whether it is longer than allowed, whether the answer is framed
    by a length or by chunks (else it ends with the connection), and whether by chunks. `coded`: it
    is not framed, though it has a Transfer-Encoding."""

    end: int
    too_large: bool
    framed: bool
    chunked: bool = False
    coded: bool = False


def weigh(received: bytearray, interims: int) -> Head:
    """Weigh the head behind so many 1xx heads. Raises ValueError if they are not all there."""
    start, end = _bounds(received, interims)
    framed = _FRAMED.search(received, start, end)
    return Head(
        end=end,
        too_large=end > MAX_HEAD_BYTES,
        framed=framed is not None,
        chunked=framed is not None and framed[1] is not None,
        coded=framed is None and _CODED.search(received, start, end) is not None,
    )


def note_head(
    received: Received,
    head: bytearray,
    keep_bytes: int,
    is_to_head: bool,
    response_bytes: int | None = None,
) -> bool:
    """Notes what a whole head says, and how much of the body has come behind it. False: the head
    is longer than allowed. Of an answer that failed `keep_bytes` of the body are kept, and for a
    response as many as that is to have (None: there is none)."""
    weighed = weigh(head, received.interims)
    if weighed.too_large:
        return False
    received.framed, received.chunked = weighed.framed, weighed.chunked
    if weighed.coded:
        received.odd = received.odd or oddity("Transfer-Encoding without chunked at its end")
    if is_to_head or received.status in BODILESS:
        note_stray_body(received, head, is_to_head)
    if received.status in ASKING:
        received.retry_after = retry_after(head, received.interims)
    received.body_bytes = len(head) - weighed.end
    if 200 <= received.status < 300:
        keep_bytes = 0
    if response_bytes is not None or keep_bytes:
        keep_bytes = max(keep_bytes, response_bytes or 1)  # one more shows that it is cut
        received.most_raw_bytes = weighed.end + most_raw_bytes(keep_bytes)
        received.raw = head[: received.most_raw_bytes]
    received.head = None
    return True


def note_stray_body(received: Received, data: bytes | bytearray, is_to_head: bool) -> None:
    """Of an answer that has no body, as its method or status says. Its connection must not be used
    again if one came all the same, or may still come."""
    is_alone = data.find(_END) + len(_END) == len(data)
    if is_alone and (is_to_head or _WITH_BODY.search(data) is None):
        return  # the usual one
    start, end = _bounds(data, received.interims)
    announced = not is_to_head and _WITH_BODY.search(data, start, end) is not None
    if len(data) > end or (announced and received.status != HTTPStatus.NOT_MODIFIED):
        kind = "an answer to HEAD" if is_to_head else f"an answer of {received.status}"
        received.odd = received.odd or oddity(f"a body in {kind}")
    received.extra = received.extra or announced or len(data) > end


def text_of(reason: bytes) -> str:
    """A reason phrase, mostly in UTF-8 or Latin-1, if not in ASCII."""
    try:
        return reason.decode()
    except UnicodeDecodeError:
        return reason.decode("latin-1")


def ends_with_last_chunk(received: bytes) -> bool:
    """Whether so much of an answer seems to end with its last chunk."""
    found = _LAST_CHUNK.search(received)
    if found is None:
        return False
    size, zeros = found.groups()
    return size is None or int(size, 16) != len(zeros)  # else that is a chunk of zeros


def lenient(parser: httptools.HttpResponseParser) -> httptools.HttpResponseParser:
    """It reads loose chunks."""
    parser.set_dangerous_leniencies(
        lenient_headers=True,
        lenient_optional_lf_after_cr=True,
        lenient_optional_cr_before_lf=True,
        lenient_optional_crlf_after_chunk=True,
        lenient_spaces_after_chunk_size=True,
    )
    return parser


def retry_after(received: bytes | bytearray, interims: int) -> str:
    """The Retry-After in the head of the received bytes, as `weigh` has it; "" if there is none."""
    found = _RETRY_AFTER.search(received, *_bounds(received, interims))
    text = b"" if found is None else found[1].strip()
    return text.decode("latin-1") if len(text) <= _LONGEST_RETRY_AFTER else ""


def heeded_in(received: bytes | bytearray, interims: int) -> str:
    """What the head says that `weigh` has, where the request was a message."""
    start, end = _bounds(received, interims)
    return heeded(received[start:end])


def _bounds(received: bytes | bytearray, interims: int) -> tuple[int, int]:
    start = _begin(received, 0)
    for _ in range(interims):
        start = _begin(received, received.index(_END, start) + len(_END))
    return start, received.index(_END, start) + len(_END)


def _begin(received: bytes | bytearray, at: int) -> int:
    """The parser passes over blank lines before a status line."""
    blank = _BLANK_LINES.match(received, at)
    return at if blank is None else blank.end()


def most_raw_bytes(keep_bytes: int) -> int:
    """How much behind the head is needed to keep so many bytes of a body."""
    return _FRAMING * keep_bytes


def answer_of(received: bytes | bytearray, interims: int, keep_bytes: int) -> Answer | None:
    """The kept part of an answer that begins with these bytes, with so many 1xx before it;
    decompressed. None if there is no body. Never raises."""
    reader = _Reader(interims, most_raw_bytes(keep_bytes))
    body = cut(reader.body_of(received, keep_bytes), keep_bytes)
    if not body:
        return None
    return Answer("".join(filter(str.isprintable, reader.content_type))[:_LONGEST_TYPE], body)


def response_of(received: Received, data: bytes | bytearray, most_bytes: int) -> Response:
    """What a callback is to have of an answer that begins with these bytes: its headers, and so
    much of its body, decompressed. Never raises."""
    reader = _ResponseReader(received.interims, most_raw_bytes(most_bytes) + 1)
    body = reader.body_of(data, most_bytes)
    lacks_raw = received.body_bytes > most_raw_bytes(max(most_bytes, 1))
    is_cut = received.is_cut or reader.lacks_headers or lacks_raw or len(body) > most_bytes
    return Response(tuple(reader.headers), cut(body, most_bytes), is_cut)


class _Reader:
    """What the parser calls. Once the answer is whole nothing counts any more."""

    def __init__(self, interims: int, most_bytes: int) -> None:
        self.body = bytearray()
        self.content_type = ""
        self.encoding = b""
        self._most_bytes = most_bytes
        self._heads_left = interims + 1
        self._has_body = False

    def body_of(self, received: bytes | bytearray, keep_bytes: int) -> bytes:
        """The body of an answer that begins with these bytes, decompressed: so much of it, and at
        least a byte more if there is more."""
        # What cannot be read, or follows the answer, ends the reading: what came before it counts.
        with contextlib.suppress(httptools.HttpParserError, httptools.HttpParserUpgrade):
            lenient(httptools.HttpResponseParser(self)).feed_data(bytes(received))
        body = bytes(self.body)
        if self.encoding not in _ZIPPED:
            return body
        return _unzipped(body, self.encoding, keep_bytes + 1) or body

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


class _ResponseReader(_Reader):
    """It has all headers, up to a bound, too."""

    def __init__(self, interims: int, most_bytes: int) -> None:
        super().__init__(interims, most_bytes)
        self.headers: list[tuple[str, str]] = []
        self.lacks_headers = False
        self._left_bytes = MOST_HEADER_BYTES

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if self._has_body or self._heads_left != 1:
            return
        self._left_bytes -= len(name) + len(value) + _SEPARATORS_BYTES
        if self._left_bytes < 0:
            self.lacks_headers = True
        else:
            self.headers.append((name.decode("latin-1"), value.decode("latin-1")))


def _unzipped(data: bytes, encoding: bytes, most_bytes: int) -> bytes:
    """The first decompressed bytes, no more are made; empty if nothing was compressed."""
    if body := _members(data, most_bytes):
        return body
    # Some servers send deflate without the header that HTTP wants of it.
    return _raw_deflated(data, most_bytes) if encoding == b"deflate" else b""


def _members(data: bytes, most_bytes: int) -> bytes:
    """A gzip file may be several, one behind the other. What follows them does not count."""
    body = b""
    for _ in range(_MOST_MEMBERS):
        unzip = zlib.decompressobj(_ANY_ZIP)
        try:
            body += unzip.decompress(data, most_bytes - len(body))
        except zlib.error:
            break
        data = unzip.unused_data
        if not data or len(body) >= most_bytes:
            break
    return body


def _raw_deflated(data: bytes, most_bytes: int) -> bytes:
    """Any bytes may look like that for a while, so all of them have to be, as far as is read."""
    unzip = zlib.decompressobj(_RAW)
    try:
        body = unzip.decompress(data, most_bytes)
    except zlib.error:
        return b""
    is_whole = unzip.eof and not unzip.unused_data
    return body if is_whole or len(body) >= most_bytes else b""
