"""Waiting for a condition, with a deadline: what tests do instead of sleeping."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

DEADLINE_S = 30.0
_SOONEST_S, _LATEST_S = 0.005, 0.05


def _pause_s(waited_s: float) -> float:
    """Until the next look: what takes long is looked at less often, as each look costs something,
    at the price of a tenth of the time."""
    return min(_LATEST_S, _SOONEST_S + waited_s / 10)


def until(
    condition: Callable[[], Any], what: str = "condition", deadline_s: float = DEADLINE_S
) -> Any:
    """The first true value of `condition`, awaited; fails the test after the deadline."""
    began = time.monotonic()
    while not (value := condition()):
        waited_s = time.monotonic() - began
        if waited_s > deadline_s:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        time.sleep(_pause_s(waited_s))
    return value


async def until_async(
    condition: Callable[[], Any], what: str = "condition", deadline_s: float = DEADLINE_S
) -> Any:
    """As `until`, for tests whose own event loop must go on; `condition` may be async."""
    began = time.monotonic()
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        waited_s = time.monotonic() - began
        if waited_s > deadline_s:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        await asyncio.sleep(_pause_s(waited_s))


def free_port() -> int:
    """A port that nobody listens on, below those that systems give to outgoing connections: none
    of these takes it before its server does."""
    while True:
        # Not from `random`: tests seed it, and two processes would take the same one.
        port = 12_000 + secrets.randbelow(20_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
