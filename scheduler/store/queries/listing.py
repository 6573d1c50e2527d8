"""Lists of schedules, and that of dead letters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from scheduler import ids
from scheduler.models import Schedule, Status
from scheduler.references import matches
from scheduler.runtime.pause import Pause
from scheduler.store import keys
from scheduler.store.heads import is_in_lane, is_occurrence_of
from scheduler.store.queries.members import read_members
from scheduler.store.queries.reading import Stored, read_rows, stored_or_damaged
from scheduler.store.queries.referred import (
    decode_member,
    encode_member,
    read_referred,
    schedule_of,
)
from scheduler.store.queries.timeline import (
    WAITING,
    Found,
    Place,
    Span,
    encode_cursor,
    kept_since,
    lowered,
    merge,
    span,
)
from scheduler.store.retention import Retention
from scheduler.store.scans import Scan, Scans
from scheduler.store.server import Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.stored import FIELDS, is_sealed
from scheduler.target.short_texts import kept_part

# How many schedules one round trip brings: the longest page, and whether another one follows.
CHUNK = 101
# How many members one page may look at, and how many bytes of requests it may read. A page that is
# over one of these is short.
_BUDGET = 2000
_MOST_BYTES = 4 * 1024 * 1024
# How much work, as searches count it: more than that, but for what finds its members by searching.
_MOST_US = 70_000


class Sieve(NamedTuple):
    """What is known of wanted schedules before their requests are opened: a part of the URL, by
    `kept_part` (b"": none), the lane, and the rule (None: any)."""

    part: bytes = b""
    lane: str | None = None
    recurring_id: str | None = None

    def lets_through(self, packed: bytes) -> bool:
        """Whether a stored request may be of one; a sealed one may have any part."""
        if self.lane is not None and not is_in_lane(packed, self.lane):
            return False
        if self.recurring_id is not None and not is_occurrence_of(packed, self.recurring_id):
            return False
        return not self.part or is_sealed(packed) or self.part in packed.lower()


class Selection(NamedTuple):
    """Which schedules of a list are meant: those of this very URL (None: any), whose moment is in
    `[from_ms, to_ms)`, at most so many, behind a cursor; those that a worker has if `executing`;
    those of a lane (None: of any and of none); those of a reference or, with `*` behind it, of all
    that begin so (None: any); those of a recurring schedule (None: of any and of none). With
    `others` none that waits for a slot of a recurring schedule, unless that is named. `held`: of
    those that wait, only due ones that something keeps from starting, or only others. `also` has to
    accept each as well."""

    url: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    limit: int = 50
    cursor: str | None = None
    executing: bool = True
    lane: str | None = None
    reference: str | None = None
    recurring_id: str | None = None
    others: bool = False
    held: bool | None = None
    also: Callable[[Schedule], bool] | None = None

    def leaves(self, schedule: Schedule) -> bool:
        """Whether it is left to its recurring schedule, though it would be meant otherwise."""
        return self.others and self.recurring_id is None and schedule.waits_for_slot

    @property
    def searches(self) -> bool:
        """Whether schedules are looked through for those that it names."""
        named = (self.url, self.lane, self.reference, self.recurring_id, self.held, self.also)
        return any(each is not None for each in named)

    @property
    def sieve(self) -> Sieve:
        return Sieve(kept_part(lowered(self.url or "")), self.lane, self.recurring_id)

    def wants(self, schedule: Schedule) -> bool:
        request = schedule.request
        if self.reference is not None and not matches(self.reference, request.reference):
            return False
        if self.lane is not None and request.lane != self.lane:
            return False
        if self.recurring_id not in (None, request.recurring_id):
            return False
        if self.also is not None and not self.also(schedule):
            return False
        of_url = self.url is None or request.url == self.url
        return of_url and (self.executing or not schedule.executing)

    def wants_at(self, schedule: Schedule) -> bool:
        """The same in a list by reference, which the period only filters."""
        at_ms = schedule.due_at_ms if schedule.ended_at_ms is None else schedule.ended_at_ms
        in_time = self.from_ms is None or at_ms >= self.from_ms
        in_time = in_time and (self.to_ms is None or at_ms < self.to_ms)
        return in_time and self.wants(schedule)


class SchedulePage(NamedTuple):
    """`next_cursor` is None at the end; a page may be short before. Those were `left` out of it
    that wait for a slot of a recurring schedule."""

    schedules: list[Schedule]
    next_cursor: str | None
    left: Sequence[Schedule] = ()


# A schedule, and whether a worker holds it.
Member = tuple[str, bool]


class ListOf:
    """A list of an account's schedules, by a moment and id. What stays as it is while it is read is
    neither skipped nor repeated, though thousands share a millisecond and others come and go."""

    def __init__(self, server: Server, scans: Scans) -> None:
        self._server = server
        self._scans = scans

    _statuses: frozenset[Status] = frozenset(Status)

    def _kept(self, stretch: Span) -> Span:
        """The part of it that is promised to be kept."""
        return stretch

    async def _members(
        self, base: str, stretch: Span, most: int, lane: str | None
    ) -> tuple[Found[Member], bool, Sequence[str]]:
        """The next ones, at most so many; whether the requests of all such schedules together are
        light; and the fields that they can have. Others than those of the lane may be left out."""
        raise NotImplementedError

    async def page(
        self, account_id: str, selected: Selection, *, descending: bool = False
    ) -> SchedulePage:
        """Raises InvalidRequest for a bad cursor, TooManyScans. Read-only."""
        stretch = self._kept(
            span(selected.from_ms, selected.to_ms, selected.cursor, down=descending)
        )
        limit, sieve, left = selected.limit, selected.sieve, list[Schedule]()

        def wanted(schedule: Schedule) -> bool:
            if (is_meant := selected.wants(schedule)) and selected.leaves(schedule):
                left.append(schedule)
                return False
            return is_meant

        async with self._scans.of(account_id, searches=selected.searches) as scan:
            found = await self.read(account_id, stretch, limit + 1, wanted, scan, sieve)
            page = merge([found], limit, stretch)
            end = page.next
            left = [each for each in left if end is None or not stretch.past(place_of(each), end)]
            listed = SchedulePage(page.entries, encode_cursor(end) if end else None, left)
            return await self._sifted(account_id, listed, selected, scan)

    async def _sifted(
        self, account_id: str, page: SchedulePage, selected: Selection, scan: Scan
    ) -> SchedulePage:
        """The page without schedules that further reads show not to match, if it needs any."""
        return page

    async def read(
        self,
        account_id: str,
        stretch: Span,
        limit: int,
        wanted: Callable[[Schedule], bool],
        scan: Scan,
        sieve: Sieve,
        bounds: tuple[int, int] = (1, _BUDGET),
    ) -> Found[Schedule]:
        """At least `limit` wanted ones, if the budget reaches so far. Adds to the scan. Read-only.

        Those that the sieve does not let through are left out unopened. `bounds`: how many lists
        share the budget, and how many members that is.
        """
        share, budget = bounds
        found: list[tuple[Place, Schedule]] = []
        reached: Place | None = stretch.after
        looked_at, read_bytes, most = 0, 0, min(limit, CHUNK)
        until_us = scan.us + _MOST_US // share
        while (
            reached is not None
            and len(found) < limit
            and looked_at < budget // share
            and read_bytes < _MOST_BYTES // share
            and scan.us < until_us
        ):
            rest = stretch._replace(after=reached)
            chunk, chunk_bytes = await self._chunk(account_id, rest, most, scan, sieve)
            found += [each for each in chunk.entries if wanted(each[1])]
            looked_at, read_bytes = looked_at + most, read_bytes + chunk_bytes
            left = limit - len(found)
            most = min(CHUNK, math.ceil(left * looked_at / len(found)) if found else CHUNK)
            reached = chunk.reached
        return Found(found, reached)

    async def _chunk(
        self, account_id: str, stretch: Span, most: int, scan: Scan, sieve: Sieve
    ) -> tuple[Found[Schedule], int]:
        """The next ones, and how many bytes of requests and answers were read. Left out are those
        that are damaged, and those that the sieve does not let through."""
        base = keys.account(account_id)
        (places, reached), light, fields_ = await self._members(base, stretch, most, sieve.lane)
        names = [ids.local(schedule_id) for _, (schedule_id, _) in places]
        rows = await read_rows(self._server, base, names, light=light, fields=fields_)
        found: list[tuple[Place, Schedule]] = []
        unpacked, pause = 0, Pause()
        for (place, (schedule_id, held)), fields in zip(places, rows, strict=False):
            if pause.is_due:
                await pause.take()
            if fields.packed and sieve.lets_through(fields.packed):
                unpacked += 1
                fields = fields._replace(held=held)
                each = stored_or_damaged(schedule_id, fields, self._server.secrecy)
                if isinstance(each, Stored) and each.schedule.status in self._statuses:
                    found.append((place, each.schedule))
        read_bytes = sum(len(each.packed or b"") + len(each.said or b"") for each in rows)
        scan.add(len(names), unpacked, read_bytes)
        return Found(
            found, reached if len(rows) == len(names) else places[len(rows) - 1][0]
        ), read_bytes


def place_of(waiting: Schedule) -> Place:
    """Where one that waits stands in the list."""
    return Place(waiting.due_at_ms, WAITING, ids.local(waiting.schedule_id))


class ByReference(ListOf):
    """A list that has an index by reference. Those of a reference come by reference, then by id,
    and only they are looked at."""

    _index: str

    def _of_kept(self, selected: Selection) -> Selection:
        """The part of it that is promised to be kept."""
        return selected

    async def page(
        self, account_id: str, selected: Selection, *, descending: bool = False
    ) -> SchedulePage:
        if selected.reference is None:
            return await super().page(account_id, selected, descending=descending)
        searches = selected._replace(reference=None).searches
        searches = searches or (selected.from_ms, selected.to_ms) != (None, None)
        async with self._scans.of(account_id, searches=searches) as scan:
            kept = self._of_kept(selected)
            page = await self._referred(account_id, kept, scan, down=descending)
            return await self._sifted(account_id, page, selected, scan)

    async def _referred(
        self, account_id: str, selected: Selection, scan: Scan, *, down: bool
    ) -> SchedulePage:
        base, wanted = keys.account(account_id), selected.reference or ""
        found, left = list[Schedule](), list[Schedule]()
        after = decode_member(selected.cursor, wanted)
        looked_at = read_bytes = 0
        while looked_at < _BUDGET and read_bytes < _MOST_BYTES:
            most = CHUNK if looked_at else min(CHUNK, selected.limit + 1)
            members = await read_referred(
                self._server, base + self._index, wanted, after, most, down=down
            )
            if not members:
                return SchedulePage(found, None, left)
            some, chunk_bytes = await self._read_members(base, members, scan)
            for member, schedule in zip(members, some, strict=False):
                if len(found) == selected.limit:
                    return SchedulePage(found, encode_member(after or b""), left)
                after = member
                if schedule is not None and selected.wants_at(schedule):
                    (left if selected.leaves(schedule) else found).append(schedule)
            if len(some) == len(members) < most:
                return SchedulePage(found, None, left)
            looked_at, read_bytes = looked_at + len(some), read_bytes + chunk_bytes
        return SchedulePage(found, encode_member(after or b""), left)

    async def _read_members(
        self, base: str, members: Sequence[bytes], scan: Scan
    ) -> tuple[list[Schedule | None], int]:
        """Schedules of the first members, None for those that are not to be shown, and how many
        bytes were read."""
        names = [schedule_of(member) for member in members]
        rows = await read_rows(self._server, base, names)
        held: list[bytes | None] = [None] * len(names)
        if Status.SCHEDULED in self._statuses:
            [held] = await self._server.reads([("ZMSCORE", base + keys.HELD, *names)])
        found, pause = list[Schedule | None](), Pause()
        for name, since, fields in zip(names, held, rows, strict=False):
            if pause.is_due:
                await pause.take()
            fields = fields._replace(held=since is not None)
            each = stored_or_damaged(ids.schedule_id(name), fields, self._server.secrecy)
            sound = isinstance(each, Stored) and each.schedule.status in self._statuses
            found.append(each.schedule if sound and isinstance(each, Stored) else None)
        read_bytes = sum(len(each.packed or b"") + len(each.said or b"") for each in rows)
        scan.add(len(names), len(rows), read_bytes)
        return found, read_bytes


class Failed(ByReference):
    """Dead letters: failed schedules in the order of their end, while kept and not replayed."""

    _index = keys.FAILED_REFERENCES
    _statuses = frozenset({Status.FAILED})

    def __init__(
        self, server: Server, clock: StoreClock, retention: Retention, scans: Scans
    ) -> None:
        super().__init__(server, scans)
        self._clock = clock
        self._kept_ms = retention.failed_ms

    def _kept(self, stretch: Span) -> Span:
        """Older ones go as others come."""
        return kept_since(stretch, self._oldest_ms())

    def _of_kept(self, selected: Selection) -> Selection:
        return selected._replace(from_ms=max(selected.from_ms or 0, self._oldest_ms()))

    def _oldest_ms(self) -> int:
        return self._clock.now_ms() - self._kept_ms

    async def _members(
        self, base: str, stretch: Span, most: int, lane: str | None
    ) -> tuple[Found[Member], bool, Sequence[str]]:
        [failed], kind = await read_members(self._server, base, (keys.FAILED,), stretch, most)
        found = [(place, (ids.schedule_id(place.tie), False)) for place, _ in failed.found]
        return Found(found, failed.reached), kind.light, FIELDS
