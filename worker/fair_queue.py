"""A round-robin queue over accounts; entries of one account go first in, first out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class OfAccount(Protocol):
    @property
    def account_id(self) -> str: ...


T = TypeVar("T", bound=OfAccount)


class FairQueue(Generic[T]):
    """A queue by account: one that has thousands in it lets a neighbour's go next but one."""

    def __init__(self) -> None:
        # A dict as a ring: the first account is next.
        self._queues: dict[str, deque[T]] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, entry: T) -> None:
        queue = self._queues.get(entry.account_id)
        if queue is None:
            queue = self._queues[entry.account_id] = deque()
        queue.append(entry)

    def pop(self) -> T:
        """Removes the next entry; the one after it is another account's, if one waits."""
        account_id = next(iter(self._queues))
        if len(self._queues) == 1:
            queue = self._queues[account_id]
            entry = queue.popleft()
            if not queue:
                del self._queues[account_id]
            return entry
        queue = self._queues.pop(account_id)
        entry = queue.popleft()
        if queue:
            self._queues[account_id] = queue
        return entry

    def pop_of(self, may: Callable[[str], bool]) -> T | None:
        """Removes the next entry of an account that may; None if there is none."""
        for account_id, queue in self._queues.items():
            if may(account_id):
                del self._queues[account_id]
                entry = queue.popleft()
                if queue:
                    self._queues[account_id] = queue
                return entry
        return None

    def clear(self) -> None:
        self._queues.clear()
