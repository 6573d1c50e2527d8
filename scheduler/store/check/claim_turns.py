"""Whether claims look in time at an account and at each of its lanes. Read-only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from scheduler.store import keys
from scheduler.store.server import Server
from scheduler.store.server.clock import time_us

_HOUR_MS = 3_600_000
# Moments in the store are rounded.
_SLACK_MS = 2.0
_NEVER = float("-inf")
_FIRST_BY_SCORE = ("(-inf", "+inf", "BYSCORE", "LIMIT", 0, 1, "WITHSCORES")
_FIELDS = ("set", "paused", "until", "calm", "gate", "tat", "interval", "burst", "per")
HEALS = "pausing and resuming it heals that"


async def faults_of_heads(server: Server, account_id: str) -> list[str]:
    """Of an account's places among those that are due. With a backlog a head may stand at its turn:
    never later than now."""
    shard, local = keys.parts(account_id)
    base, heads = keys.account(account_id), keys.shard(shard) + keys.HEADS
    time, state, head, first, lanes, lane, ends_ms = await server.reads(
        [
            ("TIME",),
            ("HMGET", base + keys.ACCOUNT, "suspended", "paused", "paused_until"),
            ("ZSCORE", heads, local),
            ("ZRANGE", base + keys.WAITING, 0, 0, "WITHSCORES"),
            ("ZSCORE", heads, f"{local}/"),
            ("ZRANGE", base + keys.LANE_HEADS, *_FIRST_BY_SCORE),
            ("ZSCORE", heads, f"!{local}"),
        ],
        at_once=keys.shard(shard),
    )
    now_ms, (suspended, paused, until_ms) = time_us(time) / 1000, state
    stopped = "suspended" if suspended else "paused" if paused else ""
    found = []
    if first:
        found.append(_fault_of(head, float(first[1]), now_ms, stopped, "schedules"))
    if lane:
        found.append(_fault_of(lanes, float(lane[1]), now_ms, stopped, "lanes"))
    if paused and until_ms and (ends_ms is None or float(ends_ms) > float(until_ms) + _SLACK_MS):
        found.append(f"its pause will not end at its moment: {HEALS}")
    return [each for each in found if each]


def _fault_of(head: bytes | None, due_ms: float, now_ms: float, stopped: str, what: str) -> str:
    """Of the head of `what` of an account that waits: the first is due then. `stopped`: how."""
    if head is None:
        return f"{what} wait, but no worker will look for them (no head)"
    if stopped:
        looked_at = float(head) != _NEVER
        return f"claims look at its {what}, though it is {stopped}" if looked_at else ""
    if float(head) == _NEVER:
        return f"no worker will look for its {what}, as if it were suspended or paused: {HEALS}"
    return f"the head is later than the first of its {what}" * (float(head) > max(due_ms, now_ms))


class _Look(NamedTuple):
    """At a lane: its fields, whether it is listed, until when it is listed as paused, its head; and
    with their scores the first that waits, the first lease that ends, and the one that has to end
    for a place to be free."""

    now_ms: float
    fields: dict[str, float]
    listed: bool
    paused_until_ms: float | None
    head_ms: float | None
    waiting: list[bytes]
    running: list[bytes]
    place: list[bytes]

    def faults(self) -> Iterator[str]:
        busy = bool(self.waiting or self.running)
        calm = self.fields.get("calm", 0.0) > self.now_ms
        if not self.listed and (busy or calm or "set" in self.fields):
            yield f"is in use, but not among the account's lanes: {HEALS}"
        until_ms = self.fields.get("until", math.inf) if "paused" in self.fields else 0.0
        paused = until_ms == math.inf
        if until_ms > self.now_ms and self.paused_until_ms != until_ms:
            yield f"is paused, but not among the account's paused lanes: {HEALS}"
        elif until_ms <= self.now_ms < (self.paused_until_ms or 0.0):
            yield f"is not paused, but among the account's paused lanes: {HEALS}"
        if not busy:
            return
        if self.head_ms is None:
            yield f"has schedules, but no claim will look at it (no head): {HEALS}"
        elif paused and self.head_ms != _NEVER:
            yield f"is paused, but claims look at it: {HEALS}"
        elif self.head_ms == _NEVER and not paused:
            yield f"is not paused, but no claim will look at it: {HEALS}"
        elif self.head_ms > max(self._starts_ms(), self.now_ms) + _SLACK_MS:
            yield f"may start something before a claim looks at it: {HEALS}"

    def _starts_ms(self) -> float:
        """When it can next start something. A moment that a clock that was set back left too late
        counts as the latest that it may be."""
        get, in_an_hour_ms = self.fields.get, self.now_ms + _HOUR_MS
        due_ms = min(abs(float(row[1])) for row in (self.waiting, self.running) if row)
        burst, interval_ms = get("burst", 1.0), get("interval", 0.0) / 1000
        paid_ms = min(get("tat", 0.0) / 1000, self.now_ms + get("per", 0.0) + interval_ms * burst)
        return max(
            due_ms,
            get("until", 0.0) if "paused" in self.fields else 0.0,
            min(get("calm", 0.0), in_an_hour_ms),
            min(get("gate", 0.0), in_an_hour_ms),
            paid_ms - (burst - 1) * interval_ms if interval_ms else 0.0,
            -min(float(self.place[1]), 0.0) if self.place else 0.0,
        )


async def faults_of_lane(server: Server, base: str, lane: str) -> list[str]:
    """Of when claims look at it. Raises ValueError if its settings are damaged."""
    key, queue = base + keys.LANE + lane, base + keys.LANE_QUEUE + lane
    most = int(await server.read("HGET", key, "parallelism") or 0)
    first, place = ("BYSCORE", "LIMIT", 0, 1, "WITHSCORES"), (most - 1, most - 1, "WITHSCORES")
    time, values, listed, paused_ms, head_ms, *rows = await server.reads(
        [
            ("TIME",),
            ("HMGET", key, *_FIELDS),
            ("ZSCORE", base + keys.LANES, lane),
            ("ZSCORE", base + keys.LANES_PAUSED, lane),
            ("ZSCORE", base + keys.LANE_HEADS, lane),
            ("ZRANGE", queue, 0, "+inf", *first),
            ("ZRANGE", queue, "(0", "-inf", "REV", *first),
            *[("ZRANGE", queue, *place)] * bool(most),
        ],
        at_once=base,
    )
    named = zip(_FIELDS, values, strict=True)
    fields = {name: float(value) for name, value in named if value is not None}
    until, head = (None if each is None else float(each) for each in (paused_ms, head_ms))
    waits, lease, freed = rows if most else (*rows, [])
    now_ms = time_us(time) / 1000
    look = _Look(now_ms, fields, listed is not None, until, head, waits, lease, freed)
    return list(look.faults())
