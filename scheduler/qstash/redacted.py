"""What `Upstash-Redact-Fields` hides of a message wherever it is shown. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from msgspec.structs import replace

from scheduler.masks import MASK
from scheduler.models import BodyKind, Request
from scheduler.qstash.carried import Carried, opened

_HEADERS = re.compile("^headers")


def redacted(request: Request, carried: Carried) -> Request:
    """The request as the door shows it: `REDACTED:` and a SHA-256 stand for what is hidden, so that
    two values can be compared."""
    if not carried.redacted:
        return request
    headers = _headers(request, carried, lambda value: _mark(value.encode()))
    if request.body is None or not _hides_body(carried):
        return replace(request, headers=headers)
    body = _mark(request.body).encode()
    return replace(request, headers=headers, body=body, body_kind=BodyKind.TEXT)


def shown_headers(request: Request) -> dict[str, str]:
    """The headers as native calls and pages show them, with masks for those that are hidden."""
    if request.door is None:
        return request.headers
    return _headers(request, opened(request.door), lambda _: MASK)


def shows_body(request: Request) -> bool:
    return request.door is None or not _hides_body(opened(request.door))


def _hides_body(carried: Carried) -> bool:
    return "body" in _hidden(carried)


def _headers(request: Request, carried: Carried, mark: Callable[[str], str]) -> dict[str, str]:
    hidden, headers = _hidden(carried), request.headers
    return {
        name: mark(value) if hidden & {"header", f"header[{name.lower()}]"} else value
        for name, value in headers.items()
    }


def _hidden(carried: Carried) -> frozenset[str]:
    """Of `Body, headers[X-One]`: `body` and `header[x-one]`."""
    each = "".join(carried.redacted.lower().split()).split(",")
    return frozenset(_HEADERS.sub("header", name) for name in each)


def _mark(value: bytes) -> str:
    return f"REDACTED:{hashlib.sha256(value).hexdigest()}"
