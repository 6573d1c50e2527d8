"""Schedules that have not ended, in the order of when they are due (triggerAt, or the next attempt)
and id: waiting ones and, among them, those that a worker holds."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.models import Schedule, Status
from scheduler.store import keys
from scheduler.store.queries.listing import SchedulePage, Selection
from scheduler.store.queries.members import read_members
from scheduler.store.queries.reading import read_list, read_on
from scheduler.store.queries.timeline import Found, Span, lowered, span
from scheduler.store.scans import Scan, Scans
from scheduler.store.server import Server
from scheduler.store.stored import kept_part


class Unended:
    """Reads an account's unended schedules."""

    def __init__(self, server: Server, scans: Scans) -> None:
        self._server = server
        self._scans = scans

    async def page(
        self,
        account_id: str,
        selected: Selection,
        *,
        descending: bool = False,
        with_held: bool = True,
    ) -> SchedulePage:
        """A page of them; with a URL it may be short before the end. Without `with_held`, those
        that a worker holds are left out. Read-only.

        Raises InvalidRequest for a bad cursor, TooManyScans. What stays as it is meanwhile is
        neither skipped nor repeated, though thousands share a millisecond and others come and go.
        """
        stretch = span(selected.from_ms, selected.to_ms, selected.cursor, down=descending)

        def wanted(each: Schedule) -> bool:
            return selected.wants(each) and (with_held or not each.executing)

        async with self._scans.of(account_id, searches=selected.is_search) as scan:
            part = lowered(selected.url or "")
            found = await self.read(account_id, stretch, selected.limit + 1, wanted, scan, part)
        return SchedulePage.of(found, selected.limit, stretch)

    async def read(
        self,
        account_id: str,
        span: Span,
        limit: int,
        wanted: Callable[[Schedule], bool],
        scan: Scan,
        part: bytes = b"",
    ) -> Found[Schedule]:
        """At least `limit` wanted ones, if the budget reaches so far. Adds to the scan. Read-only.

        Those that cannot have `part` of a URL, in small letters, in theirs may be left out unread.
        """

        async def chunk(rest: Span, most: int) -> tuple[Found[Schedule], int]:
            return await self._chunk(account_id, rest, most, scan, kept_part(part))

        return await read_on(chunk, span, limit, wanted)

    async def _chunk(
        self, account_id: str, span: Span, most: int, scan: Scan, part: bytes
    ) -> tuple[Found[Schedule], int]:
        """The next ones of both sets, merged up to where both were read; and how many bytes."""
        base, names = keys.account(account_id), (keys.WAITING, keys.HELD)
        sets, light = await read_members(self._server, base, names, span, most)
        waiting, held = (each.found for each in sets)
        # In `waiting`, one that a worker holds stands at its lease's end, which is no whole
        # millisecond: it is shown where it stands in `held`.
        places = {place: False for place, score in waiting if score == place.ms}
        places |= dict.fromkeys((place for place, _ in held), True)
        stop = span.nearest(each.reached for each in sets)
        members = [each for each in places.items() if stop is None or not span.past(each[0], stop)]
        members.sort(reverse=span.down)
        if len(members) > most:
            stop = members[most - 1][0]
        shown = Found(members[:most], stop)
        found, size = await read_list(self._server, account_id, shown, part, scan, light=light)
        # It may have ended since.
        left = [each for each in found.entries if each[1].status is Status.SCHEDULED]
        return found._replace(entries=left), size
