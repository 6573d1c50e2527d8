"""Lanes: the names by which schedules share a rate, a parallelism and a pause; and what keeps due
schedules from starting. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

LONGEST_LANE = 64
# Of an account, that are set, paused, calm or have something waiting or running.
MOST_LANES = 10_000
LANE_PATTERN = f"[A-Za-z0-9][A-Za-z0-9._:-]{{0,{LONGEST_LANE - 1}}}"
_LANE = re.compile(LANE_PATTERN)


def is_lane(text: str) -> bool:
    return _LANE.fullmatch(text) is not None


class HoldCause(StrEnum):
    """The first cause that keeps a due schedule from starting. Causes that somebody has to end come
    before causes that end by themselves, and wider causes before narrower ones."""

    SERVICE_HOLD = "service_hold"
    ACCOUNT_SUSPENDED = "account_suspended"
    ACCOUNT_PAUSED = "account_paused"
    LANE_PAUSED = "lane_paused"
    NO_WORKER = "no_worker"
    LANE_CALM = "lane_calm"
    LANE_PARALLELISM = "lane_parallelism"
    LANE_RATE = "lane_rate"


_HELD: Mapping[str, str] = {
    HoldCause.SERVICE_HOLD: "the service is on hold",
    HoldCause.ACCOUNT_SUSPENDED: "the account is suspended",
    HoldCause.ACCOUNT_PAUSED: "the account is paused",
    HoldCause.NO_WORKER: "no worker runs",
    HoldCause.LANE_PAUSED: "paused",
    HoldCause.LANE_CALM: "its target asked for calm",
    HoldCause.LANE_PARALLELISM: "it runs as many as it may",
    HoldCause.LANE_RATE: "its rate is used up",
}


def hold_words(
    cause: str, lane: str | None, at: str, *, estimated: bool, ahead: int | None, limit: str = ""
) -> str:
    """`waits for lane eu: 20 per hour, 241 before it, about 12:40`; `waits: no worker runs`.

    `at` is when the cause ends, `limit` what holds it: `20 per hour`. A cause that is none of
    `HoldCause` is its own word.
    """
    parts = [limit or _HELD.get(cause, cause)]
    if at and not estimated:
        parts[0] += f" until {at}"
    if ahead is not None:
        parts.append(f"{ahead:,} before it" if ahead else "it is next")
    if at and estimated:
        parts.append(f"about {at}")
    whom = "" if lane is None else f" for lane {lane}"
    return f"waits{whom}: {', '.join(parts)}"
