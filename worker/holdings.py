"""What this worker holds: claimed and not yet acked."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from scheduler.models import Invocation

# An account may hold up to this many times the slots, and the bytes, that are still free. One flood
# so fills four fifths of a worker, two floods four ninths each, and a neighbour always finds room.
# (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998.)
_SHARE_OF_FREE = 4
_MOST_CROWDED = 64
# What one claim may bring: a full one of usual requests, and what the loop can bear at once.
_MOST_A_CLAIM = 128
_MOST_BYTES = 4 * 1024 * 1024
_account_id = attrgetter("account_id")


class Part(NamedTuple):
    """Of what is free, for one claim. A claim brings one schedule whatever it weighs, so that all
    get their turn: beyond its `size_bytes` by one request at most."""

    slots: int
    size_bytes: int


class Holdings:
    """Invocations in the order of their claims, with a limit on all, and on what their requests
    weigh together; and the parts of it that claims on their way have."""

    def __init__(self, limit: int, limit_bytes: int) -> None:
        self._limit = limit
        self._held: dict[Invocation, None] = {}
        self._by_account: Counter[str] = Counter()
        self._limit_bytes = self._free_bytes = limit_bytes
        self._bytes_by_account: Counter[str] = Counter()
        self._reserved = self._reserved_bytes = 0
        self._changed = asyncio.Event()
        self.asking: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Of a shard: held by whoever asks the store for something by tokens. An extension writes
        new ones. An ack or a release that was written before it and is carried out after it, as on
        a cluster, or where the server has to be sent the script first, would find its lease to be
        another's."""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def free(self) -> int:
        return self._limit - len(self._held)

    @property
    def free_bytes(self) -> int:
        """Below 0 where the last ones that were claimed weighed more than there was room for."""
        return self._free_bytes

    @property
    def is_full(self) -> bool:
        """Whether all is held or reserved."""
        return self.free <= self._reserved or self.free_bytes <= self._reserved_bytes

    def reserve(self, claims: int) -> Part | None:
        """The part of the next of so many claims, which are to have equal ones; None if all is
        taken. `give_back` is to follow, once what the claim brought is held."""
        if self.is_full:
            return None
        slots = -(-(self.free - self._reserved) // claims)
        size_bytes = -(-(self.free_bytes - self._reserved_bytes) // claims)
        part = Part(min(slots, _MOST_A_CLAIM), min(size_bytes, _MOST_BYTES))
        self._reserved += part.slots
        self._reserved_bytes += part.size_bytes
        return part

    def give_back(self, part: Part) -> None:
        self._reserved -= part.slots
        self._reserved_bytes -= part.size_bytes

    def add(self, invocations: Sequence[Invocation]) -> None:
        self._held.update(dict.fromkeys(invocations))
        for account_id, (count, size_bytes) in _sums(invocations).items():
            self._by_account[account_id] += count
            self._bytes_by_account[account_id] += size_bytes
            self._free_bytes -= size_bytes

    def remove(self, invocations: Iterable[Invocation]) -> None:
        """Those that are not held (any more) are passed over."""
        held = self._held
        gone = [each for each in invocations if held.pop(each, _NOT_HELD) is None]
        for account_id, (count, size_bytes) in _sums(gone).items():
            self._by_account[account_id] -= count
            self._bytes_by_account[account_id] -= size_bytes
            self._free_bytes += size_bytes
            if not self._by_account[account_id]:
                del self._by_account[account_id], self._bytes_by_account[account_id]
        self._changed.set()

    def crowding(self) -> list[str]:
        """The accounts that hold more than their share of this worker, fullest first."""
        found = _above(self._by_account, len(self._held), self.free)
        held_bytes = self._limit_bytes - self._free_bytes
        found += _above(self._bytes_by_account, held_bytes, self._free_bytes)
        return list(dict.fromkeys(found))

    def accounts(self) -> list[str]:
        """Those of which something is held."""
        return list(self._by_account)

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


def _sums(invocations: Iterable[Invocation]) -> dict[str, tuple[int, int]]:
    """By account how many they are, and what they weigh."""
    sums: dict[str, tuple[int, int]] = {}
    for account_id, theirs in groupby(invocations, _account_id):
        sizes = [each.size_bytes for each in theirs]
        count, size_bytes = sums.get(account_id, (0, 0))
        sums[account_id] = (count + len(sizes), size_bytes + sum(sizes))
    return sums


def _above(held: Counter[str], in_all: int, free: int) -> list[str]:
    """The accounts with more than their share, fullest first."""
    most = free * _SHARE_OF_FREE
    if in_all <= most:
        return []
    return [account for account, part in held.most_common(_MOST_CROWDED) if part > most]
