"""Answers: pages, fragments, redirects, data; and the headers that all of them have."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass, replace
from typing import Any

import brotli
import msgspec
from litestar.types import Receive, Scope, Send

from api.dashboard.operators.impersonation import headers_below, kept_below, looked_at, read_only
from api.door.proxies import is_https
from api.service import HttpRequest

# Nothing inline, nothing from other hosts, in no frame; no address of a page leaves it.
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
# A browser that came over TLS does so from now on, for a year.
_TLS_ONLY = (b"strict-transport-security", b"max-age=31536000")
_HTML = b"text/html; charset=utf-8"
_NOT_KEPT = [(b"cache-control", b"no-store")]
# A smaller body costs more to pack than to send. At these levels 100 KB take 2 ms, and Brotli is a
# sixth smaller than gzip; its window is 256 KB.
_PACKED_FROM_BYTES = 1000
_PACKING_LEVEL = 9
_BROTLI = {"quality": 5, "lgwin": 18}


@dataclass(slots=True)
class Raw:
    """A status, headers and a body, sent as they are; an ASGI app, as the API's `Answer` is.
    `packed` is the same body in gzip, where it is kept; None: it gains nothing from gzip.
    `in_brotli` is kept beside it; browsers take Brotli over TLS, and from localhost.
    `leads_out` of the account that an operator looks at, if that is where it was asked for."""

    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]]
    packed: bytes | None = b""
    in_brotli: bytes = b""
    leads_out: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        prefix = "" if self.leads_out else looked_at(scope["path"])
        answer = self.kept_below(prefix) if prefix else self
        if not prefix and (b"content-type", _HTML) in self.headers and _only_reads(scope):
            answer = replace(self, body=read_only(self.body.decode()).encode())
        body, coding = answer.coded(scope)
        headers = [*SECURITY, *answer.headers, *coding]
        if self.status != 204:  # which has no length
            headers.append((b"content-length", b"%d" % len(body)))
        if is_https(scope, scope["litestar_app"].state.service.settings):
            headers.append(_TLS_ONLY)
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def kept_below(self, prefix: str) -> Raw:
        """As an operator gets it who looks at an account."""
        body, headers = self.body, headers_below(prefix, self.headers)
        if (b"content-type", _HTML) in headers:
            body = kept_below(prefix, body.decode()).encode()
        return replace(self, body=body, headers=headers)

    def coded(self, scope: Scope) -> tuple[bytes, list[tuple[bytes, bytes]]]:
        """The body as the client takes it, and its headers. Compression reveals no secret of a
        page: a form masks its token anew each time."""
        vary = (b"vary", b"accept-encoding")
        is_small = len(self.body) < _PACKED_FROM_BYTES and not self.packed
        if self.packed is None or is_small:
            return self.body, [vary]
        if takes(scope, b"br") and (self.in_brotli or not self.packed):
            in_brotli = self.in_brotli or brotli.compress(self.body, **_BROTLI)
            return in_brotli, [vary, (b"content-encoding", b"br")]
        if not takes(scope, b"gzip"):
            return self.body, [vary]
        packed = self.packed or gzip.compress(self.body, _PACKING_LEVEL, mtime=0)
        return packed, [vary, (b"content-encoding", b"gzip")]

    def to_asgi_response(self, app: object, request: object, **options: object) -> Raw:
        """Litestar calls this on the answer of an exception handler."""
        return self

    def with_header(self, name: bytes, value: str) -> Raw:
        self.headers.append((name, value.encode()))
        return self

    def with_cookie(self, cookie: str) -> Raw:
        return self.with_header(b"set-cookie", cookie)

    def with_retry_after(self, wait_ms: int) -> Raw:
        """Unchanged, if there is nothing to wait for."""
        return self.with_header(b"retry-after", str(-(-wait_ms // 1000))) if wait_ms else self


def takes(scope: Scope, coding: bytes) -> bool:
    """Whether the client accepts this encoding of content; with `q=0` it does not."""
    refused = rb"\s*;\s*q=0(?:\.0*)?\s*(?:,|$)"
    wanted = re.compile(rb"(?:^|,)\s*" + coding + rb"(?!" + refused + rb")\s*(?:[;,]|$)")
    return any(
        name == b"accept-encoding" and wanted.search(value) for name, value in scope["headers"]
    )


def _only_reads(scope: Scope) -> bool:
    """Whether the viewer's role allows to look, and nothing else."""
    viewer = scope["state"].get("viewer")
    return viewer is not None and not viewer.may("act")


def html(text: str, status: int = 200) -> Raw:
    """A page or a part of one, for its viewer alone: no cache keeps it."""
    return Raw(status, text.encode(), [(b"content-type", _HTML), *_NOT_KEPT])


def data(content: Any) -> Raw:
    body = msgspec.json.encode(content)
    return Raw(200, body, [(b"content-type", b"application/json"), *_NOT_KEPT])


def is_htmx(request: HttpRequest) -> bool:
    return request.headers.get("hx-request") == "true"


def is_for_panel(request: HttpRequest) -> bool:
    """Whether the answer is shown in the side panel of a page."""
    return request.headers.get("hx-target") == "div#panel"


def redirect(request: HttpRequest, path: str, *, as_a_whole: bool = False) -> Raw:
    """To another page. htmx would follow a plain redirect and put that page into this one, without
    its scripts: a header makes it load the page, unless only the side panel changes."""
    if is_htmx(request) and (as_a_whole or not is_for_panel(request)):
        return Raw(200, b"", [(b"hx-redirect", path.encode()), *_NOT_KEPT])
    return Raw(303, b"", [(b"location", path.encode()), *_NOT_KEPT])
