"""Reading a request off the wire: its Idempotency-Key, its trace, its body within a limit."""

from __future__ import annotations

import hashlib
import re
from typing import Any, TypeVar, cast

import msgspec
from litestar.types import Receive, Scope

from api.limits import made_of
from api.schema.findings import invalid
from scheduler.errors import FieldError, PostdateError, Reason
from scheduler.models import Idempotency, Request, Upsert
from scheduler.runtime.pause import Pause
from scheduler.runtime.settings import Settings

W = TypeVar("W", Request, Upsert, Request | Upsert)

# In a scope, a weak reference to its connection, which keeps the scope.
CONNECTION = "postdate.connection"
# In a scope, the process's budget for objects made of bodies, and this request's part of it.
BUDGET, _MADE = "postdate.budget", "postdate.made_bytes"
# In a scope, what the fast path knows of the request: its head, and the error of its create.
HEAD, REFUSAL = "postdate.head", "postdate.refusal"
# The header of a repeated answer to the same Idempotency-Key.
REPLAYED = {"idempotency-replayed": "true"}
# https://www.w3.org/TR/trace-context/
_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1
# Judging a body of this size costs about as little as refusing it unread.
SMALL_BYTES = 16 * 1024
# Of a body, in which commas are counted at once: most have as many as matter near their beginning.
_COUNTED_BYTES = 8 * 1024
# Of a digest, between two looks at the clock.
_DIGESTED_BYTES = 128 * 1024
_KEY_NAME, _KEY = b"idempotency-key", re.compile(rb"[!-~]{1,255}")


class BodyTooLarge(PostdateError):
    """The body is, or says that it is, larger than `limit_bytes`."""

    reason = Reason.TOO_LARGE

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"The request body is larger than {limit_bytes:,} bytes")


class BodyEncoded(PostdateError):
    """Compressed bodies are not supported."""

    reason = Reason.UNSUPPORTED_ENCODING


class ClientDisconnected(PostdateError):
    """The client went away before its request was complete; the answer is for the log."""

    reason = Reason.MALFORMED_REQUEST


def header(scope: Scope, name: bytes) -> bytes | None:
    """The first header of this lower-case name."""
    for key, value in scope["headers"]:
        if key == name:
            return value
    return None


def idempotency(scope: Scope, data: bytes) -> Idempotency | None:
    """The request's Idempotency-Key and a digest of what it asks for; None if it has no key.

    Raises InvalidRequest for a malformed key, or several.
    """
    key = _idempotency_key(scope)
    return None if key is None else Idempotency(key, _digest_of(scope, data).hexdigest())


async def idempotency_of_large(scope: Scope, data: bytes) -> Idempotency | None:
    """The same, with pauses: the digest of the largest body takes 30 ms."""
    key = _idempotency_key(scope)
    if key is None:
        return None
    digest, pause = _digest_of(scope), Pause()
    for start in range(0, len(data), _DIGESTED_BYTES):
        digest.update(data[start : start + _DIGESTED_BYTES])
        if pause.is_due:
            await pause.take()
    return Idempotency(key, digest.hexdigest())


def _digest_of(scope: Scope, data: bytes = b"") -> hashlib._Hash:
    return hashlib.sha256(scope["path"].encode() + b"\0" + data)


def _idempotency_key(scope: Scope) -> str | None:
    key = header(scope, _KEY_NAME)
    if key is None:
        return None
    if _KEY.fullmatch(key) is None:
        message = "It must have 1 to 255 visible ASCII characters."
        raise invalid([FieldError("Idempotency-Key", message)])
    if sum(name == _KEY_NAME for name, _ in scope["headers"]) > 1:
        raise invalid([FieldError("Idempotency-Key", "It may be given only once.")])
    return key.decode("ascii")


def is_small(scope: Scope) -> bool:
    """Whether reading the body, and judging it, costs about as little as refusing it."""
    length = header(scope, b"content-length") or b""
    plain = header(scope, b"content-encoding") is None
    return plain and length.isdigit() and int(length[:20]) <= SMALL_BYTES


