"""The head of an answer, as bytes: its caps, and whether it says where the answer ends. Pure.

From the bytes themselves, and only for an answer that is not whole and small at once: a
parser callback for each header would cost every small answer more than all others together.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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


class Head(NamedTuple):
    """A whole head: where it ends, whether it breaks a cap, whether the answer is framed by a
    length or by chunks (else it ends with the connection)."""

    end: int
    too_large: bool
    framed: bool


def weigh(received: bytearray, interims: int) -> Head:
    """Weigh the head in what was received, which begins with so many 1xx heads before it.

    Raises ValueError if they are not all there.
    """
    start, end = _bounds(received, interims)
    headers = received.count(b"\r\n", start, end) - 2  # less the status line and the empty one
    return Head(
        end=end,
        too_large=end > MAX_HEAD_BYTES or headers > MAX_HEADERS,
        framed=_FRAMED.search(received, start, end) is not None,
    )


def retry_after(received: bytes | bytearray, interims: int) -> str:
    """The Retry-After in the head of what was received, as `weigh` has it; "" if there is none."""
    found = _RETRY_AFTER.search(received, *_bounds(received, interims))
    text = b"" if found is None else found[1].strip()
    return text.decode("latin-1") if len(text) <= _LONGEST_RETRY_AFTER else ""


def _bounds(received: bytes | bytearray, interims: int) -> tuple[int, int]:
    start = 0
    for _ in range(interims):
        start = received.index(_END, start) + len(_END)
    return start, received.index(_END, start) + len(_END)
