"""Executions counted over any period, exact to the millisecond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from scheduler.errors import Unreadable
from scheduler.models import Status
from scheduler.rollups import (
    COMPLETED,
    CREATED,
    FAILED,
    RESPONSE_TIME,
    Cover,
    Range,
    Usage,
    around,
    cover,
    kept_from,
    sums_of,
)
from scheduler.store import keys
from scheduler.store.log.entries import StoredEntry, chunks_of, entries_of, readable_chunk
from scheduler.store.retention import Retention
from scheduler.store.server import Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.stored import NUMBERS

_PAGE = 64
# Rollups of one round trip.
_ROLLUPS_AT_ONCE = 8
_COMPLETED, _FAILED = NUMBERS[Status.COMPLETED], NUMBERS[Status.FAILED]
_SUMMED = (COMPLETED, FAILED, RESPONSE_TIME)


class _Sums(NamedTuple):
    completed: int
    failed: int
    response_time_ms: int

    def plus(self, other: _Sums, times: int = 1) -> _Sums:
        return _Sums(*(mine + times * its for mine, its in zip(self, other, strict=True)))


class Statistics:
    """Takes the difference of two running totals, which stand beside the chunks of the log. Where
    the log was trimmed by the number of its entries, sums the rollups."""

    def __init__(self, server: Server, clock: StoreClock, retention: Retention) -> None:
        self._server = server
        self._clock = clock
        self._retention_ms = retention.promised_log_ms

    async def usage(self, account_id: str, from_ms: int, to_ms: int) -> Usage:
        """Executions recorded in `[from_ms, to_ms)`, clipped to the kept ones; exact to the
        millisecond while the log has the entries. Where it was trimmed by their number, `from_ms`
        rounds down to the second, and to the minute when older than two days."""
        now_ms = self._clock.now_ms()
        oldest_ms = kept_from(now_ms, self._retention_ms)
        # Nothing can have been recorded later than a moment from now.
        last_ms = min(to_ms, now_ms + 60_000)
        first_ms = max(from_ms, oldest_ms)
        total = await self._difference(account_id, first_ms, last_ms)
        if total is None:
            total = await self._from_rollups(account_id, first_ms, last_ms, now_ms)
        return Usage(*total, from_ms, to_ms)

    async def _difference(self, account_id: str, from_ms: int, to_ms: int) -> _Sums | None:
        """None if the log lacks entries of the period, or the totals are damaged."""
        if from_ms >= to_ms:
            return _Sums(0, 0, 0)
        base = keys.account(account_id)
        log = base + keys.LOG
        since, until, (trimmed, last) = await self._server.reads(
            [
                # Forwards: in search of an entry before the first one, XREVRANGE walks all of them.
                ("XRANGE", log, from_ms, "+", "COUNT", 1),
                ("XRANGE", log, to_ms, "+", "COUNT", 1),
                ("HMGET", base + keys.LOGGED, "first", "t"),
            ],
            at_once=base,
        )
        if not (since or trimmed or last):
            return _Sums(0, 0, 0)
        try:
            if int(trimmed or 0) > from_ms or not since:
                return None
            end = _before(until) if until else _parsed(last)
            found = end.plus(_before(since), -1)
        except (ValueError, Unreadable):
            return None
        return found if min(found) >= 0 else None

    async def _from_rollups(self, account_id: str, from_ms: int, to_ms: int, now_ms: int) -> _Sums:
        wanted = cover(from_ms, to_ms, now_ms)
        first_ms = 0  # from then on the log has every entry
        if wanted.stretches:
            logged = keys.account(account_id) + keys.LOGGED
            first_ms = int(await self._server.read("HGET", logged, "first") or 0)
        read = [stretch for stretch in wanted.stretches if stretch[0] >= first_ms]
        total = await self._sum(account_id, Cover(wanted.ranges, read))
        for stretch in wanted.stretches:
            if stretch[0] < first_ms:
                add, take = around(*stretch, first_ms, now_ms)
                more, less = await self._sum(account_id, add), await self._sum(account_id, take)
                total = total.plus(more).plus(less, -1)
        return total

    async def _sum(self, account_id: str, wanted: Cover) -> _Sums:
        total = _Sums(0, 0, 0)
        base = keys.account(account_id)
        for start in range(0, len(wanted.ranges), _ROLLUPS_AT_ONCE):
            some = [(base, each) for each in wanted.ranges[start : start + _ROLLUPS_AT_ONCE]]
            for row in await read_sums(self._server, some, _SUMMED):
                total = total.plus(_Sums(*row))
        for stretch in wanted.stretches:
            total = total.plus(await self._read(account_id, *stretch))
        return total

    async def _read(self, account_id: str, from_ms: int, to_ms: int) -> _Sums:
        """Completed, failed and total response time of a stretch of the log."""
        total = _Sums(0, 0, 0)
        log = keys.account(account_id) + keys.LOG
        position = str(from_ms)
        while True:
            bounds = (position, f"({to_ms}-0")
            page = await self._server.read("XRANGE", log, *bounds, "COUNT", _PAGE)
            for stream_id, packed in chunks_of(page):
                chunk = readable_chunk(account_id, stream_id, packed)
                total = total.plus(_sums_of(entry for _, entry in chunk))
            if len(page) < _PAGE:
                return total
            position = "(" + page[-1][0].decode()


def _before(page: Sequence[Any]) -> _Sums:
    """Of all executions before the one chunk of the page. Raises ValueError, Unreadable."""
    [(_, (_, packed, _, totals))] = page
    return _parsed(totals).plus(_sums_of(entries_of(packed)), -1)


def _parsed(totals: bytes | None) -> _Sums:
    completed, failed, total_ms = map(int, (totals or b"").split())
    return _Sums(completed, failed, total_ms)


def _sums_of(entries: Iterable[StoredEntry]) -> _Sums:
    ended = [entry for entry in entries if entry.status in (_COMPLETED, _FAILED)]
    completed = sum(entry.status == _COMPLETED for entry in ended)
    total_ms = sum(entry.response_time_ms for entry in ended)
    return _Sums(completed, len(ended) - completed, total_ms)


async def read_sums(
    server: Server, rollups: Sequence[tuple[str, Range]], names: Sequence[str]
) -> list[list[int]]:
    """What accounts' rollups sum under these names: a row for each account's prefix and range.
    Damaged numbers count as none. Read-only."""
    commands = []
    for base, (rollup, first, last) in rollups:
        buckets = range(first, last + 1)
        commands.append(("HMGET", base + rollup, *buckets))
        if CREATED in names:
            commands.append(("HMGET", base + rollup, *(f"{each}{CREATED}" for each in buckets)))
    replies = iter(await server.reads(commands))
    rows = []
    for _ in rollups:
        total = Counter[str]()
        for packed in next(replies):
            total.update(sums_of(packed))
        if CREATED in names:
            total[CREATED] = sum(int(v) for v in next(replies) if v and v.isdigit())
        rows.append([total[name] for name in names])
    return rows
