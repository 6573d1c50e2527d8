"""Cancelling one schedule: what the script is told, and what came of it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from scheduler import ids
from scheduler.models import Retry, Status
from scheduler.rollups import buckets_of
from scheduler.store.line import Argument
from scheduler.store.log.entries import entry, pack_chunk, url_place
from scheduler.store.retention import Retention
from scheduler.store.schedules import stored


class Cancelled(NamedTuple):
    """The credits that are left; and, if it was stopped after an attempt, what that came to. Only
    one that was not attempted had its credit given back."""

    credits: int
    stopped: Retry | None = None

    @classmethod
    def of(cls, found: stored.Fields, credits: int) -> Cancelled:
        return cls(credits, stored.unpack_attempt(found.attempt) if found.attempt else None)


def cancelling(
    schedule_id: str, operation: str, found: stored.Fields, kept: Retention
) -> list[Argument]:
    """Of a schedule as it was read; `cancel.lua` says in which order."""
    request = stored.unpack_request(found.packed)
    outcome, logged = stored.CANCELLATION, entry(schedule_id, request, None)
    status, kept_ms = Status.CANCELLED, kept.schedule_ms
    counted: list[Argument] = []
    if found.attempt:
        retry = stored.unpack_attempt(found.attempt)
        told = (retry.outcome, retry.lateness_ms, retry.attempts)
        outcome, logged = stored.pack_outcome(*told), entry(schedule_id, request, *told)
        status, kept_ms = Status.FAILED, kept.failed_kept_ms
        response_ms = retry.outcome.response_time_ms
        counted = [kept.failed_ms, kept.failed_most, kept.schedule_ms, response_ms]
        counted += buckets_of(response_ms, retry.lateness_ms)
    return [
        ids.local(schedule_id),
        operation,
        found.packed,
        found.attempt or b"",
        outcome,
        kept_ms,
        kept.log_ms,
        kept.log_entries,
        kept.seconds_ms,
        pack_chunk([logged]),
        status.value,
        *url_place(request.url),
        *counted,
    ]
