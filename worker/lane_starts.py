"""Starts of schedules in lanes. Those that come too late for their slot go back for another one."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.errors import StoreError
from scheduler.models import Invocation
from scheduler.store.server.clock import StoreClock
from worker.claimer import ClaimSoon
from worker.leases import Leases, Touch
from worker.unsure import Unsure
from worker.upkeep import Background

# So many starts that a rate spaces wait in a worker: some 5 ms of its time. Of more, those at the
# end would come too late for their slots, and go back in vain.
_MOST_RATED = 128
_MOST_PASSED_OVER = 64


def crowding(waiting: Sequence[Invocation]) -> list[str]:
    """Of starts that a rate spaces, the accounts that claims are to pass over for a moment."""
    if len(waiting) <= _MOST_RATED:
        return []
    accounts = dict.fromkeys(each.account_id for each in waiting)
    return list(accounts)[:_MOST_PASSED_OVER]


class LaneStarts:
    """Judges each start right before it is handed to the connection pool.

    A lane's slots are spaced so that its rate holds while each start is at most its slack behind
    its slot; a later one would come too close to those after it, and goes back for another slot.
    """

    def __init__(
        self,
        clock: StoreClock,
        leases: Leases,
        touch: Touch,
        unsure: Unsure,
        soon: ClaimSoon,
        background: Background,
    ) -> None:
        self._clock = clock
        self._leases = leases
        self._touch = touch
        self._unsure = unsure
        self._soon = soon
        self._background = background
        self._missed: dict[int, list[Invocation]] = {}
        self.started = self.missed = 0

    def may_start(self, invocation: Invocation) -> bool:
        """Whether an invocation with a lane may start now; else it is given back."""
        slack_us = invocation.slack_us
        if not slack_us or self._clock.now_us() <= invocation.starts_at_us + slack_us:
            self.started += 1
            return True
        self.missed += 1
        missed = self._missed.setdefault(invocation.shard, [])
        missed.append(invocation)
        if len(missed) == 1:
            self._background.start(self._release(invocation.shard))
        return False

    async def _release(self, shard: int) -> None:
        """Those of one round of the loop, together."""
        missed = self._missed.pop(shard)
        try:
            await self._leases.release(shard, missed)
        except StoreError as error:
            self._touch.lose([shard], error)
        finally:
            for each in missed:
                self._unsure.put(each)
        self._soon.note_place(shard)
