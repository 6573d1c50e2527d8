"""Recurring schedules: a rule, and the request that it makes an occurrence of at each of its times.
Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from scheduler.events import Kind
from scheduler.lane_settings import Pause
from scheduler.models import Request
from scheduler.recurrence.recurrence import Timing

MOST_RECURRING = 10_000


class RuleState(StrEnum):
    """Whether a rule has an occurrence that waits: only an active one has."""

    ACTIVE = "active"
    PAUSED = "paused"
    BLOCKED = "blocked"  # its next occurrence cannot be stored; tried again at each of its times
    ENDED = "ended"  # it has no further time


class Draft(NamedTuple):
    """A rule as its owner asks for it. `request` has no time, `timing` no anchor."""

    request: Request
    timing: Timing
    name: str | None = None


class Rule(msgspec.Struct, frozen=True):
    """A recurring schedule as it stands. `reason` says why it is blocked. `slot_ms` is the rule's
    time that the next occurrence stands for, `schedule_id` that occurrence (None: it is not made).
    `pause` is None unless it is paused. `missed` counts the times missed since it was blocked
    last. `etag` names its settings, its pause and its state."""

    recurring_id: str
    name: str | None
    timing: Timing
    request: Request
    state: RuleState
    created_at_ms: int
    reason: str = ""
    slot_ms: int | None = None
    schedule_id: str | None = None
    pause: Pause | None = None
    missed: int = 0
    etag: str = ""

    @property
    def draft(self) -> Draft:
        """What its owner has asked for."""
        return Draft(self.request, self.timing, self.name)


def kinds_of_change(before: Rule, after: Rule) -> list[Kind]:
    """The events that this change is in an account's history; none if nothing was changed."""
    was_paused, is_blocked = before.pause is not None, after.state == RuleState.BLOCKED
    found = [Kind.RULE_CHANGED] if before.draft != after.draft else []
    if after.pause is not None:
        found += [Kind.RULE_PAUSED] if before.pause != after.pause else []
    elif was_paused or (before.state == RuleState.BLOCKED and not is_blocked):
        found.append(Kind.RULE_RESUMED)
    return found


class Created(NamedTuple):
    """`repeated`: an earlier call with the same key has created it, and this is its answer."""

    rule: Rule
    repeated: bool = False


class Put(NamedTuple):
    """The rule of a name; `created`: there was none before. `unchanged`: it was so already."""

    rule: Rule
    created: bool = False
    unchanged: bool = False


class RulePage(NamedTuple):
    """`next_cursor` is None at the end; a page may be short before."""

    rules: list[Rule]
    next_cursor: str | None
