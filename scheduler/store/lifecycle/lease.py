"""Leases of claimed schedules: prolonged, or given back."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler import ids
from scheduler.elapsed import elapsed_s
from scheduler.errors import OutcomeUnknown, StoreError, StoreUnavailable
from scheduler.models import Invocation
from scheduler.store import keys
from scheduler.store.server import Argument, Script, Server
from scheduler.store.server.clock import StoreClock
from scheduler.store.verdict import Verdict

_LEASE = Script("lifecycle/lease")


class Leasing:
    """Prolongs leases, and gives back unstarted schedules."""

    def __init__(self, server: Server, clock: StoreClock) -> None:
        self._server = server
        self._clock = clock

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
            arguments += (*_held(each), each.attempt - 1 or "", each.due_at_ms)
        now_us, _ = await self._server.run(_LEASE, keys.shard(shard), arguments)
        self._clock.observe(now_us)

    async def _extend(
        self, shard: int, lease_ms: int, ends_us: int, invocations: Sequence[Invocation]
    ) -> list[int]:
        arguments: list[Argument] = [lease_ms, ends_us]
        for each in invocations:
            # The store does not know of an attempt that was repeated at once.
            arguments += (*_held(each), each.attempt if each.attempt > 1 else "", "")
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


def _held(invocation: Invocation) -> tuple[str, str, str]:
    account = keys.parts(invocation.account_id).local
    return account, ids.local(invocation.schedule_id), invocation.token


def _since(token: str, end: str) -> str:
    """A token of which one moment is known to have been written: that and later ones."""
    return token[f":{token}".rindex(f":{end}") :]


def _forget(invocations: Sequence[Invocation], ends_us: int) -> None:
    """Takes a moment out of the tokens that certainly was not written."""
    for each in invocations:
        before, _, after = f":{each.token}:".rpartition(f":{ends_us}:")
        each.token = f"{before}:{after}".strip(":")
