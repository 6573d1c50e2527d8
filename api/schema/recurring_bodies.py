"""The bodies of answers about recurring schedules, in the names that clients see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from api.schema.bodies import Body, RecurringId, ScheduleId
from api.schema.recurring_fields import REQUEST_SHOWN
from api.schema.shapes import Moment, Shape
from scheduler.durations import format_duration
from scheduler.models import Request
from scheduler.recurrence.recurrence import describe
from scheduler.recurrence.recurring import Rule, RuleState
from scheduler.times import format_iso8601

_HAS_NEXT = (RuleState.ACTIVE, RuleState.BLOCKED)


class Shown(NamedTuple):
    """A rule, and its next times (ms) where they were asked for. `unchanged`: a PUT found it so."""

    rule: Rule
    times_ms: Sequence[int] | None = None
    unchanged: bool = False

    @property
    def request(self) -> Request:
        return self.rule.request

    @property
    def next(self) -> list[str] | None:
        return None if self.times_ms is None else list(map(format_iso8601, self.times_ms))

    @property
    def next_ms(self) -> int | None:
        """Of its next occurrence."""
        return self.rule.slot_ms if self.rule.state in _HAS_NEXT else None


def _duration(ms: int | None) -> str | None:
    return None if ms is None else format_duration(ms)


RECURRING = Shape(
    "RecurringBody",
    {
        "recurringId": (RecurringId, "rule.recurring_id"),
        "name": (str | None, "rule.name"),
        "state": (RuleState, "rule.state"),
        "reason": (str | None, lambda shown: shown.rule.reason or None),
        "paused": (bool, lambda shown: shown.rule.pause is not None),
        "pausedUntil": (Moment | None, "rule.pause.until_ms"),
        "pausedBy": (str | None, "rule.pause.by"),
        "pauseNote": (str | None, "rule.pause.note"),
        "createdAt": (Moment, "rule.created_at_ms"),
        "cron": (str | None, "rule.timing.cron"),
        "every": (str | None, lambda shown: _duration(shown.rule.timing.every_ms)),
        "timeZone": (str, "rule.timing.zone"),
        "startsAt": (Moment | None, "rule.timing.starts_at_ms"),
        "endsAt": (Moment | None, "rule.timing.ends_at_ms"),
        "expiresAfter": (str | None, lambda shown: _duration(shown.rule.timing.expires_after_ms)),
        "description": (str, lambda shown: describe(shown.rule.timing)),
        "nextAt": (Moment | None, "next_ms"),
        "scheduleId": (ScheduleId | None, "rule.schedule_id"),
        "missed": (int, "rule.missed"),
        "next": (list[Moment] | None, "next"),
        **{
            field.name: (
                Annotated[Any, msgspec.Meta(extra_json_schema=field.shown)],
                field.shown_of,
            )
            for field in REQUEST_SHOWN
        },
    },
    "A recurring schedule: its rule, its state, and the request of its occurrences.",
)


SET_RECURRING = Shape(
    "SetRecurringBody",
    {**RECURRING.members, "unchanged": (bool, "unchanged")},
    "The recurring schedule as it is now.",
)


class RecurringListBody(Body, frozen=True):
    recurring: list[RECURRING.type]  # type: ignore[name-defined]
    next_cursor: str | None


class CreatedRecurringBody(Body, frozen=True):
    """A recurring schedule that was stored, with its first occurrence."""

    recurring_id: RecurringId
    schedule_id: ScheduleId | None
    next_at: Moment | None
    message: str


class DeletedRecurringBody(Body, frozen=True):
    recurring_id: RecurringId
    credits_remaining: int
    message: str


class PreviewBody(Body, frozen=True):
    """The next ten times, or as many as there are, and the rule in words."""

    next: list[Moment]
    description: str
