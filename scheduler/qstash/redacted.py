"""What `Upstash-Redact-Fields` hides of a message wherever it is shown. Pure."""

from __future__ import annotations

import hashlib
import re

from msgspec.structs import replace

from scheduler.models import Request
from scheduler.qstash.carried import Carried

_ONE = re.compile(r"headers?\[([^\]]+)\]")
_ALL = frozenset({"header", "headers"})


def redacted(request: Request, carried: Carried | None) -> Request:
    """The request as it may be shown: `REDACTED:` and a SHA-256 stand for what is hidden, so that
    two values can be compared. What `carried` names is `body`, `header`, or `header[Name]`."""
    if carried is None or not carried.redacted:
        return request
    names = {each.strip().lower() for each in carried.redacted.split(",")}
    hidden = {found[1].strip() for each in names if (found := _ONE.fullmatch(each))}
    hides_all = not names.isdisjoint(_ALL)
    headers = {
        name: _mark(value.encode()) if hides_all or name.lower() in hidden else value
        for name, value in request.headers.items()
    }
    body = request.body
    if body is not None and "body" in names:
        body = _mark(body).encode()
    return replace(request, headers=headers, body=body)


def _mark(value: bytes) -> str:
    return f"REDACTED:{hashlib.sha256(value).hexdigest()}"
