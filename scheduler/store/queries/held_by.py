"""What keeps due schedules from starting: read by plain commands when somebody asks, and kept
nowhere. Claims and fires know nothing of it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from scheduler import ids
from scheduler.errors import Unreadable
from scheduler.lane_settings import HeldBy, LaneLimits
from scheduler.lanes import HoldCause
from scheduler.models import LogEntry, LogStatus, Schedule, Status
from scheduler.store import keys
from scheduler.store.server import Argument, Server
from scheduler.store.server.clock import StoreClock

# So many are read in one round trip.
_AT_ONCE = 100
_ACCOUNT = ("suspended", "paused", "paused_until")
_LANE = ("paused", "until", "calm", "parallelism", "rate", "interval", "burst", "per", "tat")


class Due(NamedTuple):
    """A due schedule that has not ended. `executing`: a worker holds it, or was lost with it."""

    schedule_id: str
    lane: str | None
    executing: bool


class _Lanes(NamedTuple):
    """The limits of lanes, without those that have none, and when leases end (ms) by schedule."""

    limits: Mapping[str, LaneLimits]
    ends: Mapping[str, float]


class Holders:
    def __init__(
        self, server: Server, clock: StoreClock, has_worker: Callable[[], Awaitable[bool]]
    ) -> None:
        self._server = server
        self._clock = clock
        self._has_worker = has_worker

    async def told(self, account_id: str, schedules: Sequence[Schedule]) -> list[Schedule]:
        """The same schedules, with what holds each. Read-only."""
        now_ms = self._clock.now_ms()
        due = [
            Due(each.schedule_id, each.request.lane, each.executing)
            for each in schedules
            if each.status is Status.SCHEDULED and each.due_at_ms <= now_ms
        ]
        if not (held := await self._of(account_id, due)):
            return [*schedules]
        return [replace(each, held_by=held.get(each.schedule_id)) for each in schedules]

    async def of_entries(self, account_id: str, entries: Iterable[LogEntry]) -> dict[str, HeldBy]:
        """By id, what holds the schedules of these entries; only those that are held. Read-only."""
        now_ms = self._clock.now_ms()
        due = [
            Due(each.schedule_id, each.lane, each.executing)
            for each in entries
            if each.status is LogStatus.SCHEDULED and each.at_ms <= now_ms
        ]
        return await self._of(account_id, due)

    async def _of(self, account_id: str, due: Sequence[Due]) -> dict[str, HeldBy]:
        found = dict[str, HeldBy]()
        for begin in range(0, len(due), _AT_ONCE):
            found |= await self._of_some(account_id, due[begin : begin + _AT_ONCE])
        return found

    async def _of_some(self, account_id: str, due: Sequence[Due]) -> dict[str, HeldBy]:
        """Of what is damaged nothing is told: whoever reads that itself tells it."""
        shard, base = keys.shard(keys.parts(account_id).shard), keys.account(account_id)
        lanes = list(dict.fromkeys(each.lane for each in due if each.lane is not None))
        held = [each for each in due if each.executing]
        commands = [
            ("GET", shard + keys.HOLD),
            ("HMGET", base + keys.ACCOUNT, *_ACCOUNT),
            *(("HMGET", base + keys.LANE + lane, *_LANE) for lane in lanes),
            *(("ZSCORE", _queue_of(base, each), ids.local(each.schedule_id)) for each in held),
        ]
        (hold, account, *rest), has_worker = await asyncio.gather(
            self._server.reads(commands, damaged=True), self._has_worker()
        )
        now_us = self._clock.now_us()
        stored = zip(lanes, rest[: len(lanes)], strict=True)
        limits = {lane: read for lane, row in stored if (read := _limits_of(row)) is not None}
        scores = zip(held, rest[len(lanes) :], strict=True)
        ends = {each.schedule_id: _number(score, math.inf) for each, score in scores}
        # A worker has the others.
        left = [each for each in due if ends.get(each.schedule_id, 0) * 1000 <= now_us]
        if (cause := _of_all(hold, account, now_us)) is not None:
            return {each.schedule_id: cause for each in left}
        of_lanes = [each for each in left if each.lane in limits]
        found = await self._in_lanes(base, of_lanes, _Lanes(limits, ends), now_us, has_worker)
        if not has_worker:
            stopped = HeldBy(HoldCause.NO_WORKER)
            found = dict.fromkeys((each.schedule_id for each in left), stopped) | found
        return found

    async def _in_lanes(
        self, base: str, due: Sequence[Due], lanes: _Lanes, now_us: int, has_worker: bool
    ) -> dict[str, HeldBy]:
        """By how many of its lane go before each: first lost workers', by their leases' ends."""
        now = f"(-{now_us / 1000:.3f}"
        names = list(dict.fromkeys(each.lane or "" for each in due))
        commands: list[Sequence[Argument]] = [
            ("ZCOUNT", base + keys.LANE_QUEUE + lane, "-inf", now) for lane in names
        ]
        for each in due:
            queue, end_ms = f"{base}{keys.LANE_QUEUE}{each.lane}", lanes.ends.get(each.schedule_id)
            if end_ms is None:
                commands.append(("ZRANK", queue, ids.local(each.schedule_id)))
            else:
                commands.append(("ZCOUNT", queue, f"(-{end_ms:.3f}", "(0"))
        replies = await self._server.reads(commands, damaged=True)
        running = {lane: _number(n) for lane, n in zip(names, replies, strict=False)}
        found = dict[str, HeldBy]()
        for each, place in zip(due, replies[len(names) :], strict=True):
            lane = each.lane or ""
            before = 0 if each.executing else running[lane]
            ahead = max(int(_number(place) - before), 0)
            held_by = lanes.limits[lane].holder(
                lane, now_us, ahead, int(running[lane]), has_worker=has_worker
            )
            if held_by is not None:
                found[each.schedule_id] = held_by
        return found


def _queue_of(base: str, due: Due) -> str:
    return base + (keys.WAITING if due.lane is None else keys.LANED)


def _of_all(hold: Any, account: Any, now_us: int) -> HeldBy | None:
    """What holds all of an account."""
    if hold is not None and not isinstance(hold, Unreadable):
        return HeldBy(HoldCause.SERVICE_HOLD)
    if isinstance(account, Unreadable):
        return None
    suspended, paused, until = account
    if suspended is not None:
        return HeldBy(HoldCause.ACCOUNT_SUSPENDED)
    until_ms = int(_number(until)) or None
    if paused is not None and (until_ms is None or until_ms * 1000 > now_us):
        return HeldBy(HoldCause.ACCOUNT_PAUSED, until_ms=until_ms)
    return None


def _limits_of(row: Any) -> LaneLimits | None:
    """None for a lane without any."""
    if isinstance(row, Unreadable) or not any(row):
        return None
    paused, until, calm, parallelism, rate, interval, burst, per, tat = row
    found = LaneLimits(
        paused_until_ms=0 if paused is None else _number(until, math.inf),
        calm_until_ms=int(_number(calm)),
        parallelism=None if parallelism is None else int(_number(parallelism)),
        rate=None if rate is None else int(_number(rate)),
        interval_us=None if interval is None else _number(interval),
        burst=int(_number(burst, 1)),
        per_ms=int(_number(per)),
        tat_us=_number(tat),
    )
    return None if found.is_none else found


def _number(stored: Any, otherwise: float = 0) -> float:
    """The number that is stored; `otherwise` if it is none."""
    try:
        return float(stored)
    except (TypeError, ValueError):
        return otherwise
