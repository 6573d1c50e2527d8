"""Schedules as workers see them: claimed under a lease, prolonged, given back, acked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from scheduler import ids
from scheduler.models import Invocation, Outcome
from scheduler.rollups import lateness_bucket
from scheduler.store import keys, packing
from scheduler.store.calls import Calls
from scheduler.store.clock import StoreClock
from scheduler.store.connection import Client
from scheduler.store.items import AckItem, HeldItem, ReleaseItem
from scheduler.store.scripts import Scripts

_FIELDS_PER_CLAIMED = 5


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

    async def look(self, shards: Sequence[int]) -> dict[int, Look]:
        """When each shard is to be looked at next: one round trip for all of them."""
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
        prefix, now_ms = f"acc_{shard:02d}_", now_us // 1000
        invocations = [
            Invocation(
                shard,
                prefix + account.decode(),
                "sch_" + schedule.decode(),
                int(created),
                token,
                int(attempt),
                now_ms,
                packing.unpack_request(packed),
            )
            for account, schedule, created, attempt, packed in rows
        ]
        return Batch(invocations, next_look_ms)

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
