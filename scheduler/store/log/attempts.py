"""Every entry of one schedule: its attempts, how it ended, or when it is due."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from scheduler import ids
from scheduler.errors import NotFound
from scheduler.models import LogEntry, LogStatus, Schedule
from scheduler.store.log.ended import Ended, Wanted
from scheduler.store.log.entries import unended_entry
from scheduler.store.queries.reading import read_stored
from scheduler.store.queries.timeline import WAITING, Found, Place, Span, lowered, span
from scheduler.store.scans import Scan
from scheduler.store.server import Server

# More than one schedule can have; and after how much work a search stops until the next page.
_MOST = 50
_LONGEST_SEARCH_US = 20_000


class Attempts:
    def __init__(self, server: Server, ended: Ended) -> None:
        self._server = server
        self._ended = ended

    async def read(
        self,
        account_id: str,
        schedule_id: str,
        stretch: Span,
        wanted: Callable[[LogEntry], bool],
        scan: Scan,
    ) -> list[Found[LogEntry]]:
        """The wanted ones of a stretch: of what waits, and of the log. While the schedule is kept,
        it leads to its last entry, and each entry to the one before. Without it, or where an entry
        is missing, the log is searched from the creation on. The last attempt has the answer and
        phases that are kept with the schedule. Raises Damaged, Unreadable. Read-only."""
        schedule = await self._schedule(account_id, schedule_id)
        each_of = Wanted(_of(ids.local(schedule_id)), part=lowered(ids.local(schedule_id)))
        waiting: list[tuple[Place, LogEntry]] = []
        logged: list[tuple[Place, LogEntry]] | None = None
        reached: Place | None = None
        if schedule is not None:
            waiting = _waiting(schedule)
            logged = await self._chain(account_id, _last_ms(schedule), each_of, scan)
        if logged is None:
            logged, reached = await self._search(account_id, schedule_id, stretch, each_of, scan)

        def shown(entries: list[tuple[Place, LogEntry]]) -> list[tuple[Place, LogEntry]]:
            found = [
                (place, _detailed(entry, schedule))
                for place, entry in entries
                if stretch.has(place)
                if wanted(entry)
            ]
            return sorted(found, key=lambda each: each[0], reverse=stretch.down)

        return [Found(shown(waiting), None), Found(shown(logged), reached)]

    async def _schedule(self, account_id: str, schedule_id: str) -> Schedule | None:
        try:
            return (await read_stored(self._server, account_id, schedule_id)).schedule
        except NotFound:
            return None

    async def _chain(
        self, account_id: str, at_ms: int | None, each_of: Wanted, scan: Scan
    ) -> list[tuple[Place, LogEntry]] | None:
        """From the entry of this moment back to the first; None if one is missing."""
        found: list[tuple[Place, LogEntry]] = []
        while at_ms is not None:
            moment = span(at_ms, at_ms + 1, None, down=True)
            some = (await self._ended.read(account_id, moment, _MOST, each_of, scan)).entries
            if not some or len(found) > _MOST:
                return None
            found += some
            # Those of one moment, as after a clock was set back, are all there.
            before_ms = some[-1][1].before_ms
            at_ms = None if before_ms == at_ms else before_ms
        return found

    async def _search(
        self, account_id: str, schedule_id: str, stretch: Span, each_of: Wanted, scan: Scan
    ) -> Found[LogEntry]:
        """Until an entry that has none behind it, or for as long as a search may last."""
        created_ms = ids.created_at_ms(schedule_id)
        if stretch.down:
            stretch = stretch._replace(end_ms=max(stretch.end_ms, created_ms))
        else:
            stretch = stretch._replace(after=max(stretch.after, Place(created_ms)))
        found: list[tuple[Place, LogEntry]] = []
        reached: Place | None = stretch.after
        while reached is not None and scan.us < _LONGEST_SEARCH_US:
            rest = stretch._replace(after=reached)
            some = await self._ended.read(account_id, rest, 1, each_of, scan)
            found += some.entries
            reached = some.reached
            if any(_is_outermost(entry, down=stretch.down) for _, entry in some.entries):
                reached = None
        return Found(found, reached)


def _of(name: str) -> Callable[..., bool]:
    return lambda entry: entry.schedule == name


def _waiting(schedule: Schedule) -> list[tuple[Place, LogEntry]]:
    entry = unended_entry(schedule)
    place = Place(entry.at_ms, WAITING, ids.local(schedule.schedule_id))
    return [(place, entry)] if schedule.ended_at_ms is None else []


def _last_ms(schedule: Schedule) -> int | None:
    """The moment of its last entry in the log; None if it has none yet."""
    if schedule.ended_at_ms is not None:
        return schedule.ended_at_ms
    return schedule.retry.failed_at_ms if schedule.retry else None


def _is_outermost(entry: LogEntry, *, down: bool) -> bool:
    """Whether it is the first of its schedule; upwards, whether it is the last."""
    return entry.before_ms is None if down else entry.status is not LogStatus.RETRYING


def _detailed(entry: LogEntry, schedule: Schedule | None) -> LogEntry:
    """With the answer and the phases of the last attempt, which are kept with the schedule."""
    outcome = schedule.last_outcome if schedule else None
    if schedule is None or outcome is None:
        return entry
    if (entry.at_ms, entry.attempt) != (_last_ms(schedule), schedule.attempts):
        return entry
    return msgspec.structs.replace(entry, answer=outcome.answer, phases=outcome.known_phases)
