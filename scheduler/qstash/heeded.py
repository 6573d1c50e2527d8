"""What the answer to a message that failed says of its next attempt. Pure."""

from __future__ import annotations

import re

from scheduler.durations import parse_duration
from scheduler.models import Request

NEVER = "never"
"""In the place of a Retry-After: there is to be no other attempt."""

_NEVER_STATUS = 489
_FIELDS = re.compile(
    rb"\r\n(retry-after|upstash-nonretryable-error|x-ratelimit-reset(?:-requests|-tokens)?)"
    rb"[ \t]*:[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)
_RESET = b"x-ratelimit-reset"
_WAITS = (b"retry-after", _RESET, _RESET + b"-requests", _RESET + b"-tokens")
_LONGEST = 64


def says_something(head: bytes | bytearray) -> bool:
    return _FIELDS.search(head) is not None


def heeded(head: bytes | bytearray) -> str:
    """By the head of the answer: the wait as a Retry-After has it (also a duration such as `6m5s`
    becomes that), NEVER, or "": nothing."""
    found = {name.lower(): value.strip() for name, value in _FIELDS.findall(head)}
    if found.get(b"upstash-nonretryable-error", b"").lower() == b"true":
        return NEVER
    asked = next((found[name] for name in _WAITS if found.get(name)), b"").decode("latin-1")
    try:
        return str(-(-parse_duration(asked) // 1000))
    except ValueError:
        return asked if len(asked) <= _LONGEST and asked != NEVER else ""  # seconds, or a date


def is_final(request: Request, status_code: int, retry_after: str) -> bool:
    """Whether the request is a message whose target wants no other attempt."""
    return request.door is not None and (status_code == _NEVER_STATUS or retry_after == NEVER)
