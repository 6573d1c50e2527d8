"""The invocation that reports how a schedule ended: its callback."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.masks import masked_url
from scheduler.models import Invocation, Outcome, Request, Retry, Schedule, Status
from scheduler.qstash.callbacks import callback_of
from scheduler.store.secrecy import Secrecy
from scheduler.store.stored import Fields, schedule
from scheduler.times import format_iso8601

_RETRIES = 5
_Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
_ENDS = ("completed", "failed")
_Code = Annotated[str, Meta(extra_json_schema={"enum": ["utf-8", "base64"]})]
_encode = msgspec.json.Encoder().encode


class Lease(NamedTuple):
    """The fields that all claimed callbacks of an account share, as in `Invocation`."""

    shard: int
    account_id: str
    token: str
    lease_until_s: float


class EndedSchedule(msgspec.Struct, rename="camel", frozen=True, gc=False, kw_only=True):
    """How a schedule ended. `recurringId`, `lane`, `reference` and `labels` are there if it has
    them; `statusCode` is 0 without an answer, and `errorMessage` says why it failed. Secrets in
    `targetUrl` are masked. With `callbackInclude` it has the target's answer, if one came;
    with `responseDropped`, one came and is not kept."""

    schedule_id: str
    invocation_id: str
    recurring_id: str | UnsetType = UNSET
    lane: str | UnsetType = UNSET
    reference: str | UnsetType = UNSET
    labels: tuple[str, ...] | UnsetType = UNSET
    target_url: str
    target_method: str
    trigger_at: _Moment
    executed_at: _Moment
    status: Annotated[str, Meta(extra_json_schema={"enum": [*_ENDS]})]
    status_code: int
    response_time_ms: int
    error_message: str
    attempts: int
    response_headers: dict[str, list[str]] | UnsetType = UNSET
    response_body: str | UnsetType = UNSET
    response_body_encoding: _Code | UnsetType = UNSET
    response_cut: bool | UnsetType = UNSET
    response_dropped: bool | UnsetType = UNSET


class ScheduleEnded(msgspec.Struct, frozen=True, gc=False):
    """The report of a schedule's end: the same in all attempts to send it."""

    type: Annotated[str, Meta(extra_json_schema={"enum": [f"schedule.{end}" for end in _ENDS]})]
    timestamp: _Moment
    data: EndedSchedule


def report_of(
    lease: Lease, schedule_id: str, row: Sequence[bytes], url: str, secrecy: Secrecy
) -> Invocation:
    """By what the claim replied of the schedule: request, outcome, its callback's state, and the
    target's answer ("": none). `url` is the account's ("": none). Raises Unreadable."""
    packed, outcome, callback, response = row
    fields = Fields(packed, outcome, callback=callback, response=response or None)
    ended = schedule(schedule_id, fields, secrecy)
    state, wish = ended.callback, ended.request.callback
    url = (wish.url_of(failed=ended.status is Status.FAILED) if wish else None) or url
    if state is None or state.next_attempt_at_ms is None or not url:
        raise Unreadable("It has no callback that is due, or no URL for it")
    due_ms, retry = state.next_attempt_at_ms, None
    if state.attempted_at_ms is not None:
        last = Outcome(
            Status.FAILED, state.status_code, state.response_time_ms, state.error_message
        )
        made = (state.attempts, last, state.attempted_at_ms)
        retry = Retry(state.retry, due_ms, *made, earlier=state.earlier)
    request = request_of(ended, url, due_ms)
    shard, account_id, token, until_s = lease
    what = (shard, account_id, schedule_id, token, state.attempts + 1, until_s, request, due_ms)
    return Invocation(*what, len(request.body or b""), retry, is_callback=True)


def request_of(ended: Schedule, url: str, due_ms: int) -> Request:
    """The request that reports it, due then: the same at each attempt."""
    if ended.request.door is not None:
        return callback_of(ended, url, due_ms)
    body, reference = report(ended), ended.request.reference
    return Request(due_ms, "POST", url, body=body, retries=_RETRIES, reference=reference)


def report(ended: Schedule) -> bytes:
    """The report of an ended schedule, in JSON: the same at each attempt. Secrets in the
    target's URL are masked, as in the answers of the API."""
    request, outcome = ended.request, ended.outcome
    if outcome is None or ended.ended_at_ms is None:
        raise Unreadable("It has no outcome")
    ended_at = format_iso8601(ended.ended_at_ms)
    return _encode(
        ScheduleEnded(
            type=f"schedule.{ended.status}",
            timestamp=ended_at,
            data=EndedSchedule(
                schedule_id=ended.schedule_id,
                invocation_id=ids.invocation_id(ended.schedule_id),
                recurring_id=_or_unset(request.recurring_id),
                lane=_or_unset(request.lane),
                reference=_or_unset(request.reference),
                labels=request.labels or UNSET,
                target_url=masked_url(request.url),
                target_method=request.method,
                trigger_at=format_iso8601(request.trigger_at_ms),
                executed_at=ended_at,
                status=ended.status,
                status_code=outcome.status_code,
                response_time_ms=outcome.response_time_ms,
                error_message=outcome.error_message,
                attempts=ended.attempts,
                **_answer_in(ended),
            ),
        )
    )


def _answer_in(ended: Schedule) -> dict[str, Any]:
    """What its report says of the target's answer."""
    request, outcome, response = ended.request, ended.outcome, ended.response
    if response is None:
        wanted = request.callback is not None and request.callback.with_response
        is_gone = wanted and outcome is not None and outcome.status_code > 0
        return {"response_dropped": True} if is_gone else {}
    headers: dict[str, list[str]] = {}
    for name, value in response.headers:
        headers.setdefault(name.lower(), []).append(value)
    said: dict[str, Any] = {"response_headers": headers, "response_cut": response.cut}
    try:
        body, code = response.body.decode(), "utf-8"
    except UnicodeDecodeError:
        body, code = b64encode(response.body).decode(), "base64"
    return said | {"response_body": body, "response_body_encoding": code}


def _or_unset(text: str | None) -> str | UnsetType:
    return UNSET if text is None else text
