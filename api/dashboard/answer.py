"""What the dashboard answers with: pages, fragments, redirects, data; and the headers of all."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar.types import Receive, Scope, Send

from api.proxies import is_https
from api.service import HttpRequest

# Nothing inline, nothing from elsewhere, in nobody's frame; no address of a page leaves it.
SECURITY = [
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
# Whoever came over TLS does so from now on, for a year.
_TLS_ONLY = (b"strict-transport-security", b"max-age=31536000")
_NOT_KEPT = [(b"cache-control", b"no-store")]


class Raw:
    """A status, headers and a body, sent as they are; an ASGI app, as the API's `Answer` is."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = (b"content-length", b"%d" % len(self.body))
        headers = [*SECURITY, *self.headers, length]
        if is_https(scope, scope["litestar_app"].state.service.settings):
            headers.append(_TLS_ONLY)
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        body = b"" if scope.get("method") == "HEAD" else self.body
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def to_asgi_response(self, app: object, request: object, **options: object) -> Raw:
        """What litestar calls on whatever an exception handler returns."""
        return self

    def with_cookie(self, cookie: str) -> Raw:
        return Raw(self.status, self.body, [*self.headers, (b"set-cookie", cookie.encode())])


def html(text: str, status: int = 200) -> Raw:
    """A page or a part of one. It is kept nowhere: it shows what only its viewer may see."""
    content_type = (b"content-type", b"text/html; charset=utf-8")
    return Raw(status, text.encode(), [content_type, *_NOT_KEPT])


def data(content: Any) -> Raw:
    body = msgspec.json.encode(content)
    return Raw(200, body, [(b"content-type", b"application/json"), *_NOT_KEPT])


def redirect(request: HttpRequest, path: str) -> Raw:
    """To another page, after a write or for want of a session. htmx would follow a plain redirect
    and put that page into this one, without its scripts: it is told to go there as a whole."""
    if request.headers.get("hx-request") == "true":
        return Raw(200, b"", [(b"hx-redirect", path.encode()), *_NOT_KEPT])
    return Raw(303, b"", [(b"location", path.encode()), *_NOT_KEPT])
