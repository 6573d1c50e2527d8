"""Whether an account's references lead to the schedules that have them, and back. Read-only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from scheduler import ids
from scheduler.store import keys
from scheduler.store.check.damage import text
from scheduler.store.check.weights import Weights
from scheduler.store.heads import heads_of
from scheduler.store.queries.reading import read_rows
from scheduler.store.queries.referred import schedule_of
from scheduler.store.server import Server
from scheduler.store.stored import Fields

_CHUNK = 200


async def misreferred(server: Server, weights: Weights, account_id: str) -> AsyncIterator[str]:
    """A sentence for each reference that does not lead to a schedule that has not ended and has
    it. Adds them all to the account's weight."""
    base, after, chunk = keys.account(account_id), "-", [b""]
    while chunk:
        chunk = await server.read(
            "ZRANGE", base + keys.REFERENCES, after, "+", "BYLEX", "LIMIT", 0, _CHUNK
        )
        weights.refer(account_id, chunk)
        after = b"(" + chunk[-1] if chunk else after
        members = chunk
        while members:
            names = [schedule_of(each) for each in members]
            rows = await read_rows(server, base, names)
            for member, name, fields in zip(members, names, rows, strict=False):
                head = heads_of(fields.packed or b"").reference
                if fields.outcome is not None or head[2:] + b"\0" + name.encode() != member:
                    yield (
                        f"among its references is {text(member)!r}, of no schedule that has it and"
                        " has not ended"
                    )
            members = members[len(rows) :]


async def unreferred(
    server: Server, base: str, rows: Iterable[tuple[str, Fields]]
) -> AsyncIterator[str]:
    """A sentence for each of these that has a reference, has not ended, and is not among the
    references."""
    named = [
        (schedule, head[2:] + b"\0" + schedule.encode())
        for schedule, fields in rows
        if fields.outcome is None and (head := heads_of(fields.packed or b"").reference)
    ]
    if not named:
        return
    members = [member for _, member in named]
    [scores] = await server.reads([("ZMSCORE", base + keys.REFERENCES, *members)])
    for (schedule, _), score in zip(named, scores, strict=True):
        if score is None:
            yield f"{ids.schedule_id(schedule)} has a reference, but is not among those that do"
