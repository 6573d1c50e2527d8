"""The order of starts in a crowd: accounts in turn, and first those that a lane's rate spaces."""

from __future__ import annotations

from collections import deque

from scheduler.models import Invocation
from worker.fair_share import FairQueue

_MOST_REMEMBERED = 4096


class StartQueue(FairQueue[Invocation]):
    """Round-robin over accounts. Invocations with a rate are useless soon after their slots. So
    they go before others of their account, and their account takes its turn of a round as soon as
    it has one: each round starts one of them, however long it lasts. No account has more turns."""

    def __init__(self) -> None:
        super().__init__()
        # Their accounts are in the ring too, with an empty queue if nothing else waits.
        self.rated: dict[str, deque[Invocation]] = {}
        self.turns = 0
        self._next: dict[str, None] = {}  # accounts that take their turn at once
        self._again: dict[str, int] = {}  # account -> the turn from which it may go first again

    def add_rated(self, invocation: Invocation) -> None:
        account_id = invocation.account_id
        self._queues.setdefault(account_id, deque())
        queue = self.rated.get(account_id)
        if queue is None:
            queue = self.rated[account_id] = deque()
            if self.turns >= self._again.get(account_id, 0):
                self._next[account_id] = None
        queue.append(invocation)

    def pop_rated(self) -> Invocation:
        """As `pop`; to be called while there are `rated` ones."""
        account_id = next(iter(self._next or self._queues))
        self._next.pop(account_id, None)
        rated, others = self.rated.pop(account_id, None), self._queues.pop(account_id)
        entry = (rated or others).popleft()
        if rated:  # the next one has its turn at the end of this round
            self.rated[account_id] = rated
        if rated or others:
            self._queues[account_id] = others
        if len(self._again) >= _MOST_REMEMBERED:
            self._again.clear()
        self._again[account_id] = self.turns + len(self._queues)
        return entry

    def clear(self) -> None:
        super().clear()
        self.rated.clear()
        self._next.clear()
