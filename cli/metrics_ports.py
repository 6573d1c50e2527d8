"""Children of one parent tell of themselves on ports of their own, one after the other."""

from __future__ import annotations

import msgspec

from scheduler.errors import SettingsError
from scheduler.settings import Settings

_LAST_PORT = 65_535


def with_metrics_port(settings: Settings, place: int) -> Settings:
    """The settings of the child at this place, counted from 0. Raises SettingsError if there are
    no ports left for it."""
    if not settings.metrics_port:
        return settings
    port = settings.metrics_port + place
    if port > _LAST_PORT:
        raise SettingsError(
            f"POSTDATE_METRICS_PORT cannot be {settings.metrics_port}: each process takes the next"
            f" port, and {port} is none."
        )
    return msgspec.structs.replace(settings, metrics_port=port)
