"""Waiting for a condition, with a deadline: what tests do instead of sleeping."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any

DEADLINE_S = 30.0
_POLL_S = 0.01


def until(
    condition: Callable[[], Any], what: str = "condition", deadline_s: float = DEADLINE_S
) -> Any:
    """The first true value of `condition`, awaited; fails the test after the deadline."""
    end = time.monotonic() + deadline_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(_POLL_S)
    return value


async def until_async(
    condition: Callable[[], Any], what: str = "condition", deadline_s: float = DEADLINE_S
) -> Any:
    """As `until`, for tests whose own event loop must go on; `condition` may be async."""
    end = time.monotonic() + deadline_s
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        await asyncio.sleep(_POLL_S)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
