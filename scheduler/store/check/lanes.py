"""Whether the queue of each lane has the schedules that name it, and no others. Read-only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from scheduler import ids
from scheduler.store import keys
from scheduler.store.check.damage import schedule_or_none, text
from scheduler.store.heads import heads_of
from scheduler.store.queries.reading import read_rows
from scheduler.store.server import Argument, Server
from scheduler.store.stored import Fields

_CHUNK = 200


def lane_in(fields: Fields) -> str:
    """The lane that a stored schedule names; '' for none."""
    return text(heads_of(fields.packed or b"").lane[2:-7])


async def strangers_in(server: Server, base: str, name: str, lane: str) -> AsyncIterator[str]:
    """A sentence for each member of a queue of a lane that does not name the lane, or has ended;
    with '' for the lane, for each schedule among those with a lane that names none."""
    async for chunk in server.members("ZSCAN", base + name, _CHUNK):
        schedules = []
        for each in chunk:
            if (schedule := schedule_or_none(each)) is not None:
                schedules.append(schedule)
            elif lane:
                yield f"in the queue of lane {lane} is {text(each)!r}, which can be no schedule"
        while schedules:
            rows = await read_rows(server, base, schedules, fields=("r", "o"))
            for schedule, fields in zip(schedules, rows, strict=False):
                what, named = ids.schedule_id(schedule), lane_in(fields)
                if lane and (named != lane or fields.outcome is not None):
                    yield f"{what} is in the queue of lane {lane}, and should not be"
                elif not named and fields.packed is not None:
                    yield f"{what} has no lane, but is among the schedules with one"
            schedules = schedules[len(rows) :]


async def misplaced(
    server: Server, base: str, rows: Iterable[tuple[str, Fields]]
) -> AsyncIterator[str]:
    """A sentence for each of these that has not ended, names a lane, and is not in its queue as it
    is among all."""
    laned = [
        (schedule, lane)
        for schedule, fields in rows
        if fields.outcome is None and (lane := lane_in(fields))
    ]
    for (schedule, lane), scores in zip(laned, await _scores(server, base, laned), strict=True):
        what, (waiting, among_all, queue) = ids.schedule_id(schedule), scores
        if waiting is not None:
            yield f"{what} is in lane {lane}, but among the schedules without a lane"
        elif among_all is not None and abs(float(queue or 0)) != float(among_all):
            yield f"{what} is not in the queue of lane {lane} as it is among all with a lane"


async def _scores(
    server: Server, base: str, laned: Sequence[tuple[str, str]]
) -> list[list[bytes | None]]:
    """Of each: in `waiting`, `laned`, and the queue of its lane."""
    commands: list[tuple[Argument, ...]] = []
    for schedule, lane in laned:
        names = (keys.WAITING, keys.LANED, keys.LANE_QUEUE + lane)
        commands += (("ZSCORE", base + name, schedule) for name in names)
    scores = await server.reads(commands, at_once=base) if commands else []
    return [scores[3 * place : 3 * place + 3] for place in range(len(laned))]
