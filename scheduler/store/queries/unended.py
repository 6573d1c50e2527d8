"""Schedules that have not ended, in the order of when they are due (triggerAt, or the next attempt)
and id: waiting ones and, among them, those that a worker holds."""

from __future__ import annotations

from collections.abc import Callable

from scheduler import ids
from scheduler.models import Schedule
from scheduler.store import keys
from scheduler.store.log.timeline import WAITING, Found, Place, Span
from scheduler.store.queries.reading import CHUNK_BYTES, of_a_list, read_on
from scheduler.store.scans import Scan
from scheduler.store.secrecy import Secrecy
from scheduler.store.server import Script, Server
from scheduler.store.stored import kept_part

_FIELDS_PER_ROW = 5

_PAGE = Script("queries/page")


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
        kept = kept_part(part)

        async def chunk(rest: Span, most: int) -> tuple[Found[Schedule], int]:
            return await self._chunk(account_id, rest, most, scan, kept)

        return await read_on(chunk, span, limit, wanted)

    async def _chunk(
        self, account_id: str, span: Span, most: int, scan: Scan, part: bytes
    ) -> tuple[Found[Schedule], int]:
        """The next ones of both sets, merged up to where both were read; and how many bytes."""
        after = span.after
        tie = after.tie if after.kind == WAITING else ""
        arguments = (after.ms, tie, int(span.down), most, CHUNK_BYTES, part)
        replies = await self._server.run(_PAGE, keys.account(account_id), arguments)
        sets = [
            _schedules(values, more == b"1", span, self._server.secrecy, executing=held)
            for (values, more, _), held in zip(replies, (False, True), strict=True)
        ]
        stop = span.nearest(each.reached for each in sets)
        entries = [entry for each in sets for entry in each.entries]
        entries.sort(key=lambda entry: entry[0], reverse=span.down)
        packed = [each for values, _, _ in replies for each in values[2::_FIELDS_PER_ROW]]
        read_bytes = sum(size_bytes for _, _, size_bytes in replies)
        scan.add(len(packed), sum(map(bool, packed)), read_bytes)
        entries = [e for e in entries if stop is None or not span.past(e[0], stop)]
        return Found(entries, stop), read_bytes


def _schedules(
    values: list[bytes], more: bool, span: Span, secrecy: Secrecy, *, executing: bool
) -> Found[Schedule]:
    """One set's reply, cut where the span ends."""
    entries: list[tuple[Place, Schedule]] = []
    place = span.after
    for name, score, packed, attempt, said in zip(*[iter(values)] * _FIELDS_PER_ROW, strict=True):
        place = Place(int(float(score)), WAITING, name.decode())
        if span.past_end(place.ms):
            return Found(entries, None)
        if packed:
            schedule = of_a_list(
                secrecy,
                ids.schedule_id(place.tie),
                packed,
                attempt=attempt,
                said=said or None,
                executing=executing,
            )
            if schedule is not None:
                entries.append((place, schedule))
    return Found(entries, place if more else None)
