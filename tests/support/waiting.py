"""Waiting for a condition, with a deadline: what tests do instead of sleeping."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

DEADLINE_S = 30.0
_FIRST_PORT, _PARTS, _PORTS_EACH = 12_000, 8, 2_500
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
    """A port that nobody listens on. No two calls of this process and of pytest's other processes
    have the same one."""
    for port in _own_ports:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("All ports of this process have been used")


def refusing_port() -> int:
    """A port that refuses connections, until this process ends: it is bound, and nobody listens."""
    plug = socket.socket()
    plug.bind(("127.0.0.1", 0))
    port = int(plug.getsockname()[1])
    plug.detach()  # it stays open
    return port


def _ports_of_this_process() -> Iterator[int]:
    """Each once, below those that systems give to outgoing connections: none of these takes it
    before its server does. They begin at a random one, as two runs of the tests may go on at once;
    not from `random`, which tests seed."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", f"gw{_PARTS - 1}")
    first = _FIRST_PORT + int(worker.removeprefix("gw")) % _PARTS * _PORTS_EACH
    begin = secrets.randbelow(_PORTS_EACH)
    yield from (first + (begin + n) % _PORTS_EACH for n in range(_PORTS_EACH))


_own_ports = _ports_of_this_process()
