"""Room: what may still be claimed, less what the claims on their way may bring."""

from __future__ import annotations

from typing import NamedTuple

from worker.holdings import Holdings

# What one claim may bring: a full one of usual requests, and what the loop can bear at once.
MOST_AT_ONCE = 128
_MOST_BYTES = 4 * 1024 * 1024


class Part(NamedTuple):
    """Of the room, for one claim. A claim brings one schedule whatever it weighs, so that all get
    their turn: beyond its `size_bytes` by one request at most."""

    slots: int
    size_bytes: int


class Room:
    """What is free in the holdings, as slots and as bytes of requests."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._reserved = 0
        self._reserved_bytes = 0

    @property
    def is_full(self) -> bool:
        return self._slots <= 0 or self._bytes <= 0

    def reserve(self, claims: int) -> Part | None:
        """The part of the next of so many claims, which are to have equal ones; None if there is no
        room. `give_back` is to follow, once what the claim brought is held."""
        if self.is_full:
            return None
        part = Part(
            min(-(-self._slots // claims), MOST_AT_ONCE),
            min(-(-self._bytes // claims), _MOST_BYTES),
        )
        self._reserved += part.slots
        self._reserved_bytes += part.size_bytes
        return part

    def give_back(self, part: Part) -> None:
        self._reserved -= part.slots
        self._reserved_bytes -= part.size_bytes

    @property
    def _slots(self) -> int:
        return self._holdings.free - self._reserved

    @property
    def _bytes(self) -> int:
        return self._holdings.free_bytes - self._reserved_bytes
