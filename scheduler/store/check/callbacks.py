"""Whether each callback stands where its state says, and claims look at it in time. Read-only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import NamedTuple

from scheduler import ids
from scheduler.models import Schedule, Status
from scheduler.store import keys
from scheduler.store.check.damage import schedule_or_none, text
from scheduler.store.server import Argument, Server
from scheduler.store.server.clock import time_us
from scheduler.store.stored import RESPONSE, Fields

_CHUNK = 200
# Moments in the store are rounded.
_SLACK_MS = 2.0
_NEVER = float("-inf")
# How many of an account run at most: the same number as in `callbacks.inc.lua`.
_MOST_CALLING = 64
_FIRST_BY_SCORE = ("(-inf", "+inf", "BYSCORE", "LIMIT", 0, 1, "WITHSCORES")


def lacks_callback(found: Schedule) -> bool:
    """Whether its end is to be reported to a URL of its own, and was not put down to be. One that
    is left to its account cannot be judged: what the account says may be newer than the end."""
    wish, failed = found.request.callback, found.status is Status.FAILED
    if found.callback is not None or wish is None or not wish.url_of(failed=failed):
        return False
    return (failed or found.status is Status.COMPLETED) and wish.reports(failed=failed)


async def faults_of_turn(server: Server, account_id: str) -> list[str]:
    """Of when claims look at an account's callbacks."""
    shard, local = keys.parts(account_id)
    base, prefix = keys.account(account_id), keys.shard(shard)
    place = ("ZRANGE", base + keys.CALLING, -_MOST_CALLING, -_MOST_CALLING, "WITHSCORES")
    time, suspended, head, turn, first, freed, failing = await server.reads(
        [
            ("TIME",),
            ("HEXISTS", base + keys.ACCOUNT, "suspended"),
            ("ZSCORE", prefix + keys.CALLBACK_HEADS, local),
            ("ZSCORE", prefix + keys.HEADS, keys.CALLBACK_TURN),
            ("ZRANGE", base + keys.CALLBACKS, 0, 0, "WITHSCORES"),
            place,
            ("HGET", base + keys.CALLBACK, "failing"),
        ],
        at_once=prefix,
    )
    if not first:
        return []
    if head is None:
        return ["callbacks are pending, but no worker will look for them (no head)"]
    head_ms, never = float(head), float(head) == _NEVER
    if suspended:
        return [] if never else ["claims look at its callbacks, though it is suspended"]
    if never:
        return ["no worker will look for its callbacks, as if it were suspended"]
    now_ms = time_us(time) / 1000
    due_ms = max(float(first[1]), float(freed[1]) if freed else 0.0, float(failing or 0), now_ms)
    if head_ms > due_ms + _SLACK_MS:
        return ["the head is later than the first of its callbacks"]
    if turn is None or float(turn) > max(head_ms, now_ms) + _SLACK_MS:
        return ["claims do not come to its callbacks in time"]
    return []


class _Stand(NamedTuple):
    """Of a schedule: its callback's state, whether it has ended, whether it keeps its target's
    answer for a report, its scores in `callbacks`, in `calling` and in `failed_callbacks`, when it
    is forgotten (ms; below 0: never, or it is gone), and the lowest score in `failed_callbacks`."""

    state: bytes
    ended: bool
    answered: bool
    pending: bytes | None
    calling: bytes | None
    failed: bytes | None
    forgotten_ms: int
    oldest: bytes

    @property
    def is_pending(self) -> bool:
        return self.state[:1] == b"p"

    @property
    def failed_ms(self) -> int | None:
        """When its callback has failed; None: it has not."""
        return int.from_bytes(self.state[1:7], "big") if self.state[:1] == b"f" else None

    def faults(self) -> Iterator[str]:
        # Only older ones are ever dropped from the list.
        if self.failed is None and (self.failed_ms or 0) > float(self.oldest):
            yield "has a callback that failed, but is not among those that do"
        if self.state and not self.ended:
            yield "has a callback, but has not ended"
        if self.answered and self.state[:1] in (b"", b"d"):
            yield "keeps its target's answer, though no callback is left to report it"
        if self.is_pending and self.pending is None:
            yield "has a pending callback, but is not among those that do"
        elif self.is_pending and self.forgotten_ms >= 0:
            yield "has a pending callback, and will be forgotten before that ends"
        elif self.state and not self.is_pending and self.forgotten_ms < 0:
            yield "is never forgotten, though its callback has ended"


async def strangers_among(server: Server, base: str) -> AsyncIterator[str]:
    """A sentence for each member of the queues of callbacks that should not be there."""
    for name in (keys.CALLBACKS, keys.CALLING):
        async for chunk in server.members("ZSCAN", base + name, _CHUNK):
            schedules = []
            for each in chunk:
                if (schedule := schedule_or_none(each)) is not None:
                    schedules.append(schedule)
                else:
                    yield f"among its {name} is {text(each)!r}, which can be no schedule"
            for schedule, stand in await _stands(server, base, schedules):
                if not stand.is_pending:
                    yield f"{ids.schedule_id(schedule)} is among its {name}, and should not be"
                elif stand.calling not in (None, stand.pending):
                    yield f"the lease of {ids.schedule_id(schedule)} in {keys.CALLING} is another"


async def mistimed_failures(server: Server, base: str) -> AsyncIterator[str]:
    """A sentence for each member of the list of failed callbacks that should not stand so."""
    failed = keys.FAILED_CALLBACKS
    async for chunk in server.members("ZSCAN", base + failed, _CHUNK):
        names = [schedule_or_none(each) for each in chunk]
        for schedule, stand in await _stands(server, base, [each for each in names if each]):
            at_ms = stand.failed and float(stand.failed)
            if stand.state and at_ms not in (None, stand.failed_ms):
                yield f"{ids.schedule_id(schedule)} is among its {failed} with another moment"


async def misplaced_callbacks(
    server: Server, base: str, rows: Iterable[tuple[str, Fields]]
) -> AsyncIterator[str]:
    """A sentence for each of these that is not where its callback's state says, or is not kept for
    as long."""
    schedules = [schedule for schedule, each in rows if each.callback or each.response]
    for schedule, stand in await _stands(server, base, schedules):
        for fault in stand.faults():
            yield f"{ids.schedule_id(schedule)} {fault}"


async def _stands(server: Server, base: str, schedules: Sequence[str]) -> list[tuple[str, _Stand]]:
    """All at one moment."""
    commands: list[tuple[Argument, ...]] = []
    for each in schedules:
        key = base + keys.SCHEDULE + each
        commands += (("HMGET", key, "c", "o"), ("HEXISTS", key, RESPONSE))
        commands += (("ZSCORE", base + keys.CALLBACKS, each),)
        commands += (("ZSCORE", base + keys.CALLING, each),)
        commands += (("ZSCORE", base + keys.FAILED_CALLBACKS, each), ("PEXPIRETIME", key))
    if not commands:
        return []
    commands.append(("ZRANGE", base + keys.FAILED_CALLBACKS, 0, 0, "WITHSCORES"))
    *replies, first = await server.reads(commands, at_once=base)
    found = []
    for place, schedule in enumerate(schedules):
        (state, outcome), answered, *places = replies[6 * place : 6 * place + 6]
        pending, calling, at, forgotten_ms = places
        oldest = first[1] if first else b"0"
        stands = (pending, calling, at, forgotten_ms, oldest)
        stand = _Stand(state or b"", outcome is not None, answered == 1, *stands)
        found.append((schedule, stand))
    return found
