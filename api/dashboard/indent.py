"""JSON on many lines, for people to read; within bounds, whatever it is. Pure."""

from __future__ import annotations

import re
from itertools import accumulate

import msgspec

# What it may come to. Of a deep and wide body every line begins with its depth in blanks: of a
# quarter of a megabyte that came to 213 MiB.
MOST_BYTES = 512 * 1024
_INDENT = 2
# So many are counted in some milliseconds, in which the process does nothing else.
_MOST_BRACKETS = 50_000

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\x00\x00")
_OTHERS = bytes(set(range(256)) - set(b"[{]},"))


def indented(body: bytes) -> str:
    """As it came, if it would be too large on many lines, or has half a surrogate pair in it, which
    msgspec does not take; numbers and spellings stay in any case."""
    if not _fits(body):
        return body.decode()
    try:
        return msgspec.json.format(body, indent=_INDENT).decode()
    except msgspec.DecodeError:
        return body.decode()


def _fits(body: bytes) -> bool:
    """No line is deeper than the deepest bracket, and each bracket and comma makes at most one."""
    marks = _STRING.sub(b"", body).translate(None, _OTHERS)
    lines = len(marks) + 1
    brackets = marks.translate(_STEPS, b",")
    if len(brackets) > _MOST_BRACKETS:
        return False
    deepest = max(accumulate(1 if step else -1 for step in brackets), default=0)
    return len(body) + lines * (1 + _INDENT * deepest) <= MOST_BYTES
