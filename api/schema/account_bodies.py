"""What goes out of an account and its lanes, in the names that clients see."""

from __future__ import annotations

from typing import NamedTuple

from api.schema.bodies import Body, LaneName
from api.schema.shapes import Moment, Shape
from scheduler.callbacks import CallbackOn
from scheduler.durations import format_duration
from scheduler.lane_settings import AccountSettings, LaneState
from scheduler.masks import masked_url
from scheduler.store.accounts.accounts import Holdings


def _duration(ms: int | None) -> str | None:
    return None if ms is None else format_duration(ms)


class CreditsBody(Body, frozen=True):
    credits_remaining: int


SECRET = Shape(
    "SecretBody",
    {
        "secretId": (str, "secret_id"),
        "secret": (str, "secret"),
        "createdAt": (Moment, "created_at_ms"),
        "expiresAt": (Moment | None, "expires_at_ms"),
    },
    "A signing secret.",
)


class SecretsBody(Body, frozen=True):
    secrets: list[SECRET.type]  # type: ignore[name-defined]


LANE = Shape(
    "LaneBody",
    {
        "lane": (LaneName, "lane"),
        "rate": (int | None, "settings.rate"),
        "per": (str | None, lambda lane: _duration(lane.settings.per_ms)),
        "burst": (int | None, lambda lane: lane.settings.rate and (lane.settings.burst or 1)),
        "parallelism": (int | None, "settings.parallelism"),
        "note": (str | None, "settings.note"),
        "paused": (bool, lambda lane: lane.settings.pause is not None),
        "pausedUntil": (Moment | None, "settings.pause.until_ms"),
        "pausedBy": (str | None, "settings.pause.by"),
        "pauseNote": (str | None, "settings.pause.note"),
        "calmUntil": (Moment | None, "calm_until_ms"),
        "state": (LaneState, "state"),
        "waiting": (int, "waiting"),
        "due": (int, "due"),
        "running": (int, "running"),
        "oldestDueAt": (Moment | None, "oldest_due_at_ms"),
        "emptyAt": (Moment | None, "empty_at_ms"),
    },
    "The settings of a lane, null where there is no limit, and its state.",
)


class LanesBody(Body, frozen=True):
    lanes: list[LANE.type]  # type: ignore[name-defined]
    next_cursor: str | None


class ClearedLaneBody(Body, frozen=True):
    """The schedules that wait in the lane go on without limits."""

    lane: LaneName
    waiting: int
    message: str


class ShownAccount(NamedTuple):
    """Its settings, what it has, and the limits of its plan; None: no limit."""

    settings: AccountSettings
    held: Holdings
    requests_per_second: int | None
    stored_bytes_limit: int | None


ACCOUNT = Shape(
    "AccountBody",
    {
        "paused": (bool, lambda account: account.settings.pause is not None),
        "pausedUntil": (Moment | None, "settings.pause.until_ms"),
        "pausedBy": (str | None, "settings.pause.by"),
        "pauseNote": (str | None, "settings.pause.note"),
        "callbackUrl": (
            str | None,
            lambda account: masked_url(each.url) if (each := account.settings.callback) else None,
        ),
        "callbackOn": (CallbackOn | None, "settings.callback.on"),
        "plan": (str, "held.account.plan"),
        "requestsPerSecond": (int | None, "requests_per_second"),
        "storedBytes": (int, "held.stored_bytes"),
        "storedBytesLimit": (int | None, "stored_bytes_limit"),
        "creditsRemaining": (int, "held.account.credits"),
        "lanes": (int, "held.lanes"),
        "recurring": (int, "held.recurring"),
    },
    "The account's pause and callback, its plan, and what it has.",
)
