"""The schedules that the filter of a bulk action finds, and what the action reads of each."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler import ids
from scheduler.models import LogEntry, LogStatus
from scheduler.store.bulk.records import Asked, Planned
from scheduler.store.log.logs import LogQuery
from scheduler.store.queries.reading import Stored, read_by_id
from scheduler.store.server import Server


def query_of(values: dict[str, object]) -> LogQuery:
    """The latest first. Replays, and requests that are moved, come to stand later than where it has
    come to, so that none is met twice."""
    query = LogQuery(**values)  # type: ignore[arg-type]
    return query._replace(statuses=tuple(LogStatus(each) for each in query.statuses))


async def meant_of(
    server: Server, account_id: str, asked: Asked, entries: Sequence[LogEntry]
) -> tuple[dict[str, int], int]:
    """The schedules of these entries that the action is for, with their triggerAt (ms), and how
    many are left out: the next occurrences of recurring schedules, unless the filter names one.
    Another one would come for each that is cancelled. Raises StoreError."""
    # No schedule was made for a time that a recurring one missed.
    found = {
        each.schedule_id: each
        for each in entries
        if each.schedule_id and each.at_ms != asked.to_ms and _was_there(each, asked)
    }
    left = set[str]()
    if asked.kind.is_of_waiting and asked.query.get("recurring_id") is None:
        left = await next_occurrences(server, account_id, list(found.values()))
    meant = {name: each.scheduled_at_ms for name, each in found.items() if name not in left}
    return meant, len(left)


async def next_occurrences(
    server: Server, account_id: str, entries: Sequence[LogEntry]
) -> set[str]:
    """The schedules of these entries that are next occurrences of recurring schedules. Raises
    StoreError."""
    names = dict.fromkeys(
        each.schedule_id for each in entries if each.schedule_id and each.recurring_id is not None
    )
    found = set[str]()
    async for some in read_by_id(server, account_id, list(names)):
        stored = [each.schedule for each in some if isinstance(each, Stored)]
        found |= {each.schedule_id for each in stored if each.waits_for_slot}
    return found


async def times_of(server: Server, account_id: str, names: Sequence[str]) -> list[Planned]:
    """Each with its triggerAt (ms). Raises StoreError."""
    rows, left = list[Planned](), iter(names)
    async for chunk in read_by_id(server, account_id, names):
        for each, name in zip(chunk, left, strict=False):  # takes no name too many
            due_ms = each.schedule.request.trigger_at_ms if isinstance(each, Stored) else 0
            rows.append(Planned(name, due_ms))
    return rows


async def made_since(
    server: Server, account_id: str, names: Sequence[str], since_ms: int
) -> dict[str, str]:
    """Replays, by their originals, that a step made before it was repeated: the key of a script
    that was split another way, or is too old, does not find them. Somebody else's count too. Raises
    StoreError."""
    found = read_by_id(server, account_id, names)
    rows = [each.schedule async for some in found for each in some if isinstance(each, Stored)]
    last = {each.schedule_id: each.replayed_as for each in rows if each.replayed_as}
    return {name: new for name, new in last.items() if ids.created_at_ms(new) >= since_ms}


def _was_there(entry: LogEntry, asked: Asked) -> bool:
    return ids.created_at_ms(entry.schedule_id) <= asked.until_ms
