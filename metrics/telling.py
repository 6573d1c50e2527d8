"""Whether this process has a metrics port, and for how long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from metrics.pulse import Pulse
from scheduler.settings import Settings

if TYPE_CHECKING:
    from metrics.port import Source


@asynccontextmanager
async def telling(settings: Settings, source: Callable[[Pulse], Source]) -> AsyncIterator[None]:
    """Within it, the process tells of itself, if the settings name a port; `source` is not called
    otherwise, and what only metrics need (40 ms of imports) not imported."""
    if not settings.metrics_port:
        yield
        return
    from metrics.port import MetricsPort

    pulse = Pulse()
    port = MetricsPort(settings.metrics_host, settings.metrics_port, source(pulse), pulse)
    port.start()
    try:
        yield
    finally:
        await port.aclose()
        pulse.close()
