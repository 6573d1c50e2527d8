"""Divides a scarce resource so that no account can take all of it, or be first every time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Generic, TypeVar

# An account may have up to this many times the free room. One flood so takes four fifths, two
# floods four ninths each, and a neighbour always finds room. (Choudhury and Hahne, "Dynamic queue
# length thresholds for shared-memory packet switches", 1998.)
SHARE_OF_FREE = 4
_MOST_CROWDED = 64
T = TypeVar("T")


class FairShare:
    """So many pieces, of which `free` are left. What takes several at once may be over its
    account's share by all but one of them."""

    def __init__(self, most: int) -> None:
        self._most = self.free = most
        self._by_account: Counter[str] = Counter()

    def may_take(self, account_id: str) -> bool:
        return self._by_account[account_id] < self.free * SHARE_OF_FREE

    def take(self, account_id: str, pieces: int = 1) -> bool:
        """Whether there are any for the account; then `give_back` is to follow."""
        if not self.may_take(account_id):
            return False
        self.hold(account_id, pieces)
        return True

    def hold(self, account_id: str, pieces: int) -> None:
        """Takes them whatever the account's share, and below 0 if need be."""
        self.free -= pieces
        self._by_account[account_id] += pieces

    def give_back(self, account_id: str, pieces: int = 1) -> None:
        self.free += pieces
        self._by_account[account_id] -= pieces
        if not self._by_account[account_id]:
            del self._by_account[account_id]

    def crowding(self) -> list[str]:
        """The accounts that have more than their share, fullest first."""
        most = self.free * SHARE_OF_FREE
        if self._most - self.free <= most:
            return []
        fullest = self._by_account.most_common(_MOST_CROWDED)
        return [account_id for account_id, part in fullest if part > most]


class FairQueue(Generic[T]):
    """Round-robin over accounts, whose entries go first in, first out: one that has thousands in it
    lets a neighbour's go next but one."""

    def __init__(self) -> None:
        # A dict as a ring: the first account is next.
        self._queues: dict[str, deque[T]] = {}

    def __bool__(self) -> bool:
        return bool(self._queues)

    def add(self, account_id: str, entry: T) -> None:
        queue = self._queues.get(account_id)
        if queue is None:
            queue = self._queues[account_id] = deque()
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

    def pop_of(self, may: Callable[[str], bool]) -> tuple[str, T] | None:
        """Removes the next entry of an account that may, and says whose; None if there is none."""
        for account_id in self._queues:
            if may(account_id):
                queue = self._queues.pop(account_id)
                entry = queue.popleft()
                if queue:
                    self._queues[account_id] = queue
                return account_id, entry
        return None

    def clear(self) -> None:
        self._queues.clear()
