"""Answers of a connection itself, which then closes: no request came of what it read."""

from __future__ import annotations

import http
from typing import NamedTuple

import msgspec

from api.bodies import DetailedErrorBody, ErrorBody
from api.limits import MAX_TARGET_BYTES
from scheduler.errors import FieldError

_RETRY_AFTER_S = 1


class Rejection(NamedTuple):
    """A status and a body in the shape of all other errors."""

    status: int
    body: ErrorBody

    @property
    def response(self) -> bytes:
        content = msgspec.json.encode(self.body)
        lines = [
            f"HTTP/1.1 {self.status} {http.HTTPStatus(self.status).phrase}",
            "content-type: application/json",
            f"content-length: {len(content)}",
            "connection: close",
        ]
        if self.status in (429, 503):
            lines.append(f"retry-after: {_RETRY_AFTER_S}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def _malformed(field: str, message: str) -> Rejection:
    return Rejection(
        400, DetailedErrorBody("The request is not valid HTTP", [FieldError(field, message)])
    )


NO_HTTP = _malformed("request", "It is not valid HTTP.")
UNKNOWN_VERSION = _malformed("request", "Its version must be HTTP/1.1 or HTTP/1.0.")
BAD_HOST = _malformed("Host", "It must be given once, as a host with or without a port.")
BAD_TARGET = _malformed("request", "Its target must be a path, or a URL of the host in Host.")
CODING_IN_1_0 = _malformed("Transfer-Encoding", "HTTP/1.0 has no transfer codings.")
BAD_TRAILER = _malformed("trailer", "It may not have fields of the connection.")
HEAD_TIMED_OUT = Rejection(408, ErrorBody("The request's head did not arrive in time"))
BODY_TIMED_OUT = Rejection(408, ErrorBody("The request's body arrived too slowly"))
TARGET_TOO_LONG = Rejection(
    414, ErrorBody(f"The request's path and query are longer than {MAX_TARGET_BYTES:,} bytes")
)
PIPELINE_FULL = Rejection(429, ErrorBody("Too many requests wait on this connection"))
HEAD_TOO_LARGE = Rejection(431, ErrorBody("The request's head is too large"))
UNKNOWN_CODING = Rejection(501, ErrorBody("The only transfer coding that is read is chunked"))
BODIES_FULL = Rejection(503, ErrorBody("Too many bodies are being read; try again in 1 s"))
CONNECTIONS_FULL = Rejection(503, ErrorBody("Too many connections; try again in 1 s"))
