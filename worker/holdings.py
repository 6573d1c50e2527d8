"""What this worker holds: claimed and not yet acked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from scheduler.models import Invocation

# An account may hold up to this many times the slots that are still free. One flood so fills
# four fifths of a worker, two floods four ninths each, and a neighbour always finds room.
# (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998.)
_SHARE_OF_FREE = 4
_MOST_CROWDED = 64


class Holdings:
    """Invocations by token and schedule, in the order of their claims, with a limit on all."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[tuple[str, str], Invocation] = {}
        self._by_account: Counter[str] = Counter()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def free(self) -> int:
        return self._limit - len(self._held)

    def add(self, invocations: Iterable[Invocation]) -> None:
        for each in invocations:
            self._held[each.token, each.schedule_id] = each
            self._by_account[each.account_id] += 1

    def remove(self, invocation: Invocation) -> None:
        if self._held.pop((invocation.token, invocation.schedule_id), None) is None:
            return
        self._by_account[invocation.account_id] -= 1
        if not self._by_account[invocation.account_id]:
            del self._by_account[invocation.account_id]
        self._changed.set()

    def crowding(self) -> list[str]:
        """The accounts that hold more than their share of this worker, fullest first."""
        most = self.free * _SHARE_OF_FREE
        if len(self._held) <= most:
            return []
        return [
            account for account, held in self._by_account.most_common(_MOST_CROWDED) if held > most
        ]

    def by_shard(self) -> dict[int, list[Invocation]]:
        shards: dict[int, list[Invocation]] = {}
        for each in self._held.values():
            shards.setdefault(each.shard, []).append(each)
        return shards

    async def emptied(self) -> None:
        """Returns once nothing is held."""
        while self._held:
            self._changed.clear()
            await self._changed.wait()
