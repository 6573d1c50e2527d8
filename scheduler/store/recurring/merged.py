"""The request of an occurrence after a change of its rule. Pure."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from scheduler.models import Occurrence, Request, usual_method
from scheduler.recurrence.recurrence import Timing

_ALONE = (
    *("url", "headers", "delivery", "retry_on", "timeout_s", "callback"),
    *("lane", "reference", "labels", "door"),
)
# Fields that have a meaning together only.
_TOGETHER = (("body", "body_kind"), ("retries", "retry_delays_ms"))
_GROUPS = (*((name,) for name in _ALONE), *_TOGETHER)


def merged(now: Request, before: Request, after: Request) -> Request:
    """`now` with what differs between two requests of its rule. What its owner has set on the
    occurrence itself stays."""
    fields: dict[str, Any] = {}
    for names in _GROUPS:
        values = [getattr(after, name) for name in names]
        if values != [getattr(before, name) for name in names]:
            fields |= zip(names, values, strict=True)
    if _given_method(before) != _given_method(after):
        fields |= {"method": after.method, "method_given": after.method_given}
    request = replace(now, **fields)
    if request.method_given:
        return request
    return replace(request, method=usual_method(request.body))


def timed_anew(
    now: Request, times: tuple[Timing, Timing], slot_ms: int, trigger_at_ms: int
) -> Request:
    """`now` at another time. Its expiresAt moves with it, unless `expiresAfter` differs between the
    two timings of the rule."""
    before_ms, after_ms = (each.expires_after_ms for each in times)
    expires_at_ms = now.expires_at_ms
    if after_ms != before_ms:
        expires_at_ms = None if after_ms is None else trigger_at_ms + after_ms
    elif expires_at_ms is not None:
        expires_at_ms += trigger_at_ms - now.trigger_at_ms
    assert now.recurring is not None
    mark = Occurrence(now.recurring.recurring_id, slot_ms)
    return replace(now, trigger_at_ms=trigger_at_ms, expires_at_ms=expires_at_ms, recurring=mark)


def _given_method(request: Request) -> str | None:
    return request.method if request.method_given else None
