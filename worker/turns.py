"""Turns: a line in which accounts take turns, and what waits longest goes first within one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class OfAccount(Protocol):
    @property
    def account_id(self) -> str: ...


T = TypeVar("T", bound=OfAccount)


class Turns(Generic[T]):
    """A line by account: one that has thousands in it lets a neighbour's go next but one."""

    def __init__(self) -> None:
        # A dict as a ring: the first account's turn it is.
        self._lines: dict[str, deque[T]] = {}

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, entry: T) -> None:
        line = self._lines.get(entry.account_id)
        if line is None:
            line = self._lines[entry.account_id] = deque()
        line.append(entry)

    def pop(self) -> T:
        """Removes the first in turn; the next turn is another account's, if one waits."""
        account_id = next(iter(self._lines))
        if len(self._lines) == 1:
            line = self._lines[account_id]
            entry = line.popleft()
            if not line:
                del self._lines[account_id]
            return entry
        line = self._lines.pop(account_id)
        entry = line.popleft()
        if line:
            self._lines[account_id] = line
        return entry

    def pop_of(self, may: Callable[[str], bool]) -> T | None:
        """The first one in turn of an account that may; None if there is none."""
        for account_id, line in self._lines.items():
            if may(account_id):
                del self._lines[account_id]
                entry = line.popleft()
                if line:
                    self._lines[account_id] = line
                return entry
        return None

    def pop_all(self) -> list[T]:
        left = [entry for line in self._lines.values() for entry in line]
        self._lines.clear()
        return left
