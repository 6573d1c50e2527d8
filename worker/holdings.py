"""What this worker holds: claimed and not yet acked."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence

from scheduler.models import Invocation

# An account may hold up to this many times the slots that are still free. One flood so fills
# four fifths of a worker, two floods four ninths each, and a neighbour always finds room.
# (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998.)
_SHARE_OF_FREE = 4
_MOST_CROWDED = 64


class Holdings:
    """Invocations in the order of their claims, with a limit on all."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[Invocation, None] = {}
        self._by_account: Counter[str] = Counter()
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def free(self) -> int:
        return self._limit - len(self._held)

    def add(self, invocations: Sequence[Invocation]) -> None:
        self._held.update(dict.fromkeys(invocations))
        self._by_account.update([each.account_id for each in invocations])

    def remove(self, invocations: Iterable[Invocation]) -> None:
        """Those that are not held (any more) are passed over."""
        accounts, held = self._by_account, self._held
        for each in invocations:
            if held.pop(each, _NOT_HELD) is None:
                accounts[each.account_id] -= 1
                if not accounts[each.account_id]:
                    del accounts[each.account_id]
        self._changed.set()

    def crowding(self) -> list[str]:
        """The accounts that hold more than their share of this worker, fullest first."""
        most = self.free * _SHARE_OF_FREE
        if len(self._held) <= most:
            return []
        return [
            account for account, held in self._by_account.most_common(_MOST_CROWDED) if held > most
        ]

    def of(self, shard: int) -> list[Invocation]:
        return [each for each in self._held if each.shard == shard]

    def shards(self) -> set[int]:
        return {each.shard for each in self._held}

    async def emptied(self) -> None:
        """Returns once nothing is held."""
        while self._held:
            self._changed.clear()
            await self._changed.wait()


_NOT_HELD = object()
