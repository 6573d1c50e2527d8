"""Lanes: their settings, and how they stand."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import structlog
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from scheduler import ids
from scheduler.errors import (
    FieldError,
    InvalidRequest,
    KeepsChanging,
    TooManyLanes,
    UnknownAccount,
    Unreadable,
)
from scheduler.lane_settings import Lane, LaneSettings
from scheduler.lanes import is_lane
from scheduler.store import keys
from scheduler.store.pauses import pause_of, pause_values
from scheduler.store.preconditions import ALWAYS, Precondition
from scheduler.store.scans import Scans
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.verdict import MOST_CHANGES_MET, Verdict

_BACKLOG = Script("lanes/backlog")
_CLEAR = Script("lanes/clear")
_READ = Script("lanes/read")
_SET = Script("lanes/set")
# Lanes that a look for backlogs reads: each takes the store some 15 us.
_MOST_LOOKED_AT = 200
# A schedule due for longer than this is a backlog; and how far the look goes ahead.
_LATE_MS, _AHEAD_MS = 1000, 60_000
# The store's time to list a lane, and how much longer that is if something waits or runs in it.
_LANE_US, _USED_US = 7.0, 6.0
_NO_CALM = FieldError("calmUntil", "It can only be null, which ends the calm, or stay as it is.")
_log = structlog.get_logger(__name__)

Change = Callable[[LaneSettings], LaneSettings]


class LanePage(NamedTuple):
    """`next_cursor` is None at the end."""

    lanes: list[Lane]
    next_cursor: str | None


class PausedLanes(NamedTuple):
    """`number` are paused; of some of them the name, and until when (ms), None without an end."""

    number: int
    some: list[tuple[str, int | None]]


class LaneBacklog(NamedTuple):
    """So many of a lane are due and do not start, the oldest since a moment (ms)."""

    lane: str
    due: int
    oldest_ms: int


class Backlogs(NamedTuple):
    """Of the lanes that were looked at, out of `total` with something unended; the oldest backlog
    comes first. `stuck` schedules are due within a minute, and cannot start in it."""

    lanes: list[LaneBacklog]
    stuck: int
    looked_at: int
    total: int


class Lanes:
    def __init__(self, server: Server, clock: StoreClock, scans: Scans) -> None:
        self._server = server
        self._clock = clock
        self._scans = scans

    async def read(self, account_id: str, lane: str) -> Lane:
        """A lane as it stands, without settings if none were made. Raises Unreadable. Read-only."""
        [found] = await self._rows(account_id, lane)
        if len(found) == 1:
            raise Unreadable(f"The lane {lane} is damaged")
        return _lane_of(found, self._clock.now_ms())

    async def page(
        self, account_id: str, limit: int, cursor: str | None = None, begin: str = ""
    ) -> LanePage:
        """Lanes that are set or calm or have schedules, by name, without etags; but for damaged
        ones, which are logged. With `begin` only those that begin so. Counts as a search: a list of
        all takes the store as long. Raises InvalidRequest for a bad cursor, TooManyScans.
        Read-only."""
        behind = _before(begin) if begin and cursor is None else _lane_behind(cursor)
        async with self._scans.of(account_id, searches=True) as scan:
            rows = await self._rows(account_id, behind, limit)
            scan.us += sum(_USED_US + _LANE_US if _is_used(row) else _LANE_US for row in rows)
        lanes, now_ms, read = list[Lane](), self._clock.now_ms(), len(rows)
        rows = [row for row in rows if row[0].decode().startswith(begin)]
        for row in rows:
            try:
                lanes.append(_lane_of(row, now_ms))
            except Unreadable:
                _log.error("a lane is damaged", account=account_id, lane=row[0].decode())
        return LanePage(lanes, _cursor_of(rows[-1][0]) if len(rows) == read == limit else None)

    async def beginning(self, account_id: str, begin: str, most: int) -> list[str]:
        """Names of listed lanes that begin so, the first ones. Counts as a search. Raises
        TooManyScans. Read-only."""
        behind = _before(begin)
        async with self._scans.of(account_id, searches=True) as scan:
            rows = await self._rows(account_id, behind, most)
            scan.us += len(rows) * (_USED_US + _LANE_US)
        names = [row[0].decode() for row in rows]
        return [name for name in names if name.startswith(begin)]

    async def backlogs(self, account_id: str) -> Backlogs:
        """Lanes whose due schedules do not start, among the first two hundred: those that are
        paused, and those that may start something soonest. Read-only."""
        now_us, total, looked_at, stuck, flat = await self._server.look_up(
            _BACKLOG, keys.account(account_id), (_MOST_LOOKED_AT, _LATE_MS, _AHEAD_MS)
        )
        self._clock.observe(now_us)
        lanes = [
            LaneBacklog(lane.decode(), due, int(float(oldest)))
            for lane, due, oldest in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        ]
        lanes.sort(key=lambda each: each.oldest_ms)
        return Backlogs(lanes, stuck, looked_at, total)

    async def paused(self, account_id: str, most: int) -> PausedLanes:
        """The lanes that are paused, first those whose pause ends first. Read-only."""
        key, now_ms = keys.account(account_id) + keys.LANES_PAUSED, self._clock.now_ms()
        of_now = (f"({now_ms}", "+inf")
        commands = (
            ("ZCOUNT", key, *of_now),
            ("ZRANGE", key, *of_now, "BYSCORE", "LIMIT", 0, most, "WITHSCORES"),
        )
        count, flat = await self._server.reads(commands)
        ends = zip(flat[::2], map(float, flat[1::2]), strict=True)
        return PausedLanes(
            count, [(n.decode(), None if e == math.inf else int(e)) for n, e in ends]
        )

    async def put(
        self,
        account_id: str,
        lane: str,
        limits: LaneSettings,
        wanted: Precondition = ALWAYS,
        *,
        who: str = "",
    ) -> Lane:
        """Sets limits and note as a whole, and leaves the pause as it is. Raises as `change`."""

        def changed(before: LaneSettings) -> LaneSettings:
            return replace(limits, pause=before.pause)

        return await self.change(account_id, lane, changed, wanted, who=who)

    async def change(
        self,
        account_id: str,
        lane: str,
        changed: Change,
        wanted: Precondition = ALWAYS,
        *,
        calm_until_ms: int | UnsetType | None = UNSET,
        frees_rate: bool = False,
        who: str = "",
    ) -> Lane:
        """Replaces the settings by what `changed` makes of them; what a pause or limits held back
        goes on as they allow now. Two changes are applied one after the other. Safe to repeat.
        `calm_until_ms`: None ends the calm, and any other that is to come must be as it is.
        `frees_rate`: nothing of the rate counts as used. Returns the lane as it then stands.

        Raises NotFound, PreconditionFailed, TooManyLanes, KeepsChanging, Unreadable, and what
        `changed` raises; then nothing was changed.
        """
        operation = ids.new_operation()
        shard, account = keys.parts(account_id)
        for _ in range(MOST_CHANGES_MET):
            lane_before = await self.read(account_id, lane)
            before = lane_before.settings
            assert before.etag is not None
            after = replace(changed(before), etag=before.etag)
            if after.burst == 1:
                after = replace(after, burst=None)
            calm_ms = lane_before.calm_until_ms
            if calm_until_ms not in (UNSET, None, calm_ms) and calm_until_ms > self._clock.now_ms():
                raise InvalidRequest([_NO_CALM])
            is_calmed = calm_until_ms is None and calm_ms is not None
            is_so = after == before and not is_calmed and not frees_rate
            wanted.judge(before.etag, is_there=before.is_there, is_so=is_so)
            if is_so and not self._server.wait_replicas:  # which may lack it yet
                return lane_before
            values, also = _values_of(after), 2 if frees_rate else int(is_calmed)
            arguments = (account, lane, operation, before.etag, also, who, *values)
            verdict = await self._server.write_until_answered(_SET, keys.shard(shard), arguments)
            if verdict != Verdict.CHANGED:
                break
        _raise_unless_done(verdict, account_id)
        return await self.read(account_id, lane)

    async def clear(
        self, account_id: str, lane: str, wanted: Precondition = ALWAYS, *, who: str = ""
    ) -> int:
        """Removes limits, note, pause and calm; returns how many schedules wait in it, which go on
        without limits. Safe to repeat. Raises PreconditionFailed, KeepsChanging, and Unreadable for
        a damaged one of which something is wanted."""
        shard, account = keys.parts(account_id)
        operation = ids.new_operation()
        for _ in range(MOST_CHANGES_MET):
            etag = None
            if wanted != ALWAYS:
                before = await self.read(account_id, lane)
                etag, is_there = before.settings.etag, before.settings.is_there
                is_so = not is_there and before.calm_until_ms is None
                wanted.judge(etag, is_there=is_there, is_so=is_so)
            verdict, waiting = await self._server.write_until_answered(
                _CLEAR, keys.shard(shard), (account, lane, operation, etag or "", who)
            )
            if verdict != Verdict.CHANGED:
                return int(waiting)
        raise KeepsChanging

    async def _rows(self, account_id: str, *arguments: Argument) -> list[list[Any]]:
        now_us, rows = await self._server.look_up(_READ, keys.account(account_id), arguments)
        self._clock.observe(now_us)
        return list(rows)


def _raise_unless_done(verdict: int, account_id: str) -> None:
    match verdict:
        case Verdict.UNKNOWN:
            raise UnknownAccount(account_id)
        case Verdict.TOO_MANY_LANES:
            raise TooManyLanes
        case Verdict.CHANGED:
            raise KeepsChanging


def _values_of(settings: LaneSettings) -> list[Argument]:
    """In the order of lane.inc.lua."""
    interval, slack = settings.pace or ("", "")
    burst = settings.burst or 1 if settings.rate else None
    limits = (settings.rate, settings.per_ms, burst)
    values: list[Argument] = [int(settings.is_set) or "", *(each or "" for each in limits)]
    values += (f"{interval:.3f}" if interval else "", slack, settings.parallelism or "")
    unpinned = " ".join(sorted(settings.unpinned))
    return [*values, settings.note or "", unpinned, *pause_values(settings.pause)]


def _lane_of(row: list[Any], now_ms: int) -> Lane:
    """A row of read.lua. Raises Unreadable."""
    try:
        lane, etag, values, waiting, due, running, first, last = row
        *values, tat, gate, calm = values
        settings = _settings_of(values, etag.decode() or None)
        first_ms = int(float(first[1])) if first else None
        calm_ms = int(calm or 0)
        return Lane(
            lane.decode(),
            settings,
            now_ms,
            calm_until_ms=calm_ms if calm_ms > now_ms else None,
            next_slot_ms=_next_slot_ms(settings, float(tat or 0), int(float(gate or 0))),
            rate_used=_rate_used(settings, float(tat or 0), now_ms),
            waiting=waiting,
            due=due,
            running=running,
            oldest_due_at_ms=first_ms if due else None,
            last_due_at_ms=int(float(last[1])) if last else None,
        )
    except ValueError as error:
        raise Unreadable("A lane is damaged") from error


def _settings_of(values: list[bytes], etag: str | None) -> LaneSettings:
    _, rate, per, burst, _, _, parallelism, note, unpinned, *pause = values
    return LaneSettings(
        _whole(rate),
        _whole(per),
        None if burst == b"1" else _whole(burst),
        _whole(parallelism),
        note.decode() or None,
        pause_of(*pause),
        etag,
        frozenset(unpinned.decode().split()),
    )


def _whole(stored: bytes) -> int | None:
    return int(stored) if stored else None


def _next_slot_ms(settings: LaneSettings, tat_us: float, gate_ms: int) -> int | None:
    """When the rate allows the next start."""
    if settings.pace is None:
        return None
    interval_us, _ = settings.pace
    return max(gate_ms, int((tat_us - ((settings.burst or 1) - 1) * interval_us) / 1000))


def _rate_used(settings: LaneSettings, tat_us: float, now_ms: int) -> int:
    """How many starts the rate has not made up for; but for a hundredth of one, as they may come a
    little later than now."""
    if settings.pace is None:
        return 0
    return max(0, math.ceil((tat_us - now_ms * 1000) / settings.pace[0] - 0.01))


def _is_used(row: list[Any]) -> bool:
    return len(row) > 1 and bool(row[3] or row[5])


def _before(begin: str) -> str:
    """What comes before all names that begin so, and behind all other ones that do."""
    return f"{begin[:-1]}{chr(ord(begin[-1]) - 1)}~"  # no name has a character above ~


def _cursor_of(lane: bytes) -> str:
    return base64.urlsafe_b64encode(lane).rstrip(b"=").decode()


def _lane_behind(cursor: str | None) -> str:
    """The lane behind which a page begins. Raises InvalidRequest."""
    if cursor is None:
        return ""
    try:
        lane = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except (binascii.Error, ValueError):
        lane = ""
    if not is_lane(lane):
        raise InvalidRequest([FieldError("cursor", "not a cursor from nextCursor")])
    return lane
