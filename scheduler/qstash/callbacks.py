"""The callback of a message: QStash's report of how it ended, and the request with it. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any

import msgspec

from scheduler.callbacks import Callback
from scheduler.masks import masked, masked_url
from scheduler.models import Request, RetryOn, Schedule, Status
from scheduler.qstash.carried import CallbackWay, Carried, opened
from scheduler.qstash.names import canonical, dlq_id, message_id, schedule_id_of
from scheduler.qstash.redacted import redacted
from scheduler.qstash.sent import USER_AGENT
from scheduler.schema import LONGEST_TIMEOUT_S

_encode = msgspec.json.Encoder().encode


def callback_of(ended: Schedule, url: str, due_ms: int) -> Request:
    """The request that reports the end of a message, due then: the same at each attempt. It is
    tried as often as the message, unless the caller said how often. Raises ValueError if `door` is
    damaged."""
    request, carried = ended.request, opened(ended.request.door) or Carried()
    way = way_of(carried, request.callback, failed=ended.status is Status.FAILED)
    own = {"content-type": "application/json", "user-agent": USER_AGENT}
    headers = own | {name.lower(): value for name, value in way.headers.items()}
    return Request(
        due_ms,
        way.method,
        url,
        headers,
        _encode(_report(ended, carried)),
        retries=request.retries if way.retries is None else way.retries,
        retry_delays_ms=request.retry_delays_ms,
        timeout_s=way.timeout_s or LONGEST_TIMEOUT_S,
        retry_on=RetryOn.ANY,
        door=request.door,
        reference=request.reference,
    )


def callback_delay_ms(request: Request, *, failed: bool) -> int:
    """How long after its end such an end is reported; 0 if it is no message, or damaged."""
    if request.door is None:
        return 0
    try:
        carried = opened(request.door) or Carried()
    except ValueError:
        return 0
    return way_of(carried, request.callback, failed=failed).delay_ms


def way_of(carried: Carried, wish: Callback | None, *, failed: bool) -> CallbackWay:
    """How such an end is reported."""
    has_own = failed and wish is not None and wish.failure_url is not None
    return (carried.failure_callback if has_own else carried.callback) or CallbackWay()


def _report(ended: Schedule, carried: Carried) -> dict[str, Any]:
    """Without an answer `status` is 0, and `body` says why."""
    source, outcome, response = redacted(ended.request, carried), ended.outcome, ended.response
    code = outcome.status_code if outcome else 0
    body = response.body if response else b""
    if outcome is not None and not code:
        body = outcome.error_message.encode()
    report: dict[str, Any] = {
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
    }
    if schedule_id := schedule_id_of(source.recurring_id, carried.schedule_id):
        report["scheduleId"] = schedule_id
    if ended.status is Status.FAILED:
        report["dlqId"] = dlq_id(ended.schedule_id)
    if carried.caller_ip:
        report["callerIP"] = carried.caller_ip
    return report


def _lists(headers: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    lists: dict[str, list[str]] = {}
    for name, value in headers:
        lists.setdefault(canonical(name), []).append(value)
    return lists


def _base64(data: bytes) -> str:
    return b64encode(data).decode()
