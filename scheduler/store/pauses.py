"""A pause as it is stored, of a lane and of an account. Pure."""

from __future__ import annotations

from scheduler.lane_settings import Pause


def pause_values(pause: Pause | None) -> tuple[int | str, int | str, str]:
    """The values of its fields for a script, which writes since when it is."""
    return ("", "", "") if pause is None else (1, pause.until_ms or "", pause.by)


def pause_of(since: bytes, until: bytes, by: bytes) -> Pause | None:
    """Raises ValueError."""
    if not since:
        return None
    return Pause(by.decode(), int(until) if until else None, int(since))
