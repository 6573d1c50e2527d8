"""Invocations of which nothing was sent, because their lease or their secret may be another's."""

from __future__ import annotations

from scheduler.errors import StoreError
from scheduler.models import Invocation
from scheduler.stages import Stage
from worker.holdings import Holdings
from worker.leases import Leases, Touch


class Unsure:
    """This process stood still, or the store was away: the store is asked whose they are now."""

    def __init__(self, holdings: Holdings, leases: Leases, touch: Touch) -> None:
        self._holdings = holdings
        self._leases = leases
        self._touch = touch
        self._waiting: dict[int, list[Invocation]] = {}

    def put(self, invocation: Invocation) -> None:
        invocation.enter(Stage.UNSURE)
        self._waiting.setdefault(invocation.shard, []).append(invocation)

    def clear(self) -> None:
        self._waiting.clear()

    @property
    def shards(self) -> set[int]:
        """Those that can be asked."""
        return self._waiting.keys() - self._touch.lost

    async def confirmed(self, shard: int) -> list[Invocation]:
        """Those that are certainly ours. The others are held no longer; where the store does not
        answer, all wait on. Raises what is no StoreError."""
        unsure = self._waiting.pop(shard, [])
        try:
            lost = await self._leases.confirm(shard, unsure)
        except Exception as error:
            self._waiting.setdefault(shard, []).extend(unsure)
            if not isinstance(error, StoreError):
                raise
            self._touch.lose([shard], error)
            return []
        self._holdings.remove(lost)
        gone = set(lost)
        return [each for each in unsure if each not in gone]
