"""The grammar of HTTP that both ends share: the API refuses requests by it, and the worker renders
them by it, so that no stored request can break a connection's framing. Pure."""

from __future__ import annotations

import re

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")

# They decide where a request ends, or what the connection does.
FRAMING = frozenset({"host", "content-length", "transfer-encoding", "connection"})
# What belongs to the connection, and so to the worker alone; in lower case.
RESERVED = FRAMING | {"keep-alive", "te", "trailer", "upgrade", "expect"}
RESERVED_PREFIXES = ("proxy-", "postdate-", "webhook-")

TOKEN_PATTERN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"  # noqa: S105  # the grammar's word
TOKEN = re.compile(TOKEN_PATTERN)
# Latin-1 without control characters: every receiver reads one character for each of these.
VALUE_PATTERN = r"[ -~\u00a0-\u00ff]*"
VALUE = re.compile(VALUE_PATTERN)
LINE_BREAK = re.compile(r"[\r\n\0]")
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def is_reserved(lower_name: str) -> bool:
    """Whether a header of this lower-case name is set by Postdate alone."""
    return lower_name in RESERVED or lower_name.startswith(RESERVED_PREFIXES)
