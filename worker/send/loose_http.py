"""Answers in loose HTTP: a head that the parser refuses is read again, leniently, and written anew
as strict HTTP has it. Pure.

Their connections are closed afterwards, so no other exchange reads what was misread here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from worker.send.answer import MAX_HEAD_BYTES, MAX_INTERIMS, Received, oddity

# Each of these takes time in proportion to what it reads, whatever that is.
_BLANK_LINES = re.compile(rb"[\r\n]*")
_HEAD_END = re.compile(rb"\n\r{0,2}\n")
_LONGEST_END = 4
_NAME = b"http/"
# Of any version: an answer is read as HTTP/1.1 whatever it calls itself.
_STATUS_LINE = re.compile(
    rb"HTTP/\d{1,2}(?:\.\d{1,2})?[ \t]+([1-9]\d\d)(?!\d)[ \t]*(.*)", re.IGNORECASE | re.DOTALL
)
_USUAL_STATUS_LINE = re.compile(rb"HTTP/1\.[01] \d{3}(?: .*)?", re.DOTALL)
_ANOTHER_STATUS = re.compile(rb"^HTTP/\d[\d.]*[ \t]+\d{3}", re.IGNORECASE | re.MULTILINE)
_BARE_LF = re.compile(rb"(?<!\r)\n")
_FOLD = re.compile(rb"\n[ \t]+")
_FIELD = re.compile(
    rb"^(content-length|transfer-encoding|content-type|content-encoding|retry-after)"
    rb"[ \t]*:([^\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
_KEPT = (b"content-type", b"content-encoding", b"retry-after")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]+")
# The parser counts in 64 bits.
_LONGEST_LENGTH = 18
_MOST_LENGTHS = 64
_SHOWN_BYTES = 40


class NotHttp(Exception):
    """No status can be told from the answer; the text says why."""


class HeadTooLong(Exception):
    """Its end does not come within the cap."""


class Mended(NamedTuple):
    """`data`: the head as strict HTTP has it, and what came behind it. `odd`: what was wrong with
    it. `has_end`: it, or the connection, says where the body ends."""

    data: bytes
    odd: str
    has_end: bool


class _Head(NamedTuple):
    """The parts of a whole head. `lines` follow the status line, with LF for each line end, folded
    ones joined."""

    status_line: re.Match[bytes]
    lines: bytes
    has_bare_lf: bool
    has_folds: bool
    end: int

    @property
    def is_interim(self) -> bool:
        return self.status_line[1][:1] == b"1" and self.status_line[1] != b"101"


class _Framing(NamedTuple):
    """How a head says where its body ends. `length`: None if it has none that can be read."""

    length: int | None
    lengths: int
    is_readable: bool
    has_codings: bool
    is_chunked: bool


def mend(received: Received, begun: bytearray) -> Mended | None:
    """`begun`: the bytes of the answer that have come. None: its head is not whole yet.

    Raises NotHttp or HeadTooLong.
    """
    while _has_news(received, begun) and (head := _read_head(received, begun)) is not None:
        if not head.is_interim:
            return _mended(head, received.stumbled, bytes(begun[head.end :]))
        received.begin = received.seen = head.end
        received.skipped += 1
        if received.skipped > MAX_INTERIMS:
            raise HeadTooLong
    _check_length(len(begun))
    received.seen = len(begun)
    return None


def _has_news(received: Received, begun: bytearray) -> bool:
    """Whether what came since the last look may matter: a part of the name, the status line's end,
    or the head's."""
    begin, seen = received.begin, received.seen
    if seen - begin < len(_NAME):
        return True
    if begun.find(b"\n", begin, seen) < 0:
        return b"\n" in begun[seen:]
    return _HEAD_END.search(begun, max(begin, seen - _LONGEST_END)) is not None


