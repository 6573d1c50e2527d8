"""A parent and its signals, with a parent that does nothing else."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from cli.supervise import supervise
from scheduler.errors import PostdateError


class FakeParent:
    """Starts and stops as it is told, and notes what was asked of it."""

    def __init__(self, *, faults: tuple[str, ...] = (), refusal: str = "") -> None:
        self.calls: list[str] = []
        self.started = asyncio.Event()
        self.may_stop = asyncio.Event()
        self._faults = faults
        self._refusal = refusal

    async def start(self) -> None:
        if self._refusal:
            raise PostdateError(self._refusal)
        self.calls.append("start")
        self.started.set()

    async def stop(self) -> list[str]:
        self.calls.append("stop")
        await self.may_stop.wait()
        return list(self._faults)

    def hasten(self) -> None:
        self.calls.append("hasten")
        self.may_stop.set()


async def test_a_second_signal_hastens() -> None:
    parent = FakeParent()
    running = asyncio.create_task(supervise(parent))
    await parent.started.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    while "stop" not in parent.calls:
        await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGINT)
    await running
    assert parent.calls == ["start", "stop", "hasten"]


async def test_what_did_not_end_as_it_should_is_an_error() -> None:
    parent = FakeParent(faults=("The worker 2 process ended with exit status 3.",))
    parent.may_stop.set()
    running = asyncio.create_task(supervise(parent))
    await parent.started.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(PostdateError, match=r"^The worker 2 process ended with exit status 3\.$"):
        await running


async def test_what_cannot_start_is_stopped_and_says_why() -> None:
    parent = FakeParent(refusal="No.", faults=("Something else.",))
    parent.may_stop.set()
    with pytest.raises(PostdateError, match=r"^No\.$"):
        await supervise(parent)
    assert parent.calls == ["stop"]
