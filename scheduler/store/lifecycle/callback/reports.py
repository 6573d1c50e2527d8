"""The invocation that reports how a schedule ended: its callback."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.masks import masked_url
from scheduler.models import Invocation, Outcome, Request, Retry, Schedule, Status
from scheduler.store.secrecy import Secrecy
from scheduler.store.stored import Fields, schedule
from scheduler.times import format_iso8601

_RETRIES = 5
_Moment = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
_ENDS = ("completed", "failed")
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
    `targetUrl` are masked."""

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


class ScheduleEnded(msgspec.Struct, frozen=True, gc=False):
    """The report of a schedule's end: the same in all attempts to send it."""

    type: Annotated[str, Meta(extra_json_schema={"enum": [f"schedule.{end}" for end in _ENDS]})]
    timestamp: _Moment
    data: EndedSchedule


def report_of(
    lease: Lease, schedule_id: str, row: Sequence[bytes], url: str, secrecy: Secrecy
) -> Invocation:
    """By what the claim replied of the schedule: request, outcome, and its callback's state. `url`
    is the account's ("": none). Raises Unreadable."""
    packed, outcome, callback = row
    ended = schedule(schedule_id, Fields(packed, outcome, callback=callback), secrecy)
    state, wish = ended.callback, ended.request.callback
    url = (wish.url if wish else None) or url
    if state is None or state.next_attempt_at_ms is None or not url:
        raise Unreadable("It has no callback that is due, or no URL for it")
    due_ms, retry = state.next_attempt_at_ms, None
    if state.attempted_at_ms is not None:
        last = Outcome(
            Status.FAILED, state.status_code, state.response_time_ms, state.error_message
        )
        made = (state.attempts, last, state.attempted_at_ms)
        retry = Retry(state.retry, due_ms, *made, earlier=state.earlier)
    body, reference = report(ended), ended.request.reference
    request = Request(due_ms, "POST", url, body=body, retries=_RETRIES, reference=reference)
    shard, account_id, token, until_s = lease
    what = (shard, account_id, schedule_id, token, state.attempts + 1, until_s, request, due_ms)
    return Invocation(*what, len(body), retry, is_callback=True)


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
            ),
        )
    )


def _or_unset(text: str | None) -> str | UnsetType:
    return UNSET if text is None else text
