"""What came of creates, and why some were not stored. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scheduler.errors import (
    Conflict,
    InsufficientCredits,
    KeyReused,
    PostdateError,
    QuotaExceeded,
    Reason,
    TooManyLanes,
    UnknownAccount,
    Unreadable,
)
from scheduler.models import Status
from scheduler.store.idempotency import Made, Placed
from scheduler.store.verdict import Verdict, refusal


class CreateResult(NamedTuple):
    """The ids of the stored schedules, in order: the first ones, if there were too few credits.
    `repeated`: an earlier call with the same key stored them. `note` came with that call. `placed`:
    what came of each, if one of them was an Upsert; the ids are those of all that were stored.
    `rest`: the verdict on those that were not stored, if they are the last ones. `unfinished`: what
    an earlier call with the same key has begun, for `Schedules.finish`."""

    schedule_ids: list[str]
    repeated: bool = False
    note: bytes = b""
    placed: Sequence[Placed] = ()
    rest: int = Verdict.UNPAID
    unfinished: Made | None = None

    @classmethod
    def of(cls, made: Made) -> CreateResult:
        """Raises InsufficientCredits if not even one was stored, unless each has its result."""
        begun = made if made.is_unfinished else None
        if made.placed:
            stored = [each.schedule_id for each in made.placed if each.is_stored]
            return cls(stored, made.repeated, made.note, made.placed, unfinished=begun)
        count = made.verdicts.count(Verdict.DONE)
        if not count:
            raise InsufficientCredits
        rest = made.verdicts[count] if count < len(made.verdicts) else Verdict.UNPAID
        return cls(made.schedule_ids[:count], made.repeated, made.note, (), rest, begun)


def refusal_of(placed: Placed) -> PostdateError:
    """Why a request was not stored."""
    if placed.verdict != Verdict.SEVERAL:
        return refusal(placed.schedule_id, Verdict(placed.verdict))
    message = f"{placed.due_ms:,} schedules wait with this reference; onExisting needs one at most"
    return Conflict(message, Status.SCHEDULED, Reason.SEVERAL_WAITING)


def refusal_of_all(account_id: str, verdict: int) -> Exception:
    """Why a group was refused as a whole."""
    match verdict:
        case Verdict.KEY_REUSED:
            return KeyReused()
        case Verdict.NO_ROOM:
            return QuotaExceeded()
        case Verdict.TOO_MANY_LANES:
            return TooManyLanes()
        case Verdict.DAMAGED:
            return Unreadable(f"Something of {account_id} is damaged")
    return UnknownAccount(account_id)
