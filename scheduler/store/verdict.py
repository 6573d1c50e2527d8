"""The verdict on one schedule, or a group: the scripts' word for it, and the callers' error."""

from __future__ import annotations

from enum import IntEnum

from scheduler.errors import (
    Conflict,
    Damaged,
    FieldError,
    InsufficientCredits,
    InvalidRequest,
    PostdateError,
    QuotaExceeded,
    Reason,
    TooManyLanes,
    UnknownSchedule,
)
from scheduler.models import Status


class Verdict(IntEnum):
    """Scripts spell it `V.DONE`. Each fits in a byte, as an Idempotency-Key's note keeps it."""

    ENDED = 0  # it had ended before; of what a worker settles, also that it was settled before
    DONE = 1
    AGAIN = 2  # not done because of others in the same step: to be sent again without those
    HELD = 3  # a worker holds it; of what a worker settles, another one
    DAMAGED = 4  # it, or a key of its account; nothing was changed
    CHANGED = 5  # it was changed or attempted since the caller read it
    UNKNOWN = 6  # there is no such schedule, or no such account
    UNPAID = 7  # there is no credit for it
    NO_ROOM = 8  # it would take its account over the quota
    KEY_REUSED = 9  # something else was asked with the same Idempotency-Key
    REPEATED = 10  # the same was asked with the same Idempotency-Key, and is answered as then
    NOT_ENDED = 11  # only schedules that have ended are replayed
    REPLAYED = 12  # it was replayed before
    CANCELLED = 13  # it was cancelled, and its body is not kept
    SUSPENDED = 14  # its account is suspended
    LIMITED = 15  # its account has used up the plan's rate
    EXISTING = 16  # one that waited already was meant, and is kept or has this request now
    SEVERAL = 17  # several wait that may be meant
    EACH = 18  # of a group: an answer of several bytes follows for each
    TOO_MANY_LANES = 19  # it would be in another lane than those that the account may have
    PENDING = 20  # its callback has not ended
    NO_CALLBACK_URL = 21  # neither it nor its account names where its end is to be reported
    NAME_TAKEN = 22  # another recurring schedule of the account has the name
    TOO_MANY = 23  # the account has as many recurring schedules as it may have
    LATER = 24  # a later part of its batch will store it


# Indexed by what a script answers: a call of an enum takes half a microsecond, its member a tenth.
VERDICTS = tuple(Verdict)
ENDED, DONE, AGAIN = Verdict.ENDED, Verdict.DONE, Verdict.AGAIN

# How often a call reads a schedule anew that others have changed meanwhile.
MOST_CHANGES_MET = 20

SENTENCES = {
    Verdict.UNKNOWN: str(UnknownSchedule()),
    Verdict.HELD: "Execution has started",
    Verdict.CHANGED: "The schedule keeps changing; try again",
    Verdict.NOT_ENDED: "The schedule has not ended yet",
    Verdict.REPLAYED: "The schedule was replayed already",
    Verdict.UNPAID: str(InsufficientCredits()),
    Verdict.NO_ROOM: str(QuotaExceeded()),
    Verdict.DAMAGED: "The stored schedule is damaged and cannot be read",
    Verdict.TOO_MANY_LANES: str(TooManyLanes()),
    Verdict.PENDING: "Its callback is pending already",
    Verdict.CANCELLED: "Its body was not kept when it was cancelled",
}
_CONFLICTS = {
    Verdict.HELD: Reason.ALREADY_STARTED,
    Verdict.CHANGED: Reason.KEEPS_CHANGING,
    Verdict.NOT_ENDED: Reason.NOT_ENDED,
    Verdict.REPLAYED: Reason.ALREADY_REPLAYED,
    Verdict.PENDING: Reason.CALLBACK_PENDING,
}


def refusal(schedule_id: str, verdict: Verdict, ended: Status = Status.CANCELLED) -> PostdateError:
    """The verdict as an error; `ended`: how the schedule did, if it has."""
    match verdict:
        case Verdict.UNKNOWN:
            return UnknownSchedule()
        case Verdict.ENDED:
            return Conflict(f"The schedule is {ended} already", ended, Reason.ALREADY_ENDED)
        case Verdict.CANCELLED:
            return Conflict(SENTENCES[verdict], ended, Reason.BODY_NOT_KEPT)
        case Verdict.UNPAID:
            return InsufficientCredits()
        case Verdict.NO_ROOM:
            return QuotaExceeded()
        case Verdict.TOO_MANY_LANES:
            return TooManyLanes()
        case Verdict.PENDING:
            return Conflict(SENTENCES[verdict], ended, _CONFLICTS[verdict])
        case Verdict.NO_CALLBACK_URL:
            message = "It is needed: neither the schedule nor the account has one."
            return InvalidRequest([FieldError("callbackUrl", message)])
        case Verdict.DAMAGED:
            return Damaged(schedule_id)
    return Conflict(SENTENCES[verdict], Status.SCHEDULED, _CONFLICTS[verdict])
