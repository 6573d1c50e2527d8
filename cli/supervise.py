"""A parent of processes as the terminal and the system meet it: its signals and its end."""

from __future__ import annotations

import asyncio
import signal
from typing import Protocol

from scheduler.errors import PostdateError

# How long a port may stay taken by the API of a parent that was killed: it is about to go.
ORPHAN_PATIENCE_S = 3.0


class Parent(Protocol):
    """Of children; `stop` may come while `start` was cut off, and then stops what was started."""

    async def start(self) -> None: ...

    async def stop(self) -> list[str]: ...

    def hasten(self) -> None: ...


async def supervise(parent: Parent) -> None:
    """Starts and, at SIGINT, SIGTERM or SIGHUP, stops; a second signal hastens that.

    Raises PostdateError if it cannot start, or if a child did not end as it should.
    """
    asked_to_stop = asyncio.Event()

    def on_signal() -> None:
        if asked_to_stop.is_set():
            parent.hasten()
        asked_to_stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue  # as nohup has it
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    starting = asyncio.create_task(parent.start())
    stopping = asyncio.create_task(asked_to_stop.wait())
    try:
        await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        await stopping
    finally:
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        faults = await parent.stop()
        stopping.cancel()
    if faults:
        raise PostdateError(" ".join(faults))
