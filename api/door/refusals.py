"""Answers of a connection itself, which then closes, and the rules of RFC 9112 for a request's head
that the parser leaves to us. Pure."""

from __future__ import annotations

import http
import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from api.limits import MAX_TARGET_BYTES
from api.schema.bodies import DetailedErrorBody, ErrorBody
from scheduler.errors import FieldError, Reason

_Headers = Sequence[tuple[bytes, bytes]]

# The grammar allows commas in names, but a proxy may have joined two lines with one.
_HOST = re.compile(
    rb"(\[[0-9a-f:.]+\]|[\w.~!$&'()*+;=-]*(?:%[0-9a-f]{2}[\w.~!$&'()*+;=-]*)*)(?::([0-9]*))?",
    re.IGNORECASE,
)
_URL = re.compile(rb"(https?)://([^/?]+)([^#]*)", re.IGNORECASE)
_DEFAULT_PORTS = {b"http": b"80", b"https": b"443"}


class Rejection(NamedTuple):
    """A status, and the parts of an error body as all others have it."""

    status: int
    reason: Reason
    sentence: str
    details: tuple[FieldError, ...] = ()

    def response(self, request_id: str) -> bytes:
        said = self.sentence, self.reason, request_id
        body = DetailedErrorBody(*said, list(self.details)) if self.details else ErrorBody(*said)
        content = msgspec.json.encode(body)
        lines = [
            f"HTTP/1.1 {self.status} {http.HTTPStatus(self.status).phrase}",
            "content-type: application/json",
            f"content-length: {len(content)}",
            f"postdate-request-id: {request_id}",
            "connection: close",
        ]
        if self.status in (429, 503):
            lines.append("retry-after: 1")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def _malformed(field: str, message: str) -> Rejection:
    details = (FieldError(field, message),)
    return Rejection(400, Reason.MALFORMED_REQUEST, "The request is not valid HTTP", details)


NO_HTTP = _malformed("request", "It is not valid HTTP.")
UNKNOWN_VERSION = _malformed("request", "Its version must be HTTP/1.1 or HTTP/1.0.")
BAD_HOST = _malformed("Host", "It must be given once, as a host with or without a port.")
BAD_TARGET = _malformed("request", "Its target must be a path, or a URL of the host in Host.")
CODING_IN_1_0 = _malformed("Transfer-Encoding", "HTTP/1.0 has no transfer codings.")
BAD_TRAILER = _malformed("trailer", "It may not have fields of the connection.")
HEAD_TIMED_OUT = Rejection(408, Reason.TIMEOUT, "The request's head did not arrive in time")
BODY_TIMED_OUT = Rejection(408, Reason.TIMEOUT, "The request's body arrived too slowly")
TARGET_TOO_LONG = Rejection(
    414,
    Reason.TOO_LARGE,
    f"The request's path and query are longer than {MAX_TARGET_BYTES:,} bytes",
)
PIPELINE_FULL = Rejection(429, Reason.OVERLOADED, "Too many requests wait on this connection")
HEAD_TOO_LARGE = Rejection(431, Reason.TOO_LARGE, "The request's head is too large")
UNKNOWN_CODING = Rejection(
    501, Reason.UNSUPPORTED_ENCODING, "The only transfer coding that is read is chunked"
)
BODIES_FULL = Rejection(503, Reason.OVERLOADED, "Too many bodies are being read; try again in 1 s")
CONNECTIONS_FULL = Rejection(503, Reason.OVERLOADED, "Too many connections; try again in 1 s")


def path_of(version: str, method: bytes, target: bytes, headers: _Headers) -> bytes | Rejection:
    """The path and query, or why the request is refused. `headers` have lower-case names."""
    if version not in ("1.0", "1.1"):
        return UNKNOWN_VERSION
    host = _host_of(version, headers)
    if isinstance(host, Rejection):
        return host
    if method == b"CONNECT" or b"#" in target:
        return BAD_TARGET
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        return target
    return _path_of_url(target, host)


def _host_of(version: str, headers: _Headers) -> bytes | Rejection | None:
    """The only Host line; HTTP/1.0 may have none."""
    host = None
    for name, value in headers:
        if name == b"host":
            if host is not None:
                return BAD_HOST
            host = value
        elif name == b"transfer-encoding":
            if version == "1.0":
                return CODING_IN_1_0
            if value.lower() != b"chunked":
                return UNKNOWN_CODING
    if not _HOST.fullmatch(host or b"") or (host is None and version == "1.1"):
        return BAD_HOST
    return host


def _path_of_url(target: bytes, host: bytes | None) -> bytes | Rejection:
    """A URL has to name the same host as the Host header, which decides the answer."""
    url = _URL.fullmatch(target)
    if url is None:
        return BAD_TARGET
    scheme, authority, path = url.groups()
    named = _authority(authority, scheme)
    if named is None or (host is not None and _authority(host, scheme) != named):
        return BAD_TARGET
    return path if path.startswith(b"/") else b"/" + path


def _authority(text: bytes, scheme: bytes) -> tuple[bytes, bytes] | None:
    """Host and port in one spelling."""
    found = _HOST.fullmatch(text)
    if found is None or not found[1]:
        return None
    return found[1].lower(), found[2] or _DEFAULT_PORTS[scheme.lower()]
