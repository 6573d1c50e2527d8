"""The rate of an account's plan, as its answers tell it."""

from __future__ import annotations

from typing import Any, cast

from litestar.types import Scope

from scheduler.models import Rate

_SCOPE_KEY = "postdate.rate"


def note_rate(scope: Scope, rate: Rate) -> None:
    """From here on every answer to this request tells where its account stands, errors too."""
    cast("dict[str, Any]", scope)[_SCOPE_KEY] = rate


def rate_headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    rate = cast("dict[str, Any]", scope).get(_SCOPE_KEY)
    if rate is None:
        return []
    return [
        (b"ratelimit-limit", b"%d" % rate.limit),
        (b"ratelimit-remaining", b"%d" % rate.remaining),
        (b"ratelimit-reset", b"%d" % rate.full_in_s),
    ]