async def read_body(scope: Scope, receive: Receive, limit_bytes: int, most_items: int = 1) -> bytes:
    """The whole body, whatever its Content-Type says, so that a plain `curl -d` works. Returns when
    there is room for the objects made of it, for as many items as it may have; the request keeps
    the room until it is answered.

    Raises BodyTooLarge as soon as it is known to be, before more is read; BodyEncoded.
    """
    encoding = header(scope, b"content-encoding")
    if encoding is not None and encoding.strip().lower() not in (b"", b"identity"):
        raise BodyEncoded("The request body has a Content-Encoding; send it without one")
    declared = header(scope, b"content-length")
    if declared is not None and declared.isdigit() and int(declared[:20]) > limit_bytes:
        raise BodyTooLarge(limit_bytes)
    body = bytearray()
    more = True
    while more:
        event = await receive()
        if event["type"] != "http.request":
            raise ClientDisconnected("The request was not complete")
        body += event["body"]
        if len(body) > limit_bytes:
            raise BodyTooLarge(limit_bytes)
        more = event["more_body"]
    items = 1 + (_commas(body, most_items - 1) if most_items > 1 else 0)
    made_bytes, noted = made_of(len(body), items), cast("dict[str, Any]", scope)
    if made_bytes and BUDGET in noted:  # once a request: to hold room and wait for more deadlocks
        await noted[BUDGET].wait_for(made_bytes)
        noted[_MADE] = made_bytes
    return bytes(body)


def _commas(body: bytearray, most: int) -> int:
    """How many there are, up to so many: to count them all may take milliseconds."""
    found = 0
    for start in range(0, len(body), _COUNTED_BYTES):
        found += body.count(b",", start, start + _COUNTED_BYTES)
        if found >= most:
            return most
    return found


def end(scope: Scope) -> None:
    """To be called when a request was carried out: gives back what its body held."""
    noted = cast("dict[str, Any]", scope)
    if _MADE in noted:
        noted[BUDGET].give_back(noted.pop(_MADE))
    if (connection := connection_of(scope)) is not None:
        connection.request_ended()


def connection_of(scope: Scope) -> Any:
    reference = cast("dict[str, Any]", scope).get(CONNECTION)
    return reference and reference()


def forget_body(scope: Scope) -> None:
    """Drops the body of this request while its answer waits for its turn. Safe to repeat."""
    if (connection := connection_of(scope)) is not None:
        connection.forget_body()


def sampled(traceparent: bytes | None) -> bytes | None:
    """Trace id and span id, 24 bytes; None unless well formed, as specified, and sampled. Pure."""
    match = _TRACEPARENT.fullmatch(traceparent or b"")
    if match is None or match[1] == b"ff" or (match[1] == b"00" and match[5]):
        return None
    if not int(match[4], 16) & _SAMPLED or not int(match[2], 16) or not int(match[3], 16):
        return None
    return bytes.fromhex((match[2] + match[3]).decode())


def trace_of(settings: Settings, scope: Scope) -> bytes | None:
    """The trace of this request, where fires are traced."""
    return None if settings.trace_ratio is None else sampled(header(scope, b"traceparent"))


def traced(wanted: W, settings: Settings, scope: Scope) -> W:
    """The request with its trace."""
    return with_trace(wanted, trace_of(settings, scope))


def with_trace(wanted: W, trace: bytes | None) -> W:
    if trace is None:
        return wanted
    if isinstance(wanted, Upsert):
        return wanted._replace(request=msgspec.structs.replace(wanted.request, trace=trace))
    return msgspec.structs.replace(wanted, trace=trace)


def trace_id_of(scope: Scope) -> dict[str, str]:
    """For a line of the log: `trace_id` where the request is part of a trace, sampled or not."""
    match = _TRACEPARENT.fullmatch(header(scope, b"traceparent") or b"")
    return {} if match is None else {"trace_id": match[2].decode()}
