"""Names of requests: in the header of every answer, in errors, and in the process's log. They are
random: the next one cannot be guessed, and two of them do not show how many came in between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, cast

from litestar.types import Scope

HEADER = b"postdate-request-id"
PATTERN = "^req_[0-9a-hjkmnp-tv-z]{16,32}$"  # a proxy may make its own
_SCOPE = "postdate.request_id"
_CHARACTERS, _AT_ONCE = 16, 64
# Five bits of each random byte, as one of the digits that other ids have.
_DIGITS = b"0123456789abcdefghjkmnpqrstvwxyz" * 8


def _ids() -> Iterator[bytes]:
    """Many with one system call: one for each would take longer than all else of an id."""
    while True:
        digits = os.urandom(_CHARACTERS * _AT_ONCE).translate(_DIGITS)
        for start in range(0, len(digits), _CHARACTERS):
            yield b"req_" + digits[start : start + _CHARACTERS]


_new = _ids()


def new_request_id() -> bytes:
    return next(_new)


def request_id_of(scope: Scope) -> str:
    """The same in each call with this scope."""
    noted = cast("dict[str, Any]", scope)
    if _SCOPE not in noted:
        noted[_SCOPE] = next(_new).decode()
    return cast("str", noted[_SCOPE])
