"""Where a schedule stands in all keys that name it, and the faults of that. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from scheduler.models import Status
from scheduler.store.retention import Retention
from scheduler.store.stored import ended_status, moment_of, unpack_attempt

# Leases end and are taken over within seconds; the longest that can be set is an hour.
_LONG_ENDED_MS = 5 * 60_000
_LONGEST_LEASE_MS = 2 * 3_600_000
# Between an end and the command that says how long it is kept.
_SLACK_MS = 1000


class Stand(NamedTuple):
    """How a schedule stands: whether it is there; its outcome (empty: none); when it is visible
    again among the waiting, from now (ms; None: it is not there); whether it is held, was replayed;
    when it became a dead letter (None: it is none), when it is forgotten; its next attempt, from
    now, and the attempts before (None: it is not retried); the attempts noted beside it; whether it
    waits in a lane."""

    there: bool
    outcome: bytes
    visible_in_ms: float | None
    held: bool
    replayed: bool = False
    letter_ms: float | None = None
    forgotten_ms: int = -1
    next_attempt_in_ms: float | None = None
    attempts: int | None = None
    noted_attempts: int | None = None
    laned: bool = False


class Letters(NamedTuple):
    """An account's dead letters: since when the oldest is one, and how long they are kept."""

    oldest_ms: float | None
    kept: Retention

    def should_have(self, stand: Stand) -> bool:
        """Whether one that has failed ought to be among them: only older ones are ever dropped,
        and other ended ones are kept for a shorter time."""
        ended_ms = moment_of(stand.outcome)
        if self.oldest_ms is not None and ended_ms > self.oldest_ms:
            return True
        kept_ms, others_ms = self.kept.failed_kept_ms, self.kept.schedule_ms
        return kept_ms > others_ms and abs(stand.forgotten_ms - ended_ms - kept_ms) < _SLACK_MS


def stand_of(row: list[Any], now_ms: float) -> Stand:
    """`row`: the fields `r`, `o`, `a`, `n`; its scores in `waiting`, `held`, `failed` and `laned`;
    when it is forgotten (ms; below 0: never), and the attempts that are noted."""
    packed, outcome, replay, attempt, waiting, since, letter_ms, laned, forgotten_ms, noted = row
    visible_at_ms = waiting or laned
    retry = unpack_attempt(attempt) if attempt else None
    return Stand(
        there=packed is not None,
        outcome=outcome or b"",
        visible_in_ms=float(visible_at_ms) - now_ms if visible_at_ms else None,
        held=since is not None,
        replayed=bool(replay),
        letter_ms=float(letter_ms) if letter_ms else None,
        forgotten_ms=forgotten_ms,
        next_attempt_in_ms=retry.due_at_ms - now_ms if retry else None,
        attempts=retry.attempts if retry else None,
        noted_attempts=int(noted) if noted else None,
        laned=laned is not None,
    )


def faults_of(stand: Stand, letters: Letters, *, stopped: bool) -> list[str]:
    """The faults of a schedule that stands so. Those of a suspended or paused account and of a lane
    may wait, also after their worker was lost."""
    there, outcome, visible_in_ms, held, *_ = stand
    waiting = visible_in_ms is not None
    if not there:
        missing = ["is waiting, but its request is gone"] * waiting
        return missing or ["is held, but not among the waiting"] * held or _retry_faults(stand)
    faults = _letter_faults(stand, letters)
    if held and not waiting:
        faults.append("is held, but not among the waiting")
    if not outcome and not waiting:
        faults.append("has not ended, but is not among the waiting")
    if outcome and waiting:
        faults.append(f"has ended ({ended_status(outcome)}), but is still among the waiting")
    if held and visible_in_ms is not None:
        if visible_in_ms < -_LONG_ENDED_MS and not (stopped or stand.laned):
            faults.append("is held under a lease that ended long ago, and nobody takes it over")
        elif visible_in_ms > _LONGEST_LEASE_MS:
            faults.append("is held for longer than any lease can be")
    return faults + _retry_faults(stand)


def _retry_faults(stand: Stand) -> list[str]:
    faults = []
    waiting, retried = stand.visible_in_ms is not None, stand.attempts is not None
    if stand.noted_attempts is not None and not waiting:
        faults.append("is not among the waiting, but its attempts are still noted")
    if stand.outcome and retried:
        faults.append("has ended, but is still to be retried")
    elif stand.attempts is not None:
        if (stand.noted_attempts or 0) < stand.attempts:
            faults.append("is retried, but not all of its attempts are noted")
        # Later than that waits what a worker could not read, until one comes that can.
        early = stand.visible_in_ms is not None and (
            stand.visible_in_ms < (stand.next_attempt_in_ms or 0.0)
        )
        if early and not stand.held:
            faults.append("does not wait for the moment of its next attempt")
    return faults


def _letter_faults(stand: Stand, letters: Letters) -> list[str]:
    """The faults of a schedule as a dead letter, or as none."""
    failed = bool(stand.outcome) and ended_status(stand.outcome) is Status.FAILED
    if stand.letter_ms is None:
        missed = failed and not stand.replayed and letters.should_have(stand)
        return ["has failed, but is no dead letter"] * missed
    if not failed:
        return ["is a dead letter, but has not failed"]
    if stand.replayed:
        return ["is a dead letter, but was replayed"]
    if stand.letter_ms != moment_of(stand.outcome):
        return ["is a dead letter of another moment than that of its end"]
    return []
