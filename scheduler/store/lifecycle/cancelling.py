"""Cancelling one schedule: what the script is told, and what came of it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from scheduler import ids
from scheduler.models import Retry
from scheduler.rollups import buckets_of
from scheduler.store import stored
from scheduler.store.log.entries import entry, pack_chunk, url_place
from scheduler.store.retention import Retention
from scheduler.store.secrecy import Secrecy
from scheduler.store.server.line import Argument


class Cancelled(NamedTuple):
    """The credits that are left; and, if it was stopped after an attempt, what that came to. Only
    one that was not attempted had its credit given back."""

    credits: int
    stopped: Retry | None = None

    @classmethod
    def of(cls, found: stored.Fields, credits: int) -> Cancelled:
        return cls(credits, stored.unpack_attempt(found.attempt) if found.attempt else None)


def cancelling(
    schedule_id: str, operation: str, found: stored.Fields, kept: Retention, secrecy: Secrecy
) -> list[Argument]:
    """Of a schedule as it was read: what `stop.lua` is told if it was attempted, else `cancel.lua`;
    they say in which order."""
    request = stored.open_request(found.packed, secrecy)
    what: list[Argument] = [ids.local(schedule_id), operation]
    if found.attempt:
        retry = stored.unpack_attempt(found.attempt)
        told = (retry.outcome, retry.lateness_ms, retry.attempts)
        response_ms = retry.outcome.response_time_ms
        what += (found.attempt, found.packed, stored.pack_outcome(*told))
        what += (pack_chunk([entry(schedule_id, request, *told)]), *url_place(request.url))
        what += (response_ms, kept.schedule_ms, kept.log_ms, kept.log_entries, kept.seconds_ms)
        what += (kept.failed_kept_ms, kept.failed_ms, kept.failed_most)
        return what + buckets_of(response_ms, retry.lateness_ms)
    outcome, kept_of_it = stored.seal_cancelled(request, secrecy)
    what += (found.packed, outcome, kept.schedule_ms, kept.log_ms, kept.log_entries)
    what += (pack_chunk([entry(schedule_id, request, None)]), *url_place(request.url), kept_of_it)
    return what
