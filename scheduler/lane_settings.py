"""A pause, the settings of a lane and of an account, how a lane stands, and what keeps due
schedules from starting. Pure."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TypeVar

import msgspec

from scheduler.callbacks import CallbackOn
from scheduler.durations import DAY_MS
from scheduler.lanes import HoldCause
from scheduler.times import are_moments

MOST_RATE = 100_000
SHORTEST_PER_MS, LONGEST_PER_MS = 1000, DAY_MS
MOST_PARALLEL = 10_000
LONGEST_NOTE = 200
# A worker starts a schedule at most so much later than its slot, or gives the slot up.
_LEAST_SLACK_US, _MOST_SLACK_US = 20_000, 1_000_000


S = TypeVar("S", "LaneSettings", "AccountSettings")


class LaneState(StrEnum):
    """Why a lane does not start due schedules: the first reason that fits."""

    PAUSED = "paused"
    CALM = "calm"  # a target asked with Retry-After to be left alone
    FULL = "full"  # as many run as its parallelism allows
    LIMITED = "limited"  # by its rate
    OPEN = "open"


class Pause(msgspec.Struct, frozen=True):
    """A pause of a lane, an account or a recurring schedule, begun with the API key of that name;
    without `until_ms` it has no end. `note` says why, for people. The store sets `since_ms`."""

    by: str
    until_ms: int | None = None
    note: str | None = None
    since_ms: int = 0

    def instead_of(self, before: Pause | None) -> Pause:
        """Another end and another note, of a pause that has begun when it has, if there is one."""
        if before is None:
            return self
        return msgspec.structs.replace(self, by=before.by, since_ms=before.since_ms)

    def applied(self, before: S) -> S:
        """The settings with this pause instead of theirs."""
        return msgspec.structs.replace(before, pause=self.instead_of(before.pause))


def resumed(before: S) -> S:
    """The settings without a pause."""
    return msgspec.structs.replace(before, pause=None)


class AccountCallback(msgspec.Struct, frozen=True):
    url: str
    on: CallbackOn = CallbackOn.EXECUTED


class AccountSettings(msgspec.Struct, frozen=True):
    """`callback` is for schedules that name none. `etag` is a digest of the rest, as it was read;
    None for what is to be stored."""

    pause: Pause | None = None
    callback: AccountCallback | None = None
    etag: str | None = None


# The limits of a lane that a message may set.
RATE, PARALLELISM = "rate", "parallelism"


class LaneSettings(msgspec.Struct, frozen=True):
    """`rate` starts in `per_ms`, of which `burst` (None: 1) may come at once; `parallelism` at a
    time. None: no limit. `etag` as above. `unpinned`: of RATE and PARALLELISM, those that came with
    a message of the QStash door, and that the next message may change."""

    rate: int | None = None
    per_ms: int | None = None
    burst: int | None = None
    parallelism: int | None = None
    note: str | None = None
    pause: Pause | None = None
    etag: str | None = None
    unpinned: frozenset[str] = frozenset()

    @property
    def is_there(self) -> bool:
        """Whether it has any setting. If-Match: * means a lane that has."""
        return any((self.rate, self.parallelism, self.note, self.pause))

    @property
    def is_set(self) -> bool:
        """Whether the lane stays for these, though nothing is in it, as it does for a pause. It
        does not stay for limits that came with a message."""
        pinned = self.is_pinned(RATE) or self.is_pinned(PARALLELISM)
        return pinned or self.note is not None

    def is_pinned(self, limit: str) -> bool:
        """Whether RATE or PARALLELISM is set, and no message may change it."""
        return getattr(self, limit) is not None and limit not in self.unpinned

    @property
    def pace(self) -> tuple[float, int] | None:
        """Between two starts, and a start's most lateness (us); None without a rate. So spaced, any
        window of `per_ms` has at most `rate + burst` starts, though each be that much late."""
        if self.rate is None or self.per_ms is None:
            return None
        spacing_us = 1000 * self.per_ms / self.rate
        slack_us = round(min(max(spacing_us, _LEAST_SLACK_US), _MOST_SLACK_US))
        interval_us = max(spacing_us, (1000 * self.per_ms + slack_us) / (self.rate + 1))
        return math.ceil(interval_us * 1000) / 1000, slack_us


class Lane(msgspec.Struct, frozen=True):
    """A lane at one moment: `waiting` schedules, of which `due` are due, the oldest since
    `oldest_due_at_ms`; `running` are held by workers. `calm_until_ms`: a target asked for it.
    `next_slot_ms`: when its rate allows the next start; None without a rate. `rate_used`: so many
    starts the rate has not made up for yet. `last_due_at_ms`: of what waits."""

    lane: str
    settings: LaneSettings
    now_ms: int
    calm_until_ms: int | None = None
    next_slot_ms: int | None = None
    waiting: int = 0
    due: int = 0
    running: int = 0
    oldest_due_at_ms: int | None = None
    last_due_at_ms: int | None = None
    rate_used: int = 0

    @property
    def state(self) -> LaneState:
        settings, most = self.settings, self.settings.parallelism
        if settings.pause is not None:
            return LaneState.PAUSED
        if self.calm_until_ms is not None:
            return LaneState.CALM
        if most is not None and self.running >= most:
            return LaneState.FULL
        if self.due and self.next_slot_ms is not None and self.next_slot_ms > self.now_ms:
            return LaneState.LIMITED
        return LaneState.OPEN

    @property
    def empty_at_ms(self) -> int | None:
        """When all that waits will have started, at this rate; None if nothing waits, without a
        rate, and while it is paused."""
        pace, last_ms = self.settings.pace, self.last_due_at_ms
        if pace is None or last_ms is None or self.settings.pause is not None:
            return None
        from_ms = max(self.now_ms, self.next_slot_ms or 0, self.calm_until_ms or 0)
        at_once = self.settings.burst or 1 if from_ms == self.now_ms else 1
        at_ms = from_ms + math.ceil(max(0, self.waiting - at_once) * pace[0] / 1000)
        at_ms = max(at_ms, last_ms)
        return at_ms if are_moments(at_ms) else None


class HeldBy(msgspec.Struct, frozen=True, gc=False):
    """Why a due schedule does not start. `until_ms` is when the cause ends, None if nobody knows;
    it is `estimated` for a rate. `lane` is the lane that is the cause, and `ahead` how many of its
    schedules go first. `most` is the limit that holds it: starts in `per_ms`, or at a time."""

    cause: HoldCause
    lane: str | None = None
    until_ms: int | None = None
    estimated: bool = False
    ahead: int | None = None
    most: int | None = None
    per_ms: int | None = None


class LaneLimits(msgspec.Struct, frozen=True, gc=False):
    """What may hold a lane's schedules. `rate` is starts in `per_ms`, `interval_us` between two
    starts, `tat_us` until when the rate is used. `paused_until_ms`: infinite without an end; 0: it
    is not paused."""

    paused_until_ms: float = 0
    calm_until_ms: int = 0
    parallelism: int | None = None
    rate: int | None = None
    interval_us: float | None = None
    burst: int = 1
    per_ms: int = 0
    tat_us: float = 0

    @property
    def is_none(self) -> bool:
        return self == _NO_LIMITS

    def holder(
        self, lane: str, now_us: int, ahead: int, running: int, *, has_worker: bool
    ) -> HeldBy | None:
        """What holds one of the lane's due schedules, of which so many go first; `running` ones are
        held by workers."""
        now_ms = now_us / 1000
        if self.paused_until_ms > now_ms:
            ends = self.paused_until_ms
            until_ms = None if math.isinf(ends) else int(ends)
            return HeldBy(HoldCause.LANE_PAUSED, lane, until_ms, ahead=ahead)
        if not has_worker:
            return HeldBy(HoldCause.NO_WORKER)
        if self.calm_until_ms > now_ms:
            return HeldBy(HoldCause.LANE_CALM, lane, self.calm_until_ms, ahead=ahead)
        if self.parallelism is not None and running >= self.parallelism:
            most = self.parallelism
            return HeldBy(HoldCause.LANE_PARALLELISM, lane, ahead=ahead, most=most)
        start_us = self._start_us(now_us, ahead)
        if start_us > now_us:
            return HeldBy(
                HoldCause.LANE_RATE,
                lane,
                math.ceil(start_us / 1000),
                estimated=True,
                ahead=ahead,
                most=self.rate,
                per_ms=self.per_ms,
            )
        return None

    def _start_us(self, now_us: int, ahead: int) -> float:
        """From when on the rate allows the start of one behind so many others."""
        if self.interval_us is None:
            return now_us
        window_us = self.per_ms * 1000 + self.interval_us * self.burst
        paid_us = max(min(self.tat_us, now_us + window_us), now_us)
        return paid_us + (ahead - self.burst + 1) * self.interval_us


_NO_LIMITS = LaneLimits()
