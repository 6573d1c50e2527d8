"""Lists of schedules by status or callback, of those that have ended too, while they are kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from scheduler import ids
from scheduler.callbacks import CallbackStatus
from scheduler.models import LogStatus, Schedule, Status
from scheduler.store.log.ended import Ended
from scheduler.store.log.logs import CALLBACK_LISTS, LogQuery
from scheduler.store.queries.listing import (
    ListOf,
    Member,
    SchedulePage,
    Selection,
    Sieve,
)
from scheduler.store.queries.members import read_members
from scheduler.store.queries.timeline import Found, Span, encode_cursor, kept_since, merge, span
from scheduler.store.queries.unended import Unended
from scheduler.store.retention import Retention
from scheduler.store.scans import Scan, Scans
from scheduler.store.server import Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.stored import FIELDS

# How many one page may look at: of a search, which counts, and else, where many may be gone.
_BUDGET, _UNCOUNTED = 2000, 400
# What a list is read for: how many wanted ones, which, the work, and the sieve.
_Look = tuple[int, Callable[[Schedule], bool], Scan, Sieve]


class Kept:
    """On the log's timeline: an ended schedule stands where it ended, any other where it is due."""

    def __init__(
        self,
        server: Server,
        clock: StoreClock,
        retention: Retention,
        scans: Scans,
        unended: Unended,
    ) -> None:
        self._server = server
        self._clock = clock
        self._scans = scans
        self._unended = unended
        self._log = Ended(server, clock, retention)
        # Those that are kept for the same time.
        self._groups = (
            (frozenset({Status.COMPLETED, Status.CANCELLED}), retention.schedule_ms),
            (frozenset({Status.FAILED}), retention.failed_kept_ms),
        )

    async def page(
        self,
        account_id: str,
        statuses: Collection[Status],
        selected: Selection,
        *,
        descending: bool = True,
        callback: CallbackStatus | None = None,
    ) -> SchedulePage:
        """With `callback` those whose callback stands so: a pending one where it is sent next, a
        failed one where it has failed. Raises InvalidRequest for a bad cursor, TooManyScans.
        Read-only."""
        stretch = span(selected.from_ms, selected.to_ms, selected.cursor, down=descending)
        searches = selected.searches or callback is not None

        def wanted(schedule: Schedule) -> bool:
            state = schedule.callback
            stands = callback is None or (state is not None and state.status is callback)
            return stands and selected.wants(schedule)

        async with self._scans.of(account_id, searches=searches) as scan:
            look = (selected.limit + 1, wanted, scan, selected.sieve)
            if callback in CALLBACK_LISTS:
                listed = _CalledBack(CALLBACK_LISTS[callback], statuses, self._server, self._scans)
                sources = [await listed.read(account_id, stretch, *look)]
            else:
                budget = _BUDGET if searches else _UNCOUNTED
                sources = await self._sources(account_id, statuses, selected, stretch, look, budget)
        page = merge(sources, selected.limit, stretch)
        return SchedulePage(page.entries, encode_cursor(page.next) if page.next else None)

    async def _sources(
        self,
        account_id: str,
        statuses: Collection[Status],
        selected: Selection,
        stretch: Span,
        look: _Look,
        budget: int,
    ) -> list[Found[Schedule]]:
        groups = [(each & {*statuses}, kept_ms) for each, kept_ms in self._groups]
        groups = [group for group in groups if group[0]]
        waits = Status.SCHEDULED in statuses
        bounds = (len(groups) + waits, budget)
        _, wanted, scan, _ = look
        # Waiting schedules come first: one that ends in between is seen twice, not never.
        found = None
        if waits and selected.reference is not None:
            found = await self._unended.few(account_id, selected.reference, stretch, wanted, scan)
        if waits and found is None:
            found = await self._unended.read(account_id, stretch, *look, bounds)
        unended = found or Found[Schedule]([], None)
        sources = []
        for group, kept_ms in groups:
            ended = _EndedOf(
                account_id, group, selected, self._log, scan, self._server, self._scans
            )
            kept = kept_since(stretch, self._clock.now_ms() - kept_ms)
            sources.append(await ended.read(account_id, kept, *look, bounds))
        gone = {each.schedule_id for source in sources for _, each in source.entries}
        left = [each for each in unended.entries if each[1].schedule_id not in gone]
        return [unended._replace(entries=left), *sources]


class _EndedOf(ListOf):
    """Schedules of some statuses, as the log has their ends. Some may be kept no longer."""

    def __init__(
        self,
        account_id: str,
        statuses: frozenset[Status],
        selected: Selection,
        log: Ended,
        scan: Scan,
        server: Server,
        scans: Scans,
    ) -> None:
        super().__init__(server, scans)
        self._account_id = account_id
        self._statuses = statuses
        self._logged = LogQuery(
            [LogStatus(each) for each in statuses],
            selected.url,
            lane=selected.lane,
            reference=selected.reference,
            label=selected.label,
            recurring_id=selected.recurring_id,
        ).ended()
        self._log, self._scan = log, scan

    async def _members(
        self, base: str, stretch: Span, most: int, lane: str | None
    ) -> tuple[Found[Member], bool, Sequence[str]]:
        found = await self._log.read(self._account_id, stretch, most, self._logged, self._scan)
        members = [(place, (each.schedule_id, False)) for place, each in found.entries]
        return Found(members, found.reached), False, FIELDS


class _CalledBack(ListOf):
    """Ended schedules in a set of callbacks. Some may be gone from there, or kept no longer."""

    def __init__(
        self, index: str, statuses: Collection[Status], server: Server, scans: Scans
    ) -> None:
        super().__init__(server, scans)
        self._index = index
        self._statuses = frozenset(statuses)

    async def _members(
        self, base: str, stretch: Span, most: int, lane: str | None
    ) -> tuple[Found[Member], bool, Sequence[str]]:
        [listed], kind = await read_members(self._server, base, (self._index,), stretch, most)
        found = [(place, (ids.schedule_id(place.tie), False)) for place, _ in listed.found]
        return Found(found, listed.reached), kind.light, FIELDS
