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
    "A signing secret; `expiresAt` is null until a newer one replaces it.",
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
    "The settings of a lane, null where there is no limit, and its state. state is the first "
    "of these that keeps due schedules from starting: paused; calm, until calmUntil, because a "
    "target asked for it with Retry-After; full, as many run as parallelism allows; limited by the "
    "rate; or open. Of the schedules that wait in it, waiting are all and due those that are due, "
    "the oldest since oldestDueAt; running are those that workers have. pausedBy is the name of an "
    "API key, or dashboard. emptyAt is an estimate of when all waiting schedules will have started "
    "at this rate: null without a rate, without schedules, and in a pause.",
)


class LanesBody(Body, frozen=True):
    lanes: list[LANE.type]  # type: ignore[name-defined]
    next_cursor: str | None


class ClearedLaneBody(Body, frozen=True):
    """`waiting` schedules go on without limits."""

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
    "Whether the account is paused, until when (null: no end), and the name of the API key that "
    "paused it. callbackUrl and callbackOn are for schedules that name no callbackUrl; null: none. "
    "A value in the query of the URL that looks like a secret is masked. plan is the account's, "
    "and requestsPerSecond and storedBytesLimit are what it allows; null: no limit. lanes counts "
    "those that are set, paused, calm or have something waiting or running, and recurring the "
    "recurring schedules.",
)
