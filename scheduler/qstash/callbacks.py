"""The callback of a message: QStash's report of how it ended, and the request with it. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

import msgspec

from scheduler.masks import masked, masked_url
from scheduler.models import Request, RetryOn, Schedule, Status
from scheduler.qstash.carried import CallbackWay, Carried, opened
from scheduler.qstash.names import canonical, dlq_id, message_id, schedule_id_of
from scheduler.qstash.redacted import redacted
from scheduler.qstash.sent import USER_AGENT
from scheduler.schema import LONGEST_TIMEOUT_S

_encode = msgspec.json.Encoder().encode


def callback_of(ended: Schedule, url: str, due_ms: int) -> Request:
    """The request that reports the end of a message, due then: the same at each attempt."""
    request, carried = ended.request, opened(ended.request.door)
    way = _way(request, carried, failed=ended.status is Status.FAILED)
    return Request(
        due_ms,
        way.method,
        url,
        {"content-type": "application/json", "user-agent": USER_AGENT} | way.headers,
        _encode(_report(ended, carried)),
        retries=request.retries if way.retries is None else way.retries,
        retry_delays_ms=request.retry_delays_ms,
        timeout_s=way.timeout_s or LONGEST_TIMEOUT_S,
        retry_on=RetryOn.ANY,
        door=request.door,
        reference=request.reference,
    )


def callback_delay_ms(request: Request, *, failed: bool) -> int:
    """How long after its end such an end is reported; 0 if it is no message."""
    return _way(request, opened(request.door), failed=failed).delay_ms if request.door else 0


def _way(request: Request, carried: Carried, *, failed: bool) -> CallbackWay:
    """How such an end is reported."""
    wish = request.callback
    has_own = failed and wish is not None and wish.failure_url is not None
    return (carried.failure_callback if has_own else carried.callback) or CallbackWay()


def _report(ended: Schedule, carried: Carried) -> dict[str, Any]:
    """Without an answer `status` is 0, and `body` says why."""
    source, outcome, response = redacted(ended.request, carried), ended.outcome, ended.response
    code, body = (outcome.status_code, b"") if outcome else (0, b"")
    if response is not None:
        body = response.body
    elif outcome and not code:
        body = outcome.error_message.encode()
    report = {
        "status": code,
        "header": _lists(response.headers if response else ()),
        "body": _base64(body),
        "retried": min(max(0, ended.attempts - 1), source.retries),
        "maxRetries": source.retries,
        "sourceMessageId": message_id(ended.schedule_id),
        "url": masked_url(source.url),
        "method": source.method,
        "sourceHeader": _lists(masked(source.headers).items()),
        "sourceBody": _base64(source.body or b""),
        "createdAt": ended.created_at_ms,
        "notBefore": source.trigger_at_ms,
        "scheduleId": schedule_id_of(source.recurring_id, carried.schedule_id),
        "dlqId": dlq_id(ended.schedule_id) if ended.status is Status.FAILED else None,
        "callerIP": carried.caller_ip or None,
    }
    return {name: value for name, value in report.items() if value is not None}


def _lists(headers: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    for name, value in headers:
        lists.setdefault(canonical(name), []).append(value)
    return lists


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
