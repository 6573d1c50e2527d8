"""Answers: the one shape in which this API says anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgspec
from litestar.types import Receive, Scope, Send

from scheduler.callers import Rate

Headers = tuple[tuple[bytes, bytes], ...]

_RATE = "postdate.rate"
_encode = msgspec.json.Encoder().encode


class JsonResponse:
    """A status and a JSON body, sent as they are.

    It is an ASGI app and no litestar `Response`: building and rendering one of those costs a
    quarter of what an empty request costs.
    """

    __slots__ = ("body", "headers", "status")
    # Responses are per caller: shared caches must not keep them.
    fixed: Headers = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))

    def __init__(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        """`content` is anything that msgspec encodes; `headers` are further ones."""
        self.status = status
        self.body = _encode(content)
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = self.lines(cast("dict[str, Any]", scope).get(_RATE))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": False})

    def lines(self, rate: Rate | None) -> list[tuple[bytes, bytes]]:
        lines = [*self.fixed, (b"content-length", b"%d" % len(self.body)), *rate_headers(rate)]
        if self.headers:
            lines += [(name.encode(), value.encode()) for name, value in self.headers.items()]
        return lines

    def to_asgi_response(self, app: object, request: object, **options: object) -> JsonResponse:
        """Litestar calls it on what a handler returns, for errors too."""
        return self


class Bodiless(JsonResponse):
    """An answer that by its status has no body, and no length of one (RFC 9110, 8.6)."""

    __slots__ = ()

    def lines(self, rate: Rate | None) -> list[tuple[bytes, bytes]]:
        return [line for line in super().lines(rate) if line[0] != b"content-length"]


class Options(Bodiless):
    """The answer to OPTIONS: all methods of the path."""

    __slots__ = ()
    fixed = ()

    def __init__(self, methods: Iterable[str]) -> None:
        self.status, self.body = 204, b""
        self.headers = {"allow": allow(methods)}


def allow(methods: Iterable[str]) -> str:
    """The value of `Allow` where these methods have handlers."""
    named = set(methods)
    return ", ".join(sorted(named | {"HEAD"} if "GET" in named else named))


def note_rate(scope: Scope, rate: Rate) -> None:
    """From here on each answer to this request, errors too, carries the `RateLimit` headers."""
    cast("dict[str, Any]", scope)[_RATE] = rate


def rate_headers(rate: Rate | None) -> list[tuple[bytes, bytes]]:
    if rate is None:
        return []
    return [
        (b"ratelimit-limit", b"%d" % rate.limit),
        (b"ratelimit-remaining", b"%d" % rate.remaining),
        (b"ratelimit-reset", b"%d" % rate.full_in_s),
    ]
