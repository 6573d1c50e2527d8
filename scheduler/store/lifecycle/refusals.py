"""Why something was not done with a schedule. Pure."""

from __future__ import annotations

from scheduler.errors import (
    Conflict,
    Damaged,
    InsufficientCredits,
    NotFound,
    PostdateError,
    QuotaExceeded,
)
from scheduler.models import Status
from scheduler.store.verdict import Verdict

# How often a call reads anew what others have changed since it was read.
MOST_CHANGES_MET = 20

SENTENCES = {
    Verdict.UNKNOWN: "There is no such schedule",
    Verdict.HELD: "Execution has started",
    Verdict.CHANGED: "The schedule keeps changing; try again",
    Verdict.NOT_ENDED: "The schedule has not ended yet",
    Verdict.REPLAYED: "The schedule was replayed already",
    Verdict.UNPAID: str(InsufficientCredits()),
    Verdict.NO_ROOM: str(QuotaExceeded()),
    Verdict.DAMAGED: "What is stored of the schedule is damaged and cannot be read",
    Verdict.CANCELLED: "Its body was not kept when it was cancelled",
}


def refusal(schedule_id: str, verdict: Verdict, ended: Status = Status.CANCELLED) -> PostdateError:
    """The verdict as an error; `ended`: how the schedule did, if it has."""
    match verdict:
        case Verdict.UNKNOWN:
            return NotFound(SENTENCES[verdict])
        case Verdict.ENDED:
            return Conflict(f"The schedule is {ended} already", ended)
        case Verdict.CANCELLED:
            return Conflict(SENTENCES[verdict], ended)
        case Verdict.UNPAID:
            return InsufficientCredits()
        case Verdict.NO_ROOM:
            return QuotaExceeded()
        case Verdict.DAMAGED:
            return Damaged(schedule_id)
    return Conflict(SENTENCES[verdict], Status.SCHEDULED)
