"""A stored request to the bytes on the wire. Pure."""

from __future__ import annotations

import functools

from scheduler.models import BodyKind, Delivery, Request
from scheduler.qstash.sent import USER_AGENT
from scheduler.runtime.version import version
from scheduler.target.http import FRAMING, LINE_BREAK, METHODS, TOKEN
from scheduler.target.short_texts import spelt_headers
from scheduler.target.targets import Target
from scheduler.times import format_iso8601

AT_MOST_ONCE = Delivery.AT_MOST_ONCE  # an enum's member takes a tenth of a microsecond to look up
_USER_AGENT_LINE = f"User-Agent: Postdate/{version()}\r\n".encode()
_WITH_LENGTH = frozenset({"POST", "PUT", "PATCH"})
_OWN = (
    b"Postdate-Schedule-Id: %b\r\n"
    b"Postdate-Invocation-Id: inv_%b\r\n"
    b"Postdate-Attempt: %d\r\n"
    b"Postdate-Trigger-At: %b\r\n%b\r\n"
)
# A callback is no call of the invocation, and has its own id. Neither id may be taken for the other
# by a receiver that drops repeats.
_OWN_OF_CALLBACK = b"Postdate-Schedule-Id: %b\r\nPostdate-Attempt: %d\r\n%b\r\n"


def render(
    target: Target,
    request: Request,
    schedule_id: str,
    attempt: int,
    signed: bytes = b"",
    is_callback: bool = False,  # a keyword costs each fire
) -> bytes:
    """The HTTP/1.1 request, whole, head and body. `signed` are the lines of its signature.

    Raises ValueError if a header could end its line early (CR, LF, NUL) or frames the request, or
    if the method is none of ours: something else than the API may have stored it.
    """
    body = request.body
    kind = None if body is None else request.body_kind
    method, headers = request.method, tuple(request.headers.items())
    shared = _shared(method, target.host_header, headers, kind)
    start = f"{method} {target.path}".encode("ascii") + shared
    schedule = schedule_id.encode("ascii")
    reference = b""
    if request.reference is not None:
        reference = _line("Postdate-Reference", request.reference)
    if is_callback:
        own = _OWN_OF_CALLBACK % (schedule, attempt, reference)
    else:
        moment = _moment(request.trigger_at_ms)
        own = _OWN % (schedule, schedule[4:], attempt, moment, reference)
    # Its connection is for this one request; a target that knows closes it first.
    close = b"Connection: close\r\n" if request.delivery is AT_MOST_ONCE else b""
    if body is None:
        return b"%b%b%b%b" % (start, close, signed, own)
    return b"%b%bContent-Length: %d\r\n%b%b%b" % (start, close, len(body), signed, own, body)


# Requests fired together are mostly due at the same millisecond.
@functools.lru_cache(maxsize=1024)
def _moment(ms: int) -> bytes:
    return format_iso8601(ms).encode("ascii")


# Each may have 16 KiB of headers.
@functools.lru_cache(maxsize=256)
def _shared(
    method: str, host_header: str, headers: tuple[tuple[str, str], ...], kind: BodyKind | None
) -> bytes:
    """All that requests to one host mostly share, whatever their paths: the end of the request
    line, the caller's headers in their order, then the defaults for those that it did not set.
    Headers may be short, as they are stored."""
    if method not in METHODS:
        raise ValueError("The method is not one that is fired.")
    start = f" HTTP/1.1\r\nHost: {host_header}\r\n".encode("ascii")
    length = b"Content-Length: 0\r\n" if method in _WITH_LENGTH and kind is None else b""
    return start + _header_lines(spelt_headers(dict(headers)), kind) + length


def _header_lines(headers: dict[str, str], kind: BodyKind | None) -> bytes:
    names = set(map(str.lower, headers))
    # Refused at POST as well; here one would let a stored request smuggle a second one.
    if not names.isdisjoint(FRAMING):
        raise ValueError("A header frames the request.")
    lines = [_line(name, value) for name, value in headers.items()]
    # A message of the QStash door has the type that it came with, or none.
    if kind is not None and "content-type" not in names and USER_AGENT not in headers.values():
        lines.append(_line("Content-Type", kind.content_type))
    if "user-agent" not in names:
        lines.append(_USER_AGENT_LINE)
    if "accept" not in names:
        lines.append(b"Accept: */*\r\n")
    return b"".join(lines)


def _line(name: str, value: str) -> bytes:
    """Latin-1, as HTTP has it, or else UTF-8."""
    if TOKEN.fullmatch(name) is None or LINE_BREAK.search(value):
        raise ValueError("A header could end its line early.")
    line = f"{name}: {value}\r\n"
    try:
        return line.encode("latin-1")
    except UnicodeEncodeError:
        return line.encode()
