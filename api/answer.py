"""Answers: the one shape in which this API says anything."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar.types import Receive, Scope, Send

from api.rate import rate_headers

_encode = msgspec.json.Encoder().encode


class Answer:
    """A status and a JSON body, sent as they are.

    It is an ASGI app and no litestar `Response`: building and rendering one of those costs a
    quarter of what an empty request costs.
    """

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        """`content` is anything that msgspec encodes; `headers` are further ones."""
        self.status = status
        self.body = _encode(content)
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(self.body)),
        ]
        headers += rate_headers(scope)
        if self.headers:
            headers += [(name.encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        # An answer to HEAD has the headers of the one to GET, and no body.
        body = b"" if scope.get("method") == "HEAD" else self.body
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def to_asgi_response(self, app: object, request: object, **options: object) -> Answer:
        """What litestar calls on whatever an exception handler returns."""
        return self
