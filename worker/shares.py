"""Shares: something scarce, of which no account may have all."""

from __future__ import annotations

from collections import Counter

# An account may have this many times what is still free: see worker/holdings.py.
_SHARE_OF_FREE = 4


class Shares:
    """So many pieces; one account can have four fifths of them, two four ninths each. What takes
    several at once may be over that by all but one of them."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._by_account: Counter[str] = Counter()

    @property
    def free(self) -> int:
        return self._free

    def may_take(self, account_id: str) -> bool:
        return self._by_account[account_id] < self._free * _SHARE_OF_FREE

    def take(self, account_id: str, pieces: int = 1) -> bool:
        """Whether there are any for the account; then `give_back` is to follow."""
        if not self.may_take(account_id):
            return False
        self._free -= pieces
        self._by_account[account_id] += pieces
        return True

    def give_back(self, account_id: str, pieces: int = 1) -> None:
        self._free += pieces
        self._by_account[account_id] -= pieces
        if not self._by_account[account_id]:
            del self._by_account[account_id]
