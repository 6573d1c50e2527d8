"""What `Upstash-Redact-Fields` hides of a message wherever it is shown. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from scheduler.masks import MASK
from scheduler.models import BodyKind, Request
from scheduler.qstash.carried import Carried, opened

_ONE = re.compile(r"headers?\[([^\]]+)\]")
_ALL = frozenset({"header", "headers"})


class _Hidden(NamedTuple):
    """Whether the body is hidden, and which headers are; their names in small letters."""

    body: bool
    headers: frozenset[str]
    all_headers: bool

    def of(self, headers: dict[str, str], mark: Callable[[str], str]) -> dict[str, str]:
        return {
            name: mark(value) if self.all_headers or name.lower() in self.headers else value
            for name, value in headers.items()
        }


def redacted(request: Request, carried: Carried | None) -> Request:
    """The request as the door shows it: `REDACTED:` and a SHA-256 stand for what is hidden, so that
    two values can be compared."""
    if carried is None or not carried.redacted:
        return request
    hidden = _hidden(carried.redacted)
    headers = hidden.of(request.headers, lambda value: _mark(value.encode()))
    if request.body is None or not hidden.body:
        return replace(request, headers=headers)
    body = _mark(request.body).encode()
    return replace(request, headers=headers, body=body, body_kind=BodyKind.TEXT)


def shown_headers(request: Request) -> dict[str, str]:
    """The headers as native calls and pages show them, with masks for those that are hidden."""
    hidden = _hidden_of(request)
    return request.headers if hidden is None else hidden.of(request.headers, lambda _: MASK)


def shows_body(request: Request) -> bool:
    hidden = _hidden_of(request)
    return hidden is None or not hidden.body


def _hidden_of(request: Request) -> _Hidden | None:
    carried = opened(request.door)
    return _hidden(carried.redacted) if carried and carried.redacted else None


def _hidden(named: str) -> _Hidden:
    """By `body`, `header` and `header[Name]`, with commas between."""
    names = {each.strip().lower() for each in named.split(",")}
    one_by_one = frozenset(found[1].strip() for each in names if (found := _ONE.fullmatch(each)))
    return _Hidden("body" in names, one_by_one, not names.isdisjoint(_ALL))


def _mark(value: bytes) -> str:
    return f"REDACTED:{hashlib.sha256(value).hexdigest()}"
