"""Schedules as their owners see them: created, read, listed, changed, cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler import ids
from scheduler.errors import (
    Conflict,
    NotFound,
    StoreUnavailable,
)
from scheduler.models import Schedule, Status
from scheduler.store import keys, stored
from scheduler.store.lifecycle.cancelling import Cancelled, cancelling
from scheduler.store.lifecycle.change import Changing
from scheduler.store.lifecycle.create import Creating
from scheduler.store.log.timeline import lowered, span
from scheduler.store.queries.failed import Failed
from scheduler.store.queries.listing import SchedulePage
from scheduler.store.queries.reading import read_one, whole
from scheduler.store.queries.unended import Unended
from scheduler.store.retention import Retention
from scheduler.store.scans import Scans
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.clock import StoreClock

_MOST_CHANGES_MET = 20

_CANCEL = Script("lifecycle/cancel")
_STOP = Script("lifecycle/stop")

# What the scripts answer; their headers say it at length.
_DONE, _NO_SUCH, _ENDED, _HELD = 1, 0, -1, -2


class Schedules(Creating, Changing):
    """Creates, reads, lists, changes and cancels schedules."""

    def __init__(
        self, server: Server, clock: StoreClock, retention: Retention, scans: Scans
    ) -> None:
        super().__init__(server, clock, retention, Failed(server, clock, retention, scans))
        self._scans = scans
        self._unended = Unended(server)
        # By this process, since it began.
        self.cancelled = 0

    async def get(self, account_id: str, schedule_id: str) -> Schedule:
        """The schedule as it stands. Raises NotFound for an unknown one or another account's,
        Damaged."""
        with whole(schedule_id):
            found = await self._stored(account_id, schedule_id)
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

    async def cancel(self, account_id: str, schedule_id: str) -> Cancelled:
        """Cancels a schedule before its first attempt and gives its credit back; between two
        attempts it stops the rest, and the schedule has failed as the last one did.

        Raises NotFound, Conflict if it has ended or a worker holds it, or Damaged. Refunds once,
        however often it is called or a reply is lost.
        """
        operation = ids.new_operation()
        for _ in range(_MOST_CHANGES_MET):
            with whole(schedule_id):
                found = await self._stored(account_id, schedule_id)
                arguments = cancelling(
                    schedule_id, operation, found, self._retention, self._secrecy
                )
            script = _STOP if found.attempt else _CANCEL
            code, credits, outcome = await self._written(
                script, keys.account(account_id), arguments
            )
            if code == _DONE:
                done = Cancelled.of(found, int(credits))
                self.cancelled += done.stopped is None
                return done
            with whole(schedule_id):
                _refuse(code, outcome)
        raise StoreUnavailable("The schedule keeps changing; try again")

    async def _written(self, script: Script, key: str, arguments: Sequence[Argument]) -> Any:
        return await self._server.repeated(lambda: self._server.write(script, key, arguments))

    async def _stored(self, account_id: str, schedule_id: str) -> stored.Fields:
        return await read_one(self._server, account_id, schedule_id)


def _refuse(code: int, outcome: bytes) -> None:
    """Raises what a change that did not happen means; returns if it may be tried again."""
    if code == _NO_SUCH:
        raise NotFound("There is no such schedule")
    if code == _ENDED:
        ended = stored.ended_status(outcome)
        raise Conflict(f"The schedule is {ended} already", ended)
    if code == _HELD:
        raise Conflict("Execution has started", Status.SCHEDULED)
