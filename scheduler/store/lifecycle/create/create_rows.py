"""What the script that creates gets for the schedules of a call. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scheduler import ids
from scheduler.models import Idempotency, Upsert
from scheduler.store import stored
from scheduler.store.idempotency import kept_with
from scheduler.store.lifecycle.create.on_existing import means_existing, row_of
from scheduler.store.lifecycle.create.replays import CreatePlan
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Argument

# Of a schedule, of which a new one has only the first three; and whether it has a reference or a
# lane.
CreateRow = tuple[tuple[str, int, bytes, str], bool]
# The arguments for all of a call, and their weight.
CreateGroup = tuple[list[Argument], int]
_BYTES_LIKE_ONE_MORE = 2048


def rows_of(
    new: Sequence[str],
    what: CreatePlan,
    created_ms: int,
    secrecy: Secrecy,
    bases: Sequence[str] = (),
) -> Iterator[CreateRow]:
    """One for each new id. `bases` are those of `row_of`."""
    for place, (schedule_id, wanted) in enumerate(zip(new, what.requests, strict=True)):
        if isinstance(wanted, Upsert):
            each, last = row_of(wanted, created_ms, *bases[place : place + 1])
        else:
            each, last = wanted, what.originals[place] if what.originals else ""
        packed = stored.seal_request(each, secrecy)
        is_headed = each.reference is not None or each.lane is not None
        yield (ids.local(schedule_id), each.trigger_at_ms, packed, last), is_headed


def group_of(
    payer: str, what: CreatePlan, once: Idempotency | None, first: str, rows: Sequence[CreateRow]
) -> CreateGroup:
    """`payer`: an account's local name, or an API key's "=" and SHA-256. `first`: the first id."""
    requests, note, originals, again = what
    count = len(requests)
    onto = type(requests[0]) is Upsert or (count > 1 and means_existing(requests))
    width = 4 if originals or onto else 3
    arguments: list[Argument] = [payer, *kept_with(once, first, note)]
    if originals or onto:
        arguments += (-count, int(again) if originals else "")
    else:
        arguments += (-count, "+") if any(is_headed for _, is_headed in rows) else (count,)
    weight = (1 + onto) * count + len(originals)
    for row, _ in rows:
        arguments += row[:width]
        weight += len(row[2]) // _BYTES_LIKE_ONE_MORE
    return arguments, weight
