"""Loops end when they are to, whatever becomes of a cancellation."""

from __future__ import annotations

import asyncio
import contextlib

from tests.support.waiting import DEADLINE_S
from worker.upkeep import ended, keep_up


async def test_a_loop_whose_step_loses_a_cancellation_ends_nevertheless() -> None:
    """As asyncio.wait_for does before Python 3.12; the step then waits for something else."""
    lost, waiting = 0, asyncio.Event()

    async def step() -> None:
        nonlocal lost
        waiting.set()
        for _ in range(3):
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            lost += 1
        await asyncio.Event().wait()

    loop = asyncio.create_task(keep_up("loop", 0.0, step))
    await waiting.wait()
    async with asyncio.timeout(DEADLINE_S):
        await ended([loop])
    assert loop.cancelled()
    assert lost == 3
