"""The children of one parent, API and workers: they start together and end in order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import structlog

from cli.tied import TiedChild
from scheduler.errors import PostdateError, SettingsError
from scheduler.settings import Settings

_log = structlog.get_logger()

_LAST_PORT = 65_535
_API_GRACE_S = 20.0
_WORKER_GRACE_S = 10.0  # beyond the time limit of a fire


class NotReadyError(PostdateError):
    """A child did not get ready; the sentence says which."""


class Children:
    """From `start` on each is started again when it ends; `stop` ends the APIs first, then the
    workers, so that what an API has accepted meanwhile can still be fired."""

    def __init__(
        self,
        settings: Settings,
        *,
        apis: Sequence[TiedChild] = (),
        workers: Sequence[TiedChild] = (),
    ) -> None:
        worker_grace_s = settings.fire_timeout_ms / 1000 + _WORKER_GRACE_S
        self._groups = ((apis, _API_GRACE_S), (workers, worker_grace_s))
        self._all = [*apis, *workers]

    async def start(self, patience_s: float | None = None) -> None:
        """Returns once all are ready. Raises NotReadyError if one of them has refused to start,
        or if it takes longer than `patience_s`; whoever was killed is started again."""
        for child in self._all:
            try:
                await child.start()
            except OSError as error:
                raise NotReadyError(
                    f"The {child.name} process cannot be started: {error.strerror}."
                ) from None
            child.keep_alive()
        all_ready = asyncio.gather(*(child.ready() for child in self._all))
        refusals = [asyncio.ensure_future(child.refused()) for child in self._all]
        awaited: list[asyncio.Future[Any]] = [all_ready, *refusals]
        try:
            await asyncio.wait(awaited, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
            if not all_ready.done():
                raise NotReadyError(self._why_not(patience_s))
        finally:
            for each in awaited:
                each.cancel()
            await asyncio.gather(*awaited, return_exceptions=True)

    def hasten(self) -> None:
        """Waits for no request in flight; what was being fired becomes due again."""
        for child in self._all:
            child.hasten()

    async def stop(self) -> list[str]:
        """Returns once all are gone: a sentence about each that did not end as it should."""
        if any(child.running for child in self._all):
            _log.info("stopping")
        for child in self._all:
            child.let_end()
        faults = []
        for group, grace_s in self._groups:
            as_asked = await asyncio.gather(*(child.stop(grace_s) for child in group))
            faults += [
                f"The {child.name} process {child.ended} when it was to stop."
                for child, well in zip(group, as_asked, strict=True)
                if not well
            ]
        return faults

    def _why_not(self, patience_s: float | None) -> str:
        for child in self._all:
            if not child.running:
                return f"The {child.name} process {child.ended} before it was ready."
        return f"Postdate was not ready after {patience_s or 0:.0f} s."


def with_metrics_port(settings: Settings, place: int) -> Settings:
    """The settings of the child at this place, counted from 0: each has a port of its own for its
    metrics, one after the other. Raises SettingsError if there are no ports left for it."""
    if not settings.metrics_port:
        return settings
    port = settings.metrics_port + place
    if port > _LAST_PORT:
        raise SettingsError(
            f"POSTDATE_METRICS_PORT cannot be {settings.metrics_port}: each process takes the next"
            f" port, and {port} is none."
        )
    return msgspec.structs.replace(settings, metrics_port=port)
