"""A parent and its signals, with children that do nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack

import pytest

from cli.children import Children, supervise
from scheduler.errors import PostdateError


class FakeChildren(Children):
    """Start and stop as they are told, and note what was asked of them."""

    def __init__(self, *, faults: tuple[str, ...] = (), refusal: str = "") -> None:
        super().__init__()
        self.calls: list[str] = []
        self.started = asyncio.Event()
        self.may_stop = asyncio.Event()
        self._faults = faults
        self._refusal = refusal

    async def run(self) -> None:
        await supervise(self, self._start)

    async def _start(self, stops: AsyncExitStack) -> None:
        stops.push_async_callback(self.stop)
        if self._refusal:
            raise PostdateError(self._refusal)
        self.calls.append("start")
        self.started.set()

    async def stop(self) -> None:
        self.calls.append("stop")
        await self.may_stop.wait()
        self.faults += self._faults

    def hasten(self) -> None:
        self.calls.append("hasten")
        self.may_stop.set()


async def test_a_second_signal_hastens() -> None:
    children = FakeChildren()
    running = asyncio.create_task(children.run())
    await children.started.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    while "stop" not in children.calls:
        await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGINT)
    await running
    assert children.calls == ["start", "stop", "hasten"]


async def test_what_did_not_end_as_it_should_is_an_error() -> None:
    children = FakeChildren(faults=("The worker 2 process ended with exit status 3.",))
    children.may_stop.set()
    running = asyncio.create_task(children.run())
    await children.started.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(PostdateError, match=r"^The worker 2 process ended with exit status 3\.$"):
        await running


async def test_what_cannot_start_is_stopped_and_says_why() -> None:
    children = FakeChildren(refusal="No.", faults=("Something else.",))
    children.may_stop.set()
    with pytest.raises(PostdateError, match=r"^No\.$"):
        await children.run()
    assert children.calls == ["stop"]
