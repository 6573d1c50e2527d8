"""Loops that survive whatever they meet, and work in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any

import structlog

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_log = structlog.get_logger(__name__)


class Backoff:
    """The pauses between attempts that fail: doubling from 50 ms to a second."""

    def __init__(self) -> None:
        self._pause_s = _FIRST_PAUSE_S

    async def pause(self) -> None:
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)


class Background:
    """Work that nobody waits for until the end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def done(self) -> None:
        """What was started so far."""
        if self._tasks:
            await asyncio.wait(self._tasks)


async def ended(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancels tasks until they have ended. Before Python 3.12, `asyncio.wait_for` loses a
    cancellation that meets its result, and the store's client uses it."""
    going: Collection[asyncio.Task[None]] = tasks
    while going:
        for each in going:
            each.cancel()
        _, going = await asyncio.wait(going, timeout=_FIRST_PAUSE_S)
    await asyncio.gather(*tasks, return_exceptions=True)


async def keep_up(name: str, every_s: float, step: Callable[[], Awaitable[None]]) -> None:
    """Takes a step every so often until cancelled. An error is logged once, not at each repeat,
    and the loop backs off and goes on; so is the end of the trouble."""
    backoff: Backoff | None = None
    while True:
        try:
            await step()
        except Exception as error:
            if backoff is None:
                _log.warning("loop failed; it goes on trying", loop=name, error=str(error))
                backoff = Backoff()
            await backoff.pause()
            continue
        if backoff is not None:
            _log.info("loop works again", loop=name)
            backoff = None
        await asyncio.sleep(every_s)
