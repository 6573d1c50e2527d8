"""Answers to what never becomes a request: written to the connection itself, which then closes."""

from __future__ import annotations

import http
from typing import NamedTuple

import msgspec

from api.bodies import DetailedErrorBody, ErrorBody
from scheduler.errors import FieldError

_RETRY_AFTER_S = 1


class Rejection(NamedTuple):
    """A status and a body in the shape of all other errors."""

    status: int
    body: ErrorBody

    @property
    def response(self) -> bytes:
        """All of it, as it goes over the wire."""
        content = msgspec.json.encode(self.body)
        lines = [
            f"HTTP/1.1 {self.status} {http.HTTPStatus(self.status).phrase}",
            "content-type: application/json",
            f"content-length: {len(content)}",
            "connection: close",
        ]
        if self.status == http.HTTPStatus.SERVICE_UNAVAILABLE:
            lines.append(f"retry-after: {_RETRY_AFTER_S}")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


NO_HTTP = Rejection(
    400,
    DetailedErrorBody(
        "The request is not valid HTTP", [FieldError("request", "It is not valid HTTP.")]
    ),
)
HEAD_TIMED_OUT = Rejection(408, ErrorBody("The request's head did not arrive in time"))
BODY_TIMED_OUT = Rejection(408, ErrorBody("The request's body arrived too slowly"))
HEAD_TOO_LARGE = Rejection(431, ErrorBody("The request's head is too large"))
BODIES_FULL = Rejection(503, ErrorBody("Too many bodies are being read; try again in 1 s"))
CONNECTIONS_FULL = Rejection(503, ErrorBody("Too many connections; try again in 1 s"))
