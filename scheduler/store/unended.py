"""Schedules that have not ended, listed by triggerAt and id: those that wait, and those that a
worker holds."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.models import Schedule, Status
from scheduler.store import packing
from scheduler.store.scripts import Scripts
from scheduler.store.timeline import WAITING, Found, Place, Span

# How many members one page may look at, and how many one round trip brings.
_BUDGET = 2000
_CHUNK = 200
_FIELDS_PER_ROW = 4


class Unended:
    """Reads an account's unended schedules."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def read(
        self, account_id: str, span: Span, limit: int, wanted: Callable[[Schedule], bool]
    ) -> Found[Schedule]:
        """At least `limit` wanted ones, if the budget reaches so far. Read-only."""
        found: list[tuple[Place, Schedule]] = []
        reached: Place | None = span.after
        looked_at = 0
        while reached is not None and looked_at < _BUDGET and len(found) < limit:
            chunk = await self._chunk(account_id, span._replace(after=reached))
            found += [each for each in chunk.entries if wanted(each[1])]
            reached, looked_at = chunk.reached, looked_at + _CHUNK
        return Found(found, reached)

    async def _chunk(self, account_id: str, span: Span) -> Found[Schedule]:
        """The next ones of both sets, merged up to where both were read."""
        after = span.after
        tie = after.tie if after.kind == WAITING else ""
        replies = await self._scripts.waiting_page(
            account_id, (after.ms, tie), down=span.down, most=_CHUNK
        )
        sets = [
            _schedules(values, span, executing=held)
            for values, held in zip(replies, (False, True), strict=True)
        ]
        stop = span.nearest(each.reached for each in sets)
        entries = [entry for each in sets for entry in each.entries]
        entries.sort(key=lambda entry: entry[0], reverse=span.down)
        return Found([e for e in entries if stop is None or not span.past(e[0], stop)], stop)


def _schedules(values: list[bytes], span: Span, *, executing: bool) -> Found[Schedule]:
    """One set's reply, cut where the span ends."""
    entries: list[tuple[Place, Schedule]] = []
    place = None
    rows = list(zip(*[iter(values)] * _FIELDS_PER_ROW, strict=True))
    for schedule, score, packed, created, *_ in rows:
        place = Place(int(float(score)), WAITING, schedule.decode())
        if span.past_end(place.ms):
            return Found(entries, None)
        if packed:
            schedule = Schedule(
                schedule_id="sch_" + place.tie,
                created_at_ms=int(created),
                request=packing.unpack_request(packed),
                status=Status.SCHEDULED,
                executing=executing,
            )
            entries.append((place, schedule))
    return Found(entries, place if len(rows) == _CHUNK else None)
