"""Occurrences of recurring schedules: before one may be sent, its rule stands on a later slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from scheduler.errors import StoreError, StoreRefused
from scheduler.models import Invocation
from scheduler.reminder import Reminder
from scheduler.store import Store
from scheduler.store.lifecycle.claim import UnreadClaim
from worker.leases import Touch
from worker.unreadable import Unreadables

_MOST_AT_ONCE = 128
# One that is later may have missed times, of which 10,000 take 0.1 s to count.
_LATE_MS = 60_000
_log = structlog.get_logger(__name__)


class Occurrences:
    """Advances the rules of claimed occurrences. `unsure` gets those that the store did not answer
    for. `advanced` counts the occurrences that it did answer for."""

    def __init__(
        self,
        store: Store,
        touch: Touch,
        unreadables: Unreadables,
        *,
        unsure: Callable[[Invocation], None],
    ) -> None:
        self._store = store
        self._touch = touch
        self._unreadables = unreadables
        self._unsure = unsure
        self._reminder = Reminder()
        self.advanced = 0

    async def advance(self, shard: int, invocations: Sequence[Invocation]) -> list[Invocation]:
        """Of claimed ones of one shard, those that may be sent: their rules have advanced, or have
        not to. Those of which that fails go back to the store. Safe to repeat."""
        waiting = [each for each in invocations if _is_to_advance(each)]
        if not waiting:
            return list(invocations)
        held_back = set[Invocation]()
        for start in range(0, len(waiting), _MOST_AT_ONCE):
            some = waiting[start : start + _MOST_AT_ONCE]
            try:
                held_back |= await self._advance(some)
            except StoreError as error:
                self._touch.lose([shard], error)
                held_back |= {*waiting[start:]}
                for each in waiting[start:]:
                    self._unsure(each)
                break
            self.advanced += len(some)
        return [each for each in invocations if each not in held_back]

    async def _advance(self, some: list[Invocation]) -> set[Invocation]:
        """Returns those that go back. Raises StoreError."""
        try:
            await self._store.recurring.advance(some)
        except Exception as error:
            if isinstance(error, StoreError) and not isinstance(error, StoreRefused):
                raise
            if len(some) > 1:  # one of them: the others are not to wait for it
                return {each for one in some for each in await self._advance([one])}
            if self._reminder.is_due():
                _log.exception("a recurring schedule cannot advance", schedule=some[0].schedule_id)
            why = f"its recurring schedule cannot advance: {error}"
            self._unreadables.put([UnreadClaim(some[0], why, "")])
            return {*some}
        return set()


def advanced_together(invocation: Invocation, now_ms: int) -> tuple[int, str]:
    """Occurrences with the same shard and account here advance in the same calls: late ones of an
    account are not to hold up others."""
    occurrence = invocation.request.recurring
    slot_ms = occurrence and occurrence.slot_ms
    is_late = slot_ms is not None and slot_ms + _LATE_MS <= now_ms
    return invocation.shard, invocation.account_id if is_late else ""


def _is_to_advance(invocation: Invocation) -> bool:
    """An attempt that failed was sent, so its rule has advanced."""
    occurrence = invocation.request.recurring
    return occurrence is not None and occurrence.slot_ms is not None and invocation.retry is None
