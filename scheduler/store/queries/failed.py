"""Dead letters: schedules that ended as failed, in the order of their end and id, as long as they
are kept and until they are replayed."""

from __future__ import annotations

from scheduler import ids
from scheduler.models import Schedule
from scheduler.store import keys
from scheduler.store.queries.listing import SchedulePage, Selection
from scheduler.store.queries.members import read_members
from scheduler.store.queries.reading import may_have, of_a_list, read_on, read_rows
from scheduler.store.queries.timeline import Found, Place, Span, lowered, span
from scheduler.store.retention import Retention
from scheduler.store.scans import Scan, Scans
from scheduler.store.server import Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.stored import kept_part


class Failed:
    """Reads an account's dead letters."""

    def __init__(
        self, server: Server, clock: StoreClock, retention: Retention, scans: Scans
    ) -> None:
        self._server = server
        self._scans = scans
        self._clock = clock
        self._kept_ms = retention.failed_ms

    async def page(
        self, account_id: str, selected: Selection, *, descending: bool = False
    ) -> SchedulePage:
        """A page of them, by their end; it may be short before the list is over. Read-only.

        Raises InvalidRequest for a bad cursor, TooManyScans. What stays as it is meanwhile is
        neither skipped nor repeated.
        """
        asked = span(selected.from_ms, selected.to_ms, selected.cursor, down=descending)
        stretch = self._kept(asked)

        part = kept_part(lowered(selected.url or ""))

        async def chunk(rest: Span, most: int) -> tuple[Found[Schedule], int]:
            return await self._chunk(account_id, rest, most, scan, part)

        async with self._scans.of(account_id, searches=selected.is_search) as scan:
            found = await read_on(chunk, stretch, selected.limit + 1, selected.wants)
        return SchedulePage.of(found, selected.limit, stretch)

    def _kept(self, stretch: Span) -> Span:
        """The part of it that is promised to be kept; what is older goes as others come."""
        oldest_ms = self._clock.now_ms() - self._kept_ms
        if stretch.down:
            return stretch._replace(end_ms=max(stretch.end_ms, oldest_ms))
        return stretch._replace(after=max(stretch.after, Place(oldest_ms)))

    async def _chunk(
        self, account_id: str, stretch: Span, most: int, scan: Scan, part: bytes
    ) -> tuple[Found[Schedule], int]:
        """The next ones, and how many bytes of requests and answers were read."""
        base = keys.account(account_id)
        [members], light = await read_members(self._server, base, (keys.FAILED,), stretch, most)
        places = [place for place, _ in members.found]
        names = [each.tie for each in places]
        rows = await read_rows(self._server, account_id, names, ("r", "o", "s"), light=light)
        reached = members.reached if len(rows) == len(places) else places[len(rows) - 1]
        entries: list[tuple[Place, Schedule]] = []
        unpacked = 0
        for place, (packed, outcome, said) in zip(places, rows, strict=False):
            if packed and may_have(packed, part):
                unpacked += 1
                name = ids.schedule_id(place.tie)
                letter = of_a_list(self._server.secrecy, name, packed, outcome, said=said)
                if letter is not None:
                    entries.append((place, letter))
        read_bytes = sum(len(row[0] or b"") + len(row[2] or b"") for row in rows)
        scan.add(len(rows), unpacked, read_bytes)
        return Found(entries, reached), read_bytes
