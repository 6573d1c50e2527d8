"""The headers of a schedule: which can be sent, and which are shown masked. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from api.errors import shown
from scheduler.errors import FieldError

MAX_HEADERS = 64
MAX_HEADER_BYTES = 16 * 1024
# No header can have this value, for it is not Latin-1: whoever sends it back has read it here.
MASK = "\u2022" * 8

_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
# Latin-1 without its control characters: the only characters that a header field can carry and
# that every receiver reads back as one character each.
_VALUE = re.compile(r"[ -~\xa0-\xff]*")
_OURS = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
    }
)
_OUR_PREFIXES = ("proxy-", "postdate-")
_SECRET = re.compile(r"authorization|cookie|key|token|secret", re.IGNORECASE)


def masked(headers: dict[str, str]) -> dict[str, str]:
    """The headers as they may be shown: values that look like secrets are not told."""
    return {name: MASK if _SECRET.search(name) else value for name, value in headers.items()}


def all_fine(headers: dict[str, str]) -> bool:
    """Whether nothing is wrong with any header, asked of all at once."""
    lower = [name.lower() for name in headers]
    names, values = "".join(lower), "".join(headers.values())
    return (
        len(set(lower)) == len(lower) <= MAX_HEADERS
        and len(names) + len(values) <= MAX_HEADER_BYTES
        and _VALUE.fullmatch(values) is not None
        and not any(map(_name_fault, headers))
    )


def check_headers(headers: dict[str, str], details: list[FieldError]) -> None:
    """Adds a finding for every header that cannot be sent, and for too many of them."""
    if len(headers) > MAX_HEADERS:
        details.append(FieldError("targetHeaders", f"It may have at most {MAX_HEADERS} headers."))
        return
    if sum(map(len, headers)) + sum(map(len, headers.values())) > MAX_HEADER_BYTES:
        message = f"Names and values may have at most {MAX_HEADER_BYTES:,} bytes in all."
        details.append(FieldError("targetHeaders", message))
    seen: set[str] = set()
    for name, value in headers.items():
        lower = name.lower()
        fault = "It is given twice, in another letter case." if lower in seen else None
        fault = fault or _name_fault(name) or _value_fault(value)
        if fault:
            details.append(FieldError(header_field(name), fault))
        seen.add(lower)


def header_field(name: str) -> str:
    """How a finding names a header: `targetHeaders.X-Foo`."""
    return f"targetHeaders.{shown(name)}"


@lru_cache(maxsize=1024)
def _name_fault(name: str) -> str | None:
    if _NAME.fullmatch(name) is None:
        return "It is not a valid header name."
    lower = name.lower()
    if lower in _OURS or lower.startswith(_OUR_PREFIXES):
        return "This header is set by Postdate and cannot be given."
    return None


def _value_fault(value: str) -> str | None:
    if value == MASK:
        return "Its value is the mask that stands for a secret; give the value itself."
    if _VALUE.fullmatch(value) is None:
        return "Its value may only have Latin-1 characters, and no control characters."
    return None
