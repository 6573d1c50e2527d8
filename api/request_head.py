"""Rules of RFC 9112 for a request's head that the parser leaves to us. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from api.rejection import (
    BAD_HOST,
    BAD_TARGET,
    CODING_IN_1_0,
    UNKNOWN_CODING,
    UNKNOWN_VERSION,
    Rejection,
)

_Headers = Sequence[tuple[bytes, bytes]]

# The grammar allows commas in names, but a proxy may have joined two lines with one.
_HOST = re.compile(
    rb"(\[[0-9a-f:.]+\]|[\w.~!$&'()*+;=-]*(?:%[0-9a-f]{2}[\w.~!$&'()*+;=-]*)*)(?::([0-9]*))?",
    re.IGNORECASE,
)
_URL = re.compile(rb"(https?)://([^/?]+)([^#]*)", re.IGNORECASE)
_DEFAULT_PORTS = {b"http": b"80", b"https": b"443"}


def path_of(version: str, method: bytes, target: bytes, headers: _Headers) -> bytes | Rejection:
    """The path and query that are asked for, or why the request is refused. `headers` have
    lower-case names."""
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
    """A URL has to name the same host as the Host header, which decides what is answered."""
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
