"""Schedules that have not ended, in the order of when they are due (triggerAt, or the next attempt)
and id: waiting ones and, among them, those that a worker holds."""

from __future__ import annotations

from collections.abc import Callable

from scheduler import ids
from scheduler.models import Schedule
from scheduler.store import keys
from scheduler.store.queries.members import read_members
from scheduler.store.queries.reading import may_have, of_a_list, read_on, read_rows
from scheduler.store.queries.timeline import Found, Place, Span
from scheduler.store.scans import Scan
from scheduler.store.server import Server
from scheduler.store.stored import kept_part


class Unended:
    """Reads an account's unended schedules."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def read(
        self,
        account_id: str,
        span: Span,
        limit: int,
        wanted: Callable[[Schedule], bool],
        scan: Scan,
        part: bytes = b"",
    ) -> Found[Schedule]:
        """At least `limit` wanted ones, if the budget reaches so far. Read-only. What was looked at
        is added to the scan.

        Those that cannot have `part` of a URL, in small letters, in theirs may be left out unread.
        """

        async def chunk(rest: Span, most: int) -> tuple[Found[Schedule], int]:
            return await self._chunk(account_id, rest, most, scan, kept_part(part))

        return await read_on(chunk, span, limit, wanted)

    async def _chunk(
        self, account_id: str, span: Span, most: int, scan: Scan, part: bytes
    ) -> tuple[Found[Schedule], int]:
        """The next ones of both sets, merged up to where both were read; and how many bytes."""
        base = keys.account(account_id)
        names = (keys.WAITING, keys.HELD)
        sets, light = await read_members(self._server, base, names, span, most)
        waiting, held = (each.found for each in sets)
        executing = {place for place, _ in held}
        # In `waiting`, one that a worker holds stands at its lease's end, which is no whole
        # millisecond: it is shown where it stands in `held`.
        places = [*executing, *(place for place, score in waiting if score == place.ms)]
        stop = span.nearest(each.reached for each in sets)
        places = [each for each in places if stop is None or not span.past(each, stop)]
        places.sort(reverse=span.down)
        shown = [each.tie for each in places[:most]]
        rows = await read_rows(self._server, account_id, shown, ("r", "o", "n", "s"), light=light)
        if len(rows) < len(places):
            stop = places[len(rows) - 1]
        entries: list[tuple[Place, Schedule]] = []
        unpacked = 0
        for place, (packed, outcome, attempt, said) in zip(places, rows, strict=False):
            # It may have ended since, or come to be without the request.
            if packed and not outcome and may_have(packed, part):
                held_now, name = place in executing, ids.schedule_id(place.tie)
                schedule = of_a_list(
                    self._server.secrecy,
                    name,
                    packed,
                    attempt=attempt,
                    said=said,
                    executing=held_now,
                )
                unpacked += 1
                if schedule is not None:
                    entries.append((place, schedule))
        read_bytes = sum(len(packed or b"") for packed, *_ in rows)
        scan.add(len(waiting) + len(held), unpacked, read_bytes)
        return Found(entries, stop), read_bytes
