"""How long and how much is kept."""

from __future__ import annotations

from typing import NamedTuple

from scheduler.rollups import DAY_MS, HOUR_MS, MINUTE_MS, SECONDS_KEPT_MS
from scheduler.runtime.settings import Settings


class Retention(NamedTuple):
    """As scripts get it: a day longer than promised, and reads are clipped to the promise. An ended
    schedule is kept a minute at least, so that a repeated create finds it; a failed one, a dead
    letter for `failed_ms`, no shorter. `quotas`: plan, and most bytes of its schedules, by turns.
    """

    schedule_ms: int
    log_ms: int
    log_entries: int
    seconds_ms: int
    promised_log_ms: int
    failed_ms: int
    failed_kept_ms: int
    failed_most: int
    quotas: tuple[str | int, ...]

    @classmethod
    def of(cls, settings: Settings) -> Retention:
        schedule_ms = max(settings.schedule_retention_hours * HOUR_MS, MINUTE_MS)
        failed_ms = settings.failed_retention_hours * HOUR_MS
        log_ms = settings.log_retention_days * DAY_MS
        return cls(
            schedule_ms=schedule_ms,
            log_ms=log_ms + DAY_MS,
            log_entries=settings.log_max_entries,
            seconds_ms=SECONDS_KEPT_MS + HOUR_MS,
            promised_log_ms=log_ms,
            failed_ms=failed_ms,
            failed_kept_ms=max(failed_ms, schedule_ms),
            failed_most=settings.failed_max,
            quotas=tuple(each for quota in settings.stored_bytes.items() for each in quota),
        )
