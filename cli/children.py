"""The children of one parent, API and workers: they start together and end in order, whatever
signal the parent is sent."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import structlog

from cli.tied import TiedChild
from scheduler.errors import PostdateError, SettingsError
from scheduler.settings import Settings

_log = structlog.get_logger()

# How long a port may stay taken by the API of a parent that was killed: it is about to go.
ORPHAN_PATIENCE_S = 3.0
_LAST_PORT = 65_535


class Children:
    """Children that are started again when they end. `stop` ends the APIs first, then the workers,
    so that what an API accepts meanwhile can still be fired."""

    def __init__(self) -> None:
        self._all: Sequence[TiedChild] = ()
        self.faults: list[str] = []

    async def start(self, children: Sequence[TiedChild], patience_s: float | None = None) -> None:
        """Returns once all are ready; a child that was killed meanwhile is started again. Raises
        PostdateError if one refuses to start, or after `patience_s`."""
        self._all = children
        for child in children:
            try:
                await child.start()
            except OSError as error:
                raise PostdateError(
                    f"The {child.name} process cannot be started: {error.strerror}."
                ) from None
            child.keep_alive()
        all_ready = asyncio.gather(*(child.ready() for child in self._all))
        refusals = [asyncio.ensure_future(child.refused()) for child in self._all]
        awaited: list[asyncio.Future[Any]] = [all_ready, *refusals]
        try:
            await asyncio.wait(awaited, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            if not all_ready.done():
                raise PostdateError(self._why_not(patience_s))
        finally:
            for each in awaited:
                each.cancel()
            await asyncio.gather(*awaited, return_exceptions=True)

    def hasten(self) -> None:
        """Kills them: schedules in flight become due again."""
        for child in self._all:
            child.hasten()

    async def stop(self) -> None:
        """Returns once all are gone; `faults` then names those that did not end as asked."""
        if any(child.running for child in self._all):
            _log.info("stopping")
        for child in self._all:
            child.let_end()
        for role in ("api", "worker"):
            group = [child for child in self._all if child.role == role]
            as_asked = await asyncio.gather(*(child.stop(child.grace_s) for child in group))
            self.faults += [
                f"The {child.name} process {child.ended} when it was to stop."
                for child, well in zip(group, as_asked, strict=True)
                if not well
            ]

    def _why_not(self, patience_s: float | None) -> str:
        for child in self._all:
            if not child.running:
                return f"The {child.name} process {child.ended} before it was ready."
        return f"Postdate was not ready after {patience_s or 0:.0f} s."


async def supervise(
    children: Children, start: Callable[[AsyncExitStack], Coroutine[Any, Any, None]]
) -> None:
    """Runs `start`, then waits for SIGINT, SIGTERM or SIGHUP and unwinds the stack that `start`
    filled. A second signal hastens the children.

    Raises PostdateError if it cannot start, or if a child did not end as asked.
    """
    asked_to_stop = asyncio.Event()

    def on_signal() -> None:
        if asked_to_stop.is_set():
            children.hasten()
        asked_to_stop.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue  # as nohup has it
        asyncio.get_running_loop().add_signal_handler(number, on_signal)
    async with AsyncExitStack() as stops:
        starting = asyncio.create_task(start(stops))
        stopping = asyncio.create_task(asked_to_stop.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
            await stopping
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            stopping.cancel()
    if children.faults:
        raise PostdateError(" ".join(children.faults))


def with_metrics_port(settings: Settings, place: int) -> Settings:
    """Settings with the metrics port of the child at this place, counted from 0. Raises
    SettingsError if there is no such port."""
    if not settings.metrics_port:
        return settings
    port = settings.metrics_port + place
    if port > _LAST_PORT:
        raise SettingsError(
            f"POSTDATE_METRICS_PORT cannot be {settings.metrics_port}: each process takes the next"
            f" port, and {port} is none."
        )
    return msgspec.structs.replace(settings, metrics_port=port)
