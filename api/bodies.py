"""Values of the store as the bodies that clients see. Pure."""

from __future__ import annotations

import msgspec

from api.headers import masked
from api.schemas import ABSENT, LogEntryBody, ScheduleBody, TimeRangeBody, UsageBody
from scheduler.ids import invocation_id
from scheduler.models import LogEntry, Schedule, Usage
from scheduler.times import format_iso8601


def usage_body(usage: Usage) -> UsageBody:
    return UsageBody(
        total_invocations=usage.executed,
        successful_invocations=usage.completed,
        failed_invocations=usage.failed,
        average_response_time=usage.average_response_time_ms,
        time_range=TimeRangeBody(format_iso8601(usage.from_ms), format_iso8601(usage.to_ms)),
    )


def schedule_body(schedule: Schedule) -> ScheduleBody:
    """Of a cancelled one there is no outcome; a mask stands for header values that are secret."""
    request, outcome = schedule.request, schedule.outcome
    return ScheduleBody(
        schedule_id=schedule.schedule_id,
        invocation_id=invocation_id(schedule.schedule_id),
        status=schedule.status,
        created_at=format_iso8601(schedule.created_at_ms),
        trigger_at=format_iso8601(request.trigger_at_ms),
        target_url=request.url,
        target_method=request.method,
        target_headers=masked(request.headers),
        target_body=ABSENT if request.body is None else msgspec.Raw(request.body),
        delivery=request.delivery,
        expires_at=_moment(request.expires_at_ms),
        executed_at=_moment(schedule.ended_at_ms) if outcome else None,
        status_code=outcome.status_code if outcome else None,
        response_time_ms=outcome.response_time_ms if outcome else None,
        error_message=outcome.error_message if outcome else None,
    )


def _moment(ms: int | None) -> str | None:
    return None if ms is None else format_iso8601(ms)


def log_entry_body(entry: LogEntry) -> LogEntryBody:
    return LogEntryBody(
        invocation_id=invocation_id(entry.schedule_id),
        schedule_id=entry.schedule_id,
        created_at=format_iso8601(entry.created_at_ms),
        scheduled_at=format_iso8601(entry.scheduled_at_ms),
        executed_at=_moment(entry.executed_at_ms),
        target_url=entry.url,
        target_method=entry.method,
        status=entry.status,
        status_code=entry.status_code,
        response_time_ms=entry.response_time_ms,
        error_message=entry.error_message,
    )
