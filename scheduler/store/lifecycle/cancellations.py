"""Cancelling many at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

from scheduler import ids
from scheduler.errors import (
    Conflict,
    Damaged,
    NotFound,
    OutcomeUnknown,
    PostdateError,
    StoreError,
)
from scheduler.models import Retry, Status
from scheduler.store import keys, stored
from scheduler.store.lifecycle.schedules import Schedules
from scheduler.store.log.entries import entry, pack_entry, url_place
from scheduler.store.log.timeline import span
from scheduler.store.queries.listing import SchedulePage, Selection
from scheduler.store.queries.reading import Stored, read_by_id
from scheduler.store.queries.unended import Unended
from scheduler.store.retention import Retention
from scheduler.store.scans import Scans
from scheduler.store.server import Script, Server
from scheduler.store.server.line import Argument

_MOST_CHANGES_MET = 20

_CANCEL_ALL = Script("lifecycle/cancel_all")

# What the script answers of each; its header says it at length. A digit is a status.
_CANCELLED, _CHANGED, _HELD, _UNKNOWN, _ATTEMPTED = "c", "r", "h", "0", "a"
# What is found before it is asked.
_DAMAGED = "d"


class Cancellation(NamedTuple):
    """What came of one of them: it was cancelled, unless there is a refusal, or stopped after an
    attempt."""

    schedule_id: str
    refusal: PostdateError | None = None
    stopped: Retry | None = None


def unknown(schedule_id: str) -> Cancellation:
    """Of what is no schedule's id."""
    return Cancellation(schedule_id, _refusal(schedule_id, _UNKNOWN))


class Cancellations(NamedTuple):
    """What came of each, in order, and the credits then left. `next_cursor`: where the list goes
    on that they were taken from."""

    each: list[Cancellation]
    credits: int
    next_cursor: str | None = None


class Canceller:
    """Cancels many that wait, and gives their credits back."""

    def __init__(
        self, server: Server, retention: Retention, schedules: Schedules, scans: Scans
    ) -> None:
        self._server = server
        self._scans = scans
        self._retention = retention
        self._schedules = schedules
        self._unended = Unended(server)
        # By this process, since it began.
        self.cancelled = 0

    async def by_id(self, account_id: str, schedule_ids: Sequence[str]) -> Cancellations:
        """Cancels those that still wait, each once, a bounded group of them in one step, with which
        the group's credits come back. Safe to repeat: nothing is refunded twice, and what was
        cancelled before is told to be. Raises StoreUnavailable if nothing was changed,
        OutcomeUnknown if groups before that one were done, or it may have been itself."""
        done: list[Cancellation] = []
        codes: dict[str, str] = {}
        try:
            async for group in self._read(account_id, list(dict.fromkeys(schedule_ids))):
                await self._cancel(account_id, group, codes)
                for name, _ in group:
                    done.append(await self._told(account_id, name, codes[name]))
            return Cancellations(done, await self._credits(account_id))
        except StoreError as error:
            if _CANCELLED in codes.values() or any(each.stopped for each in done):
                raise OutcomeUnknown("Some were cancelled before the store failed") from error
            raise
        finally:
            self.cancelled += sum(code == _CANCELLED for code in codes.values())

    async def waiting(self, account_id: str, selected: Selection) -> Cancellations:
        """Cancels those that wait, by triggerAt; as `by_id`. They leave the list, so that a repeat
        goes on with others. Raises InvalidRequest for a bad cursor, TooManyScans."""
        stretch = span(selected.from_ms, selected.to_ms, selected.cursor, down=False)
        async with self._scans.of(account_id, searches=selected.is_search) as scan:
            found = await self._unended.read(
                account_id,
                stretch,
                selected.limit + 1,
                lambda each: not each.executing and selected.wants(each),
                scan,
            )
        page = SchedulePage.of(found, selected.limit, stretch)
        done = await self.by_id(account_id, [each.schedule_id for each in page.schedules])
        return done._replace(next_cursor=page.next_cursor)

    async def _read(
        self, account_id: str, schedule_ids: Sequence[str]
    ) -> AsyncIterator[list[tuple[str, Stored | Damaged | None]]]:
        read = 0
        async for chunk in read_by_id(self._server, account_id, schedule_ids):
            yield list(zip(schedule_ids[read:], chunk, strict=False))
            read += len(chunk)

    async def _cancel(
        self,
        account_id: str,
        group: list[tuple[str, Stored | Damaged | None]],
        codes: dict[str, str],
    ) -> None:
        """Notes in `codes` what came of each in a group; those that were changed meanwhile are
        tried again."""
        for _ in range(_MOST_CHANGES_MET):
            there = {name: each for name, each in group if isinstance(each, Stored)}
            codes |= {name: _UNKNOWN for name, each in group if each is None}
            codes |= {name: _DAMAGED for name, each in group if isinstance(each, Damaged)}
            if there:
                codes |= await self._step(account_id, list(there.values()))
            again = [name for name, _ in group if codes[name] == _CHANGED]
            if not again:
                return
            group = [pair async for chunk in self._read(account_id, again) for pair in chunk]

    async def _step(self, account_id: str, group: Sequence[Stored]) -> dict[str, str]:
        kept = self._retention
        arguments: list[Argument] = [ids.new_operation(), kept.schedule_ms]
        arguments += (kept.log_ms, kept.log_entries)
        for schedule, packed in group:
            name, request = schedule.schedule_id, schedule.request
            logged = pack_entry(entry(name, request, None))
            ending = stored.seal_cancelled(request, self._server.secrecy)
            arguments += (ids.local(name), packed, *ending)
            arguments += (logged, *url_place(request.url))
        account = keys.account(account_id)
        codes = await self._server.repeated(
            lambda: self._server.write(_CANCEL_ALL, account, arguments)
        )
        names = (schedule.schedule_id for schedule, _ in group)
        return dict(zip(names, codes.decode(), strict=True))

    async def _told(self, account_id: str, schedule_id: str, code: str) -> Cancellation:
        """What came of one. Between two attempts no credit moves, and it ends by itself."""
        if code != _ATTEMPTED:
            return Cancellation(schedule_id, _refusal(schedule_id, code))
        try:
            done = await self._schedules.cancel(account_id, schedule_id)
        except (NotFound, Conflict, Damaged) as refusal:
            return Cancellation(schedule_id, refusal)
        return Cancellation(schedule_id, stopped=done.stopped)

    async def _credits(self, account_id: str) -> int:
        account = keys.account(account_id) + keys.ACCOUNT
        [credits] = await self._server.reads([("HGET", account, "credits")])
        return int(credits or 0)


def _refusal(schedule_id: str, code: str) -> PostdateError | None:
    match code:
        case "c":
            return None
        case "d":
            return Damaged(schedule_id)
        case "0":
            return NotFound("There is no such schedule")
        case "h":
            return Conflict("Execution has started", Status.SCHEDULED)
        case "r":
            return Conflict("The schedule keeps changing; try again", Status.SCHEDULED)
    ended = Status(stored.STATUSES[int(code)])
    return Conflict(f"The schedule is {ended} already", ended)
