"""Dead letters: schedules that ended as failed, in the order of their end and id, as long as they
are kept and until they are replayed."""

from __future__ import annotations

from scheduler.models import Schedule
from scheduler.store import keys
from scheduler.store.queries.listing import SchedulePage, Selection
from scheduler.store.queries.members import read_members
from scheduler.store.queries.reading import read_list, read_on
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
        letters = Found([(place, False) for place, _ in members.found], members.reached)
        return await read_list(self._server, account_id, letters, part, scan, light=light)
