"""The store's clock in the hands of a test: fakeredis's is set, a real server's is awaited."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Protocol
from unittest.mock import patch

from scheduler.store import Store
from tests.store.fake_lua import quick_scripts
from tests.support.waiting import until_async

START_MS = 1_795_161_600_000  # 2026-11-20T08:00:00Z
_LONGEST_WAIT_MS = 500

# Where fakeredis asks for the time: expiry, TIME, and the ids of streams; and the store's idea of
# it, which would run on between two replies.
_MODULES = (
    "scheduler.store.server.clock",
    "fakeredis._helpers",
    "fakeredis._socket._base",
    "fakeredis.commands_mixins.server_mixin",
    "fakeredis.model._stream",
)


class Clock(Protocol):
    """The server's time, and a way to let some of it pass."""

    async def now_ms(self) -> int: ...

    async def pass_ms(self, ms: int) -> None: ...


class FakeClock:
    """Stands still until it is moved. It stands in place of fakeredis's `time` module."""

    def __init__(self) -> None:
        self.ms = START_MS
        # A third of a millisecond more, so that no rounding of floats falls below the whole one.
        self.more_us = 300

    @property
    def us(self) -> int:
        return self.ms * 1000 + self.more_us

    def time(self) -> float:
        return self.us / 1_000_000

    def time_ns(self) -> int:
        return self.us * 1000

    def monotonic_ns(self) -> int:
        return self.time_ns()

    async def now_ms(self) -> int:
        return self.ms

    async def pass_ms(self, ms: int) -> None:
        self.ms += ms


class ServerClock:
    """A real server's clock: time passes by waiting for it, so a test asks for little."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def now_ms(self) -> int:
        seconds, micros = map(int, await self._store.server.ask("TIME"))
        return seconds * 1000 + micros // 1000

    async def pass_ms(self, ms: int) -> None:
        assert ms <= _LONGEST_WAIT_MS, "use the fake store to travel in time"
        end_ms = await self.now_ms() + ms

        async def reached() -> bool:
            return await self.now_ms() >= end_ms

        await until_async(reached, "the server's clock")


@contextmanager
def fakeredis_time(clock: FakeClock) -> Iterator[None]:
    """Lets fakeredis, and what a store makes of its replies, live by this clock."""
    with ExitStack() as stack:
        for module in _MODULES:
            stack.enter_context(patch(f"{module}.time", clock))
        stack.enter_context(quick_scripts())
        yield
