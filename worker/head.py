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
    start = 0
    for _ in range(interims):
        start = received.index(_END, start) + len(_END)
    end = received.index(_END, start) + len(_END)
    headers = received.count(b"\r\n", start, end) - 2  # less the status line and the empty one
    return Head(
        end=end,
        too_large=end > MAX_HEAD_BYTES or headers > MAX_HEADERS,
        framed=_FRAMED.search(received, start, end) is not None,
    )
