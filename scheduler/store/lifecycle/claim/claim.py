"""Claiming the due schedules of a shard, and the leases that come with them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import repeat
from typing import Any, NamedTuple

import structlog

from scheduler import ids
from scheduler.errors import OutcomeUnknown, StoreError, StoreUnavailable, anew
from scheduler.models import Delivery, Invocation
from scheduler.runtime.elapsed import elapsed_s
from scheduler.store import keys
from scheduler.store.lifecycle.claim.claimed import Claim
from scheduler.store.lifecycle.claim.claimed import UnreadClaim as UnreadClaim
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.server.line import PackedCommands
from scheduler.store.server.scripts import Call
from scheduler.store.server.server import Replicated
from scheduler.store.verdict import Verdict

_REALIGNED_AT_ONCE = 100
_LANES_REALIGNED_AT_ONCE = 100
_RULES_REALIGNED_AT_ONCE = 200
_LOOK_ALONE_S = 0.5
# Most bytes of a claim: more than usual requests have, and no burden to a worker's loop.
_MOST_BYTES = 4 * 1024 * 1024
# Of one call: a claim of one schedule takes the store some 40 us.
_MOST_SHARDS = 32
_ON_HOLD = b"-2"

_CLAIM = Script("lifecycle/claim/claim")
_LEASE = Script("lifecycle/claim/lease")
_REALIGN = Script("lifecycle/claim/realign")
_REALIGN_LANES = Script("lifecycle/claim/realign_lanes")
_REALIGN_RULES = Script("lifecycle/claim/realign_rules")

_log = structlog.get_logger(__name__)


class Batch(NamedTuple):
    """The result of a claim; `next_look_ms` (the server's clock) is None if nothing waits. `full`:
    more may be due. `reading`: the clock's reading that came with it. `on_hold`: the shard is, and
    nothing was claimed. `unread` ones are leased as well. `broken`: accounts with damaged data, of
    which nothing could be claimed."""

    invocations: list[Invocation]
    next_look_ms: float | None
    full: bool
    reading: int
    on_hold: bool = False
    unread: Sequence[UnreadClaim] = ()
    broken: Sequence[str] = ()


def together(batches: Sequence[Batch]) -> Batch:
    """What one call brought from several shards: its schedules, and what could not be claimed."""
    first, *others = batches
    if not others:
        return first
    return first._replace(
        invocations=[one for each in batches for one in each.invocations],
        unread=[one for each in batches for one in each.unread],
        broken=[one for each in batches for one in each.broken],
    )


class ClaimOrder(NamedTuple):
    """What to claim from a shard: up to `most` schedules and so many bytes of requests, but one
    whatever it weighs. They are due within `ahead_ms` from now (below 0, due for so long). Leases
    that ended later than `take_over_by_ms` (the server's clock) are not taken over: while a store
    hangs workers cannot prolong them."""

    shard: int
    most: int
    most_bytes: int = _MOST_BYTES
    ahead_ms: int = 0
    take_over_by_ms: int = 2**53


class Look(NamedTuple):
    """When to look at a shard next, and since when it has a backlog (ms, the server's clock)."""

    next_look_ms: float | None
    backlog_since_ms: float | None


class Claims:
    """Claims due schedules of a shard, prolongs leases, and gives back unstarted ones."""

    def __init__(self, server: Server, clock: StoreClock) -> None:
        self._server = server
        self._clock = clock
        # Those of one server share a call, but for calls that wait for replicas.
        self.most_shards = 1 if server.routed or server.wait_replicas else _MOST_SHARDS

    async def look(
        self, shards: Sequence[int], *, backlogs: bool = True
    ) -> dict[int, Look | StoreError]:
        """When to look at each shard next: one round trip for all, often made without `backlogs`. A
        shard that cannot be read has its error instead; on a cluster the others are still read."""
        try:
            return {**await self._look(shards, backlogs=backlogs)}
        except StoreError as error:
            if not self._server.routed:
                return dict.fromkeys(shards, error)
        alone = await asyncio.gather(*map(self._look_alone, shards))
        return dict(zip(shards, alone, strict=True))

    async def realign(self, shard: int) -> None:
        """Sees to it that claims look in time at all that waits, and workers at all recurring
        schedules: at the start, after the server's clock was set back, and from time to time."""
        place, count = 0, _REALIGNED_AT_ONCE
        while count == _REALIGNED_AT_ONCE:
            now_us, count, with_more = await self._server.run(
                _REALIGN, keys.shard(shard), (place, _REALIGNED_AT_ONCE)
            )
            self._clock.observe(now_us)
            place += count
            for account in with_more:
                await self._realign_each(_REALIGN_LANES, shard, account, _LANES_REALIGNED_AT_ONCE)
                await self._realign_each(_REALIGN_RULES, shard, account, _RULES_REALIGNED_AT_ONCE)

    async def _realign_each(self, script: Script, shard: int, account: bytes, most: int) -> None:
        """All of an account's, so many at a time."""
        last: bytes | None = b""
        while last is not None:
            now_us, found = await self._server.run(script, keys.shard(shard), (account, last, most))
            self._clock.observe(now_us)
            last = found or None

    async def claim(
        self,
        shard: int,
        *,
        lease_ms: int,
        most_accounts: int = 16,
        pass_over: Iterable[str] = (),
        **order: int,
    ) -> Batch:
        """`claim_each` of one shard; `order` has the fields of its ClaimOrder."""
        orders = [ClaimOrder(shard, **order)]
        [found] = await self.claim_each(
            orders, lease_ms=lease_ms, most_accounts=most_accounts, pass_over=pass_over
        )
        if isinstance(found, Exception):
            raise found
        return found

    async def claim_each(
        self,
        orders: Sequence[ClaimOrder],
        *,
        lease_ms: int,
        most_accounts: int,
        pass_over: Iterable[str] = (),
    ) -> list[Batch | Exception]:
        """Claims from up to `most_shards` in one round trip: from each shard a fair share from each
        of up to `most_accounts`; `pass_over` names account ids to leave. A shard that fails has its
        error instead, and spoils no other. Not repeated after a lost reply: what it claimed waits
        for its lease to end. With `wait_replicas`, at-most-once schedules are returned only once
        the replicas have the claim."""
        asked_s = elapsed_s()
        others = [keys.parts(account).local for account in pass_over]
        calls: list[Call] = []
        for shard, *wanted, ahead_ms, by_ms in orders:
            words: list[Argument] = [lease_ms, *wanted, most_accounts, ahead_ms, by_ms, "", *others]
            calls.append((keys.shard(shard), words))
        if self._server.wait_replicas:
            return [
                await self._claim_apart(order, call, asked_s, lease_ms)
                for order, call in zip(orders, calls, strict=True)
            ]
        replies = await self._server.run_each(_CLAIM, calls)
        self._clock.observe_newest(replies)
        found = [
            self._read(order, asked_s, lease_ms, reply)
            for order, reply in zip(orders, replies, strict=True)
        ]
        if self._server.way.choosing:
            # The next primary may lack these claims.
            for place, (order, batch) in enumerate(zip(orders, found, strict=True)):
                if isinstance(batch, Batch):
                    sure = await self._without_careful(order.shard, batch.invocations)
                    found[place] = batch._replace(invocations=sure)
        return found

    async def claim_of(self, account_id: str, *, by_ms: int, lease_ms: int, most: int) -> Batch:
        """For an operator: claims up to `most` of one account that were due by a moment (ms, the
        server's clock), though the account be suspended or its shard on hold."""
        asked_s = elapsed_s()
        shard, account = keys.parts(account_id)
        # Two turns: of what has no lane, and of its lanes.
        arguments = (lease_ms, most, _MOST_BYTES, 2, by_ms, 2**53, account)
        reply = await self._server.run(_CLAIM, keys.shard(shard), arguments)
        self._clock.observe(reply[0])
        return self._batch(ClaimOrder(shard, most), asked_s, lease_ms, reply)

    async def extend(
        self, shard: int, lease_ms: int, invocations: Sequence[Invocation]
    ) -> list[Invocation]:
        """Prolongs leases, also in the invocations; returns those that are lost. Safe to repeat."""
        if not invocations:
            return []
        asked_s = elapsed_s()
        for _ in range(2):  # the second time by the clock that the first one brought
            ends_us = self._clock.now_us() + lease_ms * 1000
            ends_us += ends_us % 1000 == 0  # a schedule that waits stands at a whole millisecond
            verdicts = await self._extend(shard, lease_ms, ends_us, invocations)
            if verdicts:
                break
        else:
            raise StoreUnavailable("The store's clock jumps")
        lost = []
        for each, verdict in zip(invocations, verdicts, strict=True):
            if verdict == Verdict.DONE:
                each.token = _since(each.token, str(ends_us))
                each.lease_until_s = asked_s + lease_ms / 1000
            else:
                lost.append(each)
        return lost

    async def release(self, shard: int, invocations: Sequence[Invocation]) -> None:
        """Gives back unstarted schedules: due as before, the attempt not used up. Safe to repeat;
        what another worker holds by now stays with it."""
        arguments: list[Argument] = ["", ""]
        for each in invocations:
            used = "" if each.is_callback else each.attempt - 1 or ""
            arguments += (*_held(each), used, each.due_at_ms)
        now_us, _ = await self._server.run(_LEASE, keys.shard(shard), arguments)
        self._clock.observe(now_us)

    async def _claim_apart(
        self, order: ClaimOrder, call: Call, asked_s: float, lease_ms: int
    ) -> Batch | Exception:
        try:
            async with self._server.apart(call[0]) as apart:
                reply = await apart.run(_CLAIM, call[1])
                self._clock.observe(reply[0])
                found = self._read(order, asked_s, lease_ms, reply)
                if isinstance(found, Exception):
                    return found
                ready = await self._replicated(apart, order.shard, found.invocations)
        except StoreError as error:
            return anew(error)
        return found._replace(invocations=ready)

    def _read(
        self, order: ClaimOrder, asked_s: float, lease_ms: int, reply: Any
    ) -> Batch | Exception:
        """One reply among several, whose fault is not the others'."""
        if isinstance(reply, Exception):
            return reply
        try:
            return self._batch(order, asked_s, lease_ms, reply)
        except Exception as error:
            _log.exception("a claim failed", shard=order.shard)
            return anew(error)

    def _batch(
        self, order: ClaimOrder, asked_s: float, lease_ms: int, reply: Sequence[Any]
    ) -> Batch:
        """A claim's reply; its leases count from when it was asked for."""
        (now_us, look, token, parts, damaged), shard = reply, order.shard
        reading, until_s = self._clock.readings, asked_s + lease_ms / 1000
        found: list[Invocation] = []
        unread: list[UnreadClaim] = []
        claim = Claim(shard, str(token), until_s, now_us, self._server.secrecy, unread)
        for part in parts:
            claimed = claim.invocations(part)
            for each in claimed:
                # It was due when a worker took it; a clock that was set back since changes nothing.
                if each.attempt > 1 and each.taken_over:
                    each.due_at_ms = min(each.due_at_ms, now_us // 1000)
                elif each.is_callback:
                    each.due_at_ms = min(each.due_at_ms, now_us // 1000 + order.ahead_ms)
            found += claimed
        if look == _ON_HOLD:
            return Batch(found, None, False, reading, on_hold=True)
        next_look_ms = None if look == b"-1" else float(look)
        full = next_look_ms is not None and next_look_ms <= now_us / 1000 + order.ahead_ms
        broken = [ids.account_id(shard, each.decode()) for each in dict.fromkeys(damaged)]
        return Batch(found, next_look_ms, full, reading, unread=unread, broken=broken)

    async def _replicated(
        self, apart: Replicated, shard: int, found: list[Invocation]
    ) -> list[Invocation]:
        """Those that may be fired: not at-most-once ones of which too few replicas know."""
        if not any(each.request.delivery is Delivery.AT_MOST_ONCE for each in found):
            return found
        try:
            await apart.replicated()
        except StoreError as error:
            _log.warning("replicas lack a claim; at-most-once ones wait", error=str(error))
            return await self._without_careful(shard, found)
        return found

    async def _without_careful(self, shard: int, found: list[Invocation]) -> list[Invocation]:
        """Gives at-most-once ones back. If that fails too, they wait for their leases' end; the
        others may be fired."""
        careful = [each for each in found if each.request.delivery is Delivery.AT_MOST_ONCE]
        if careful:
            with suppress(StoreError):
                await self.release(shard, careful)
        return [each for each in found if each.request.delivery is not Delivery.AT_MOST_ONCE]

    async def _look(self, shards: Sequence[int], *, backlogs: bool = True) -> dict[int, Look]:
        if not shards:
            return {}
        one_clock = not self._server.routed  # each node of a cluster has one of its own
        replies = await self._server.reads(_looks_at(tuple(shards), backlogs, one_clock))
        if one_clock:
            self._clock.observe_reply(replies.pop())
        heads, since = replies[: len(shards)], replies[len(shards) :] or repeat(None)
        return {
            shard: Look(float(head[1]) if head else None, float(backlog) if backlog else None)
            for shard, head, backlog in zip(shards, heads, since, strict=False)
        }

    async def _look_alone(self, shard: int) -> Look | StoreError:
        try:
            async with asyncio.timeout(_LOOK_ALONE_S):
                return (await self._look([shard]))[shard]
        except StoreError as error:
            return anew(error)
        except TimeoutError:
            return StoreUnavailable("The store does not answer")

    async def _extend(
        self, shard: int, lease_ms: int, ends_us: int, invocations: Sequence[Invocation]
    ) -> list[int]:
        arguments: list[Argument] = [lease_ms, ends_us]
        for each in invocations:
            # The store does not know of an attempt that was repeated at once.
            used = each.attempt if each.attempt > 1 else ""
            arguments += (*_held(each), "" if each.is_callback else used, "")
            # Until the reply is here, an ack or release names both: either token may hold.
            each.token = f"{each.token}:{ends_us}"
        try:
            now_us, verdicts = await self._server.run(_LEASE, keys.shard(shard), arguments)
        except OutcomeUnknown:
            raise
        except StoreError:
            _forget(invocations, ends_us)
            raise
        if not verdicts:
            _forget(invocations, ends_us)
        self._clock.observe(now_us)
        return verdicts  # type: ignore[no-any-return]


@lru_cache(maxsize=16)
def _looks_at(shards: tuple[int, ...], backlogs: bool, time: bool) -> PackedCommands:
    """The same ones fifty times a second."""
    prefixes = [keys.shard(shard) for shard in shards]
    first = ("(-inf", "+inf", "BYSCORE", "LIMIT", 0, 1, "WITHSCORES")
    commands: list[tuple[Argument, ...]] = []
    commands += [("ZRANGE", prefix + keys.HEADS, *first) for prefix in prefixes]
    if backlogs:
        commands += [("GET", prefix + keys.BACKLOG) for prefix in prefixes]
    if time:
        commands.append(("TIME",))
    return PackedCommands(commands)


def _held(invocation: Invocation) -> tuple[str, str, str]:
    queue = keys.parts(invocation.account_id).local
    if invocation.lane is not None:
        queue = f"{queue}/{invocation.lane}"
    elif invocation.is_callback:
        queue = f"{queue}#"
    return queue, ids.local(invocation.schedule_id), invocation.token


def _since(token: str, end: str) -> str:
    """A token of which one moment is known to have been written: that and later ones."""
    return token[f":{token}".rindex(f":{end}") :]


def _forget(invocations: Sequence[Invocation], ends_us: int) -> None:
    """Takes a moment out of the tokens that certainly was not written."""
    for each in invocations:
        before, _, after = f":{each.token}:".rpartition(f":{ends_us}:")
        each.token = f"{before}:{after}".strip(":")
