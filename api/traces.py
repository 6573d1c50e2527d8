"""The trace that a create is part of (https://www.w3.org/TR/trace-context/): kept with the schedule
if it is sampled, so that its fire, perhaps years later, can be linked to it."""

from __future__ import annotations

import re

import msgspec
from litestar.types import Scope

from api.reading import header
from api.service import Service
from scheduler.models import Request

_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1


def sampled(traceparent: bytes | None) -> bytes | None:
    """Trace id and span id, 24 bytes; None unless it is well formed and sampled: the specification
    ignores all others. Pure."""
    match = _TRACEPARENT.fullmatch(traceparent or b"")
    if match is None or match[1] == b"ff" or (match[1] == b"00" and match[5]):
        return None
    if not int(match[4], 16) & _SAMPLED or not int(match[2], 16) or not int(match[3], 16):
        return None
    return bytes.fromhex((match[2] + match[3]).decode())


def traced(request: Request, service: Service, scope: Scope) -> Request:
    """The request with its trace, where fires are traced."""
    if service.settings.trace_ratio is None:
        return request
    trace = sampled(header(scope, b"traceparent"))
    return request if trace is None else msgspec.structs.replace(request, trace=trace)


def trace_id_of(scope: Scope) -> dict[str, str]:
    """For a line of the log: `trace_id` where the request is part of a trace, sampled or not."""
    match = _TRACEPARENT.fullmatch(header(scope, b"traceparent") or b"")
    return {} if match is None else {"trace_id": match[2].decode()}
