"""What this worker holds: claimed and not yet acked."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from scheduler.models import Invocation
from scheduler.stages import UNSENT, Stage
from worker.fair_share import FairShare

# What one call may bring: a full one of usual requests, and what the loop can bear at once.
_MOST_A_CALL = 128
_MOST_BYTES = 4 * 1024 * 1024
_account_id = attrgetter("account_id")
_TRACE_ID_BYTES = 16


def subject(invocation: Invocation) -> dict[str, str]:
    """What a line of the log is about: a schedule, and `trace_id` where its create was part of a
    sampled trace: the same as the API's lines have, so that one search finds both."""
    trace = invocation.request.trace
    fields = {"schedule": invocation.schedule_id}
    return fields if trace is None else fields | {"trace_id": trace[:_TRACE_ID_BYTES].hex()}


class ClaimRoom(NamedTuple):
    """Free room for one claim. A claim brings one schedule whatever it weighs, so it may
    exceed `size_bytes` by one request."""

    slots: int
    size_bytes: int


class Holdings:
    """Invocations in the order of their claims, at most so many, and so many bytes of requests,
    and of answers that callbacks are to have, each up to `response_bytes`; and the parts of both
    that claims on their way have reserved."""

    def __init__(self, limit: int, limit_bytes: int, response_bytes: int = 0) -> None:
        self._response_bytes = response_bytes
        self._held: dict[Invocation, None] = {}
        self.slots, self.bytes = FairShare(limit), FairShare(limit_bytes)
        self._reserved = self._reserved_bytes = 0
        self._changed = asyncio.Event()
        self.asking: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        """By shard, held during each call that names tokens. An extension writes new ones, and an
        ack or a release that is carried out after it would find its lease to be another's."""

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Invocation]:
        return iter(self._held)

    @property
    def is_full(self) -> bool:
        return self.slots.free <= self._reserved or self.bytes.free <= self._reserved_bytes

    def reserve(self, claims: int, together: int) -> ClaimRoom | None:
        """The part of the next of so many claims, which are to have equal ones; None if all is
        taken. So many of them share a call, and what a call may bring. `give_back` is to follow,
        once what the claim brought is held."""
        if self.is_full:
            return None
        slots = -(-(self.slots.free - self._reserved) // claims)
        size_bytes = -(-(self.bytes.free - self._reserved_bytes) // claims)
        most, most_bytes = _MOST_A_CALL // together, _MOST_BYTES // together
        part = ClaimRoom(min(slots, most), min(size_bytes, most_bytes))
        self._reserved += part.slots
        self._reserved_bytes += part.size_bytes
        return part

    def give_back(self, part: ClaimRoom) -> None:
        self._reserved -= part.slots
        self._reserved_bytes -= part.size_bytes

    def add(self, invocations: Sequence[Invocation]) -> None:
        self._held.update(dict.fromkeys(invocations))
        for account_id, (count, size_bytes) in self._sums(invocations).items():
            self.slots.hold(account_id, count)
            self.bytes.hold(account_id, size_bytes)

    def remove(self, invocations: Iterable[Invocation]) -> None:
        """Those that are not held (any more) are passed over."""
        held = self._held
        gone = [each for each in invocations if held.pop(each, _NOT_HELD) is None]
        for account_id, (count, size_bytes) in self._sums(gone).items():
            self.slots.give_back(account_id, count)
            self.bytes.give_back(account_id, size_bytes)
        self._changed.set()

    def crowding(self) -> list[str]:
        return list(dict.fromkeys(self.slots.crowding() + self.bytes.crowding()))

    def stages(self) -> Counter[Stage]:
        return Counter(each.stage for each in self._held)

    def unsent(self) -> list[Invocation]:
        """Those that can go back to the store, because nothing sends them at this moment."""
        return [each for each in self._held if each.stage in UNSENT]

    def of(self, shard: int) -> list[Invocation]:
        return [each for each in self._held if each.shard == shard]

    def shards(self) -> set[int]:
        return {each.shard for each in self._held}

    async def emptied(self) -> None:
        while self._held:
            self._changed.clear()
            await self._changed.wait()

    def _sums(self, invocations: Iterable[Invocation]) -> dict[str, tuple[int, int]]:
        """By account how many they are, and what they weigh."""
        sums: dict[str, tuple[int, int]] = {}
        for account_id, theirs in groupby(invocations, _account_id):
            sizes = [
                each.size_bytes if each.request.callback is None else self._weight(each)
                for each in theirs
            ]
            count, size_bytes = sums.get(account_id, (0, 0))
            sums[account_id] = (count + len(sizes), size_bytes + sum(sizes))
        return sums

    def _weight(self, invocation: Invocation) -> int:
        wish = invocation.request.callback
        is_asked = wish is not None and wish.with_response
        return invocation.size_bytes + (self._response_bytes if is_asked else 0)


_NOT_HELD = object()
