"""What a line of the log is about."""

from __future__ import annotations

from scheduler.models import Invocation

_TRACE_ID_BYTES = 16


def subject(invocation: Invocation) -> dict[str, str]:
    """Its schedule, and `trace_id` where its create was part of a sampled trace: the same as the
    API's lines have, so that one search finds both."""
    trace = invocation.request.trace
    fields = {"schedule": invocation.schedule_id}
    return fields if trace is None else fields | {"trace_id": trace[:_TRACE_ID_BYTES].hex()}
