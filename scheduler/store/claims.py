"""Schedules as workers see them: claimed under a lease, prolonged, given back, acked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import structlog

from scheduler import ids
from scheduler.errors import StoreError, StoreUnavailable
from scheduler.models import Invocation, Outcome
from scheduler.rollups import lateness_bucket
from scheduler.store import keys, packing
from scheduler.store.calls import Calls
from scheduler.store.clock import StoreClock
from scheduler.store.connection import Client
from scheduler.store.items import AckItem, HeldItem, ReleaseItem
from scheduler.store.scripts import Scripts

_FIELDS_PER_CLAIMED = 5
_REALIGNED_AT_ONCE = 500
_LOOK_ALONE_S = 0.5
_log = structlog.get_logger(__name__)


class Batch(NamedTuple):
    """What a claim brought; `next_look_ms` (the server's clock) is None if nothing waits."""

    invocations: list[Invocation]
    next_look_ms: float | None


class Ack(NamedTuple):
    """An invocation's end. `lateness_ms` is from triggerAt to the first byte sent, or to now."""

    invocation: Invocation
    outcome: Outcome
    lateness_ms: int


class Look(NamedTuple):
    """What a shard holds, at a glance (ms, the server's clock; None: nothing)."""

    next_look_ms: float | None
    backlog_since_ms: float | None


class Claims:
    """Claims what is due in a shard, and settles what was claimed."""

    def __init__(self, client: Client, scripts: Scripts, clock: StoreClock) -> None:
        self._calls = Calls(client)
        self._scripts = scripts
        self._clock = clock

    async def look(self, shards: Sequence[int]) -> dict[int, Look | StoreError]:
        """When each shard is to be looked at next: one round trip for all of them.

        A shard that cannot be read has its error instead; on a cluster the others are read all
        the same.
        """
        try:
            return {**await self._look(shards)}
        except StoreError as error:
            if not self._calls.routed:
                return dict.fromkeys(shards, error)
        alone = await asyncio.gather(*map(self._look_alone, shards))
        return dict(zip(shards, alone, strict=True))

    async def realign(self, shard: int) -> None:
        """Brings accounts' turns back to the server's clock after that was set back."""
        place, count = 0, _REALIGNED_AT_ONCE
        while count == _REALIGNED_AT_ONCE:
            now_us, count = await self._scripts.realign(shard, place, _REALIGNED_AT_ONCE)
            self._clock.observe(now_us)
            place += count

    async def claim(
        self,
        shard: int,
        *,
        lease_ms: int,
        most: int,
        most_accounts: int = 16,
        grace_ms: int = 0,
        late_ms: int = 0,
        asked_at_ms: int | None = None,
        pass_over: Iterable[str] = (),
    ) -> Batch:
        """Claims up to `most` due schedules, a fair share from each of up to `most_accounts`.

        With `grace_ms`, leases that have ended are prolonged by it instead of taken over. With
        `late_ms`, only what has been due for so long. With `asked_at_ms`, by the server's clock,
        leases that ended later are left: a claim that waits in a store that hangs must not take
        over what nobody could prolong meanwhile. `pass_over` names account ids to leave.
        Not repeated here after a lost reply: what it claimed waits for its lease to end.
        """
        token = ids.new_token()
        now_us, next_look_ms, values = await self._scripts.claim(
            shard,
            token,
            lease_ms=lease_ms,
            most=most,
            most_accounts=most_accounts,
            grace_ms=grace_ms,
            late_ms=late_ms,
            asked_at_ms=asked_at_ms,
            pass_over=(keys.parts(account).local for account in pass_over),
        )
        self._clock.observe(now_us)
        rows = zip(*[iter(values)] * _FIELDS_PER_CLAIMED, strict=True)
        invocations = [_invocation(shard, token, now_us // 1000, row) for row in rows]
        return Batch([each for each in invocations if each is not None], next_look_ms)

    async def extend(
        self, shard: int, lease_ms: int, invocations: Sequence[Invocation]
    ) -> list[Invocation]:
        """Prolongs leases; returns those that are lost to another worker. Safe to repeat."""
        items = [HeldItem(*_held(each), each.attempt) for each in invocations]
        now_us, codes = await self._scripts.extend(shard, lease_ms, items)
        self._clock.observe(now_us)
        return [each for each, code in zip(invocations, codes, strict=True) if code != 1]

    async def release(self, shard: int, invocations: Sequence[Invocation]) -> None:
        """Gives back what was not started: due at its triggerAt, the attempt not used up.

        Safe to repeat; what another worker holds by now stays with it.
        """
        items = [
            ReleaseItem(*_held(each), each.request.trigger_at_ms, each.attempt - 1)
            for each in invocations
        ]
        now_us, _ = await self._scripts.release(shard, items)
        self._clock.observe(now_us)

    async def ack(self, shard: int, acks: Sequence[Ack]) -> list[int]:
        """Records outcomes, with log and statistics. Safe to repeat.

        A code for each: 1 recorded, 0 had ended before, -1 another worker holds it now.
        """
        now_us, codes = await self._scripts.ack(shard, [_ack_item(each) for each in acks])
        self._clock.observe(now_us)
        return codes

    async def _look(self, shards: Sequence[int]) -> dict[int, Look]:
        commands: list[tuple[str | int, ...]] = []
        for shard in shards:
            commands.append(("ZRANGE", keys.heads(shard), 0, 0, "WITHSCORES"))
            commands.append(("GET", keys.backlog(shard)))
        replies = await self._calls.reads(commands)
        looks = {}
        for shard, head, backlog in zip(shards, replies[::2], replies[1::2], strict=True):
            next_look = float(_score(head)) if head else None
            looks[shard] = Look(next_look, float(backlog) if backlog else None)
        return looks

    async def _look_alone(self, shard: int) -> Look | StoreError:
        try:
            async with asyncio.timeout(_LOOK_ALONE_S):
                return (await self._look([shard]))[shard]
        except StoreError as error:
            return error
        except TimeoutError:
            return StoreUnavailable("The store does not answer")


def _invocation(shard: int, token: str, now_ms: int, row: Sequence[bytes]) -> Invocation | None:
    """One claimed schedule; None for a request that this version cannot read. That one stays under
    its lease, for a worker that can: during an upgrade there may be one."""
    account, schedule, created, attempt, packed = row
    try:
        request = packing.unpack_request(packed)
    except msgspec.MsgspecError as error:
        _log.error("a request cannot be read", schedule=schedule.decode(), error=str(error))
        return None
    return Invocation(
        shard,
        f"acc_{shard:02d}_{account.decode()}",
        "sch_" + schedule.decode(),
        int(created),
        token,
        int(attempt),
        now_ms,
        request,
    )


def _held(invocation: Invocation) -> tuple[str, str, str]:
    account = keys.parts(invocation.account_id).local
    return account, invocation.schedule_id[4:], invocation.token


def _ack_item(ack: Ack) -> AckItem:
    invocation, outcome, lateness_ms = ack
    line = packing.log_line(
        invocation.schedule_id, invocation.created_at_ms, invocation.request, outcome
    )
    return AckItem(
        *_held(invocation),
        outcome.status,
        packing.pack_outcome(outcome),
        line,
        outcome.response_time_ms,
        lateness_bucket(lateness_ms),
    )


def _score(head: list[Any]) -> Any:
    """Of one member and its score, as a plain reply or as the client has prepared it."""
    return head[0][1] if len(head) == 1 else head[1]