def _read_head(received: Received, begun: bytearray) -> _Head | None:
    """None if it is not whole. It does not end in the bytes that were seen before."""
    if blank := _BLANK_LINES.match(begun, received.begin):
        received.begin = blank.end()
    start = received.begin
    line_end = begun.find(b"\n", start)
    if line_end < 0:
        if not _NAME.startswith(begun[start : start + len(_NAME)].lower()):
            raise _no_status_line(begun[start:])
        return None
    line = bytes(begun[start:line_end]).rstrip(b"\r")
    status_line = _STATUS_LINE.fullmatch(line)
    if status_line is None:
        raise _no_status_line(line)
    found = _HEAD_END.search(begun, max(line_end, received.seen - _LONGEST_END))
    if found is None:
        return None
    _check_length(found.end())
    raw = bytes(begun[line_end : found.end()])
    lines = raw.replace(b"\r\r\n", b"\n").replace(b"\r\n", b"\n")
    unfolded = _FOLD.sub(b" ", lines)
    has_bare_lf = _BARE_LF.search(begun, start, found.end()) is not None
    return _Head(status_line, unfolded, has_bare_lf, unfolded != lines, found.end())


def _check_length(length: int) -> None:
    if length > MAX_HEAD_BYTES:
        raise HeadTooLong


def _no_status_line(line: bytes | bytearray) -> NotHttp:
    return NotHttp(f'it begins with "{_shown(line)}", not with a status line')


def _shown(line: bytes | bytearray) -> str:
    text = line[:_SHOWN_BYTES].decode("ascii", "backslashreplace")
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)


def _mended(head: _Head, refused: str, body: bytes) -> Mended:
    if _ANOTHER_STATUS.search(head.lines):
        raise NotHttp("it has two status lines")
    fields: dict[bytes, list[bytes]] = {}
    for name, value in _FIELD.findall(head.lines):
        fields.setdefault(name.lower(), []).append(_CONTROL.sub(b" ", value).strip())
    framing = _framing(fields)
    written = [
        b"HTTP/1.1 %b %b" % (head.status_line[1], _CONTROL.sub(b" ", head.status_line[2])),
        b"Connection: close",
        *(b"%b: %b" % (name, fields[name][0]) for name in _KEPT if name in fields),
    ]
    if framing.is_chunked:
        written.append(b"Transfer-Encoding: chunked")
    elif framing.length is not None:
        written.append(b"Content-Length: %d" % framing.length)
    odd = oddity(", ".join(_oddities(head, framing)) or refused)
    data = b"\r\n".join((*written, b"", body))
    return Mended(data, odd, framing.is_chunked or framing.is_readable)


def _framing(fields: dict[bytes, list[bytes]]) -> _Framing:
    listed = b",".join(fields.get(b"content-length", []))
    lengths = [each.strip() for each in listed.split(b",", _MOST_LENGTHS)]
    if b"content-length" not in fields:
        lengths = []
    numbers = {each.lstrip(b"0") or b"0" for each in lengths if each.isdigit()}
    different = sorted(numbers, key=lambda each: (len(each), each))
    if len(different) > 1:
        first, second = map(_shown, different[:2])
        raise NotHttp(f"its lengths {first} and {second} contradict each other")
    is_readable = all(each.isdigit() and len(each) <= _LONGEST_LENGTH for each in lengths)
    length = int(lengths[0]) if lengths and is_readable else None
    codings = b",".join(fields.get(b"transfer-encoding", [])).lower()
    is_chunked = codings.rpartition(b",")[2].strip() == b"chunked"
    return _Framing(length, len(lengths), is_readable, b"transfer-encoding" in fields, is_chunked)


def _oddities(head: _Head, framing: _Framing) -> Iterator[str]:
    line = head.status_line[0]
    if _USUAL_STATUS_LINE.fullmatch(line) is None:
        yield f'the status line "{_shown(line)}"'
    if framing.has_codings and framing.lengths:
        yield "both Content-Length and Transfer-Encoding"
    if framing.lengths > 1:
        yield "Content-Length more than once"
    if not framing.is_readable:
        yield "a Content-Length that is no number, or too large a one"
    if head.has_bare_lf:
        yield "lines that end without CR"
    if head.has_folds:
        yield "folded header lines"
