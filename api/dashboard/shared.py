"""Reads that many viewers want at the same time are made once, and their result is shared."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, NamedTuple, TypeVar

from api.service import HttpRequest
from scheduler.errors import anew

T = TypeVar("T")


class _Entry(NamedTuple):
    reading: asyncio.Task[Any]
    good_until_s: float


class _Failed(NamedTuple):
    """The exception of a read: each waiter raises a copy."""

    error: Exception


class Shared:
    """Single flight: while a read is on its way, and for a moment after, all get its result."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, _Entry] = {}
        self._swept_s = 0.0

    async def get(self, key: Hashable, good_for_s: float, read: Callable[[], Awaitable[T]]) -> T:
        """The result of `read` for this key, at most `good_for_s` old. All waiters get what it
        raises; the next call reads again."""
        now_s = asyncio.get_running_loop().time()
        entry = self._entries.get(key)
        if entry is None or _is_stale(entry, now_s):
            self._forget(now_s)
            reading: asyncio.Task[T | _Failed] = asyncio.ensure_future(_called(read))
            entry = self._entries[key] = _Entry(reading, now_s + good_for_s)
        # A waiter that is cancelled does not cancel the read for the others.
        result: T | _Failed = await asyncio.shield(entry.reading)
        if isinstance(result, _Failed):
            raise anew(result.error)
        return result

    def _forget(self, now_s: float) -> None:
        if now_s < self._swept_s + 1.0:
            return
        self._swept_s = now_s
        stale = [key for key, entry in self._entries.items() if _is_stale(entry, now_s)]
        for key in stale:
            del self._entries[key]


def shared_by(request: HttpRequest) -> Shared:
    shared: Shared = request.app.state.setdefault("dashboard_shared", Shared())
    return shared


def _is_stale(entry: _Entry, now_s: float) -> bool:
    reading = entry.reading
    if not reading.done():
        return False
    failed = reading.cancelled() or isinstance(reading.result(), _Failed)
    return failed or entry.good_until_s <= now_s


async def _called(read: Callable[[], Awaitable[T]]) -> T | _Failed:
    try:
        return await read()
    except Exception as error:
        return _Failed(anew(error))
