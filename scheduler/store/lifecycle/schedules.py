"""Schedules as their owners see them: created, replayed, read, listed, changed."""

from __future__ import annotations

from scheduler.models import Schedule
from scheduler.store import stored
from scheduler.store.lifecycle.change import Changing
from scheduler.store.lifecycle.create import Creating
from scheduler.store.queries.failed import Failed
from scheduler.store.queries.listing import SchedulePage
from scheduler.store.queries.reading import read_one, whole
from scheduler.store.queries.timeline import lowered, span
from scheduler.store.queries.unended import Unended
from scheduler.store.retention import Retention
from scheduler.store.scans import Scans
from scheduler.store.server import Server
from scheduler.store.server.clock import StoreClock


class Schedules(Creating, Changing):
    """Creates, replays, reads, lists and changes schedules."""

    def __init__(
        self,
        server: Server,
        clock: StoreClock,
        retention: Retention,
        scans: Scans,
        failed: Failed,
    ) -> None:
        super().__init__(server, clock, retention, failed)
        self._scans = scans
        self._unended = Unended(server)

    async def get(self, account_id: str, schedule_id: str) -> Schedule:
        """The schedule as it stands. Raises NotFound for an unknown one or another account's,
        Damaged."""
        with whole(schedule_id):
            found = await read_one(self._server, account_id, schedule_id)
            return stored.schedule(
                schedule_id,
                stored.open_request(found.packed, self._secrecy),
                found.outcome,
                found.replay,
                attempt=found.attempt,
                said=found.said,
                executing=found.held,
                secrecy=self._secrecy,
            )

    async def page(
        self,
        account_id: str,
        *,
        from_ms: int | None = None,
        to_ms: int | None = None,
        limit: int = 50,
        descending: bool = False,
        cursor: str | None = None,
        url: str | None = None,
        url_part: str = "",
    ) -> SchedulePage:
        """Those that have not ended, by triggerAt and id, a page at a time. Read-only.

        With `url`, only those of this very one, with `url_part`, those that have it in theirs, in
        small letters or large; a page may then be short before the end.

        Raises InvalidRequest for a bad cursor, TooManyScans. What stays as it is meanwhile is
        neither skipped nor repeated, though thousands share a millisecond and others come and go.
        """
        stretch = span(from_ms, to_ms, cursor, down=descending)
        part = lowered(url_part or url or "")
        async with self._scans.of(account_id, searches=bool(url is not None or part)) as scan:
            found = await self._unended.read(
                account_id,
                stretch,
                limit + 1,
                lambda each: part in lowered(each.request.url) and url in (None, each.request.url),
                scan,
                part,
            )
        return SchedulePage.of(found, limit, stretch)
