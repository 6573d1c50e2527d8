"""Which schedules can be replayed, and what came of each. Asks no store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from scheduler import ids
from scheduler.errors import Damaged, Reason
from scheduler.models import (
    Occurrence,
    Packed,
    Request,
    Schedule,
    Status,
    Upsert,
    as_occurrence,
)
from scheduler.runtime.pause import collected
from scheduler.store.heads import letter_member
from scheduler.store.idempotency import Made
from scheduler.store.verdict import Verdict

_ID_BYTES = 16

_REASONS = {Verdict.NOT_ENDED: Reason.NOT_ENDED, Verdict.CANCELLED: Reason.BODY_NOT_KEPT}

# Makes the request of a replay from what it is a replay of; whose rule it keeps, without a slot.
Remake = Callable[[Schedule], Request]


class Replay(msgspec.Struct, frozen=True, gc=False):
    """The verdict on one of them; `schedule_id` is the new one, if there is one."""

    original: str
    verdict: Verdict
    schedule_id: str | None = None


class Replays(NamedTuple):
    """A verdict on each, in order. `trigger_at_ms` is of the first new one. `repeated`: an earlier
    call with the same key did it. `next_cursor`: where the list they were taken from goes on."""

    each: list[Replay]
    trigger_at_ms: int = 0
    repeated: bool = False
    next_cursor: str | None = None


class _Note(msgspec.Struct, array_like=True):
    """What a call decided by reading, kept with its once-key: the ids, 16 bytes each; a verdict on
    each, DONE if it can be replayed; and the rest of the answer."""

    originals: bytes
    verdicts: bytes
    trigger_at_ms: int
    next_cursor: str | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Note).decode


class CreatePlan(NamedTuple):
    """What to store: requests, the note of their once-key and, of replays, the original of each
    as a member of `failed`, and whether those may be replayed `again`."""

    requests: Sequence[Request | Packed | Upsert]
    note: bytes
    originals: Sequence[str] = ()
    again: bool = False


async def asked_for(
    originals: Sequence[str],
    found: Sequence[Schedule | Damaged | None],
    remake: Remake,
    next_cursor: str | None = None,
) -> CreatePlan:
    rows = await collected(_row(each, remake) for each in found)
    verdicts = bytes(verdict for verdict, _, _ in rows)
    requests = [request for _, request, _ in rows if request is not None]
    due_ms = requests[0].trigger_at_ms if requests else 0
    packed = b"".join(await collected(map(ids.to_bytes, originals)))
    note = _encode(_Note(packed, verdicts, due_ms, next_cursor))
    return CreatePlan(requests, note, [letter for _, _, letter in rows if letter])


def originals_of(made: Made) -> list[str]:
    """The schedules that a call can replay, by its note."""
    note = _decode(made.note)
    return [
        ids.from_bytes(note.originals[_ID_BYTES * place :][:_ID_BYTES])
        for place, verdict in enumerate(note.verdicts)
        if verdict == Verdict.DONE
    ]


async def rest_of(
    made: Made, found: Sequence[Schedule | Damaged | None], remake: Remake
) -> CreatePlan:
    """The plan of a call that was cut off, for all its `originals_of`. Where one is forgotten or
    damaged by now, the script finds no original."""
    due_ms = _decode(made.note).trigger_at_ms
    rows = await collected(_row(each, remake) for each in found)
    lost = Request(due_ms, "GET", "")
    requests = await collected(
        msgspec.structs.replace(request or lost, trigger_at_ms=due_ms) for _, request, _ in rows
    )
    pairs = zip(rows, made.schedule_ids, strict=True)
    return CreatePlan(requests, made.note, [row[2] or ids.local(new) for row, new in pairs])


def _row(found: Schedule | Damaged | None, remake: Remake) -> tuple[Verdict, Request | None, str]:
    """The verdict on one, and if it can be replayed, its request and its member of `failed`."""
    verdict = _verdict(found)
    if verdict != Verdict.DONE or not isinstance(found, Schedule):
        return verdict, None, ""
    request = as_occurrence(remake(found), _beside(found.request))
    return verdict, request, letter_member(found.request.reference, ids.local(found.schedule_id))


def _beside(request: Request) -> Occurrence | None:
    """An occurrence of the same rule beside its slots."""
    return Occurrence(request.recurring_id) if request.recurring_id else None


def _verdict(found: Schedule | Damaged | None) -> Verdict:
    if found is None:
        return Verdict.UNKNOWN
    if isinstance(found, Damaged):
        return Verdict.DAMAGED
    if found.status is Status.SCHEDULED:
        return Verdict.NOT_ENDED
    return Verdict.CANCELLED if found.body_dropped else Verdict.DONE


def reason_against(schedule: Schedule) -> Reason | None:
    """Why it cannot be replayed; None if it can."""
    return _REASONS.get(_verdict(schedule))


async def replays_of(made: Made) -> Replays:
    """The result of a call, by its note and by the script's verdicts."""
    note = _decode(made.note)
    replays = await collected(_replays(made, note))
    return Replays(replays, note.trigger_at_ms, made.repeated, note.next_cursor)


def _replays(made: Made, note: _Note) -> Iterator[Replay]:
    answers = zip(made.verdicts, made.schedule_ids, strict=True)
    for place, verdict in enumerate(note.verdicts):
        original, new = ids.from_bytes(note.originals[_ID_BYTES * place :][:_ID_BYTES]), ""
        if verdict == Verdict.DONE:
            verdict, new = next(answers)
        done = verdict == Verdict.DONE
        yield Replay(original, Verdict(verdict), new if done else None)
