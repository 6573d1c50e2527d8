"""A pause as it is stored, of a lane and of an account. Pure."""

from __future__ import annotations

from scheduler.lane_settings import Pause


def pause_values(pause: Pause | None) -> tuple[int | str, int | str, str, str]:
    """The values of its fields for a script, which writes since when it is."""
    if pause is None:
        return "", "", "", ""
    return 1, pause.until_ms or "", pause.by, pause.note or ""


def pause_of(since: bytes, until: bytes, by: bytes, note: bytes) -> Pause | None:
    """Raises ValueError."""
    if not since:
        return None
    until_ms = int(until) if until else None
    return Pause(by.decode(), until_ms, note.decode() or None, int(since))
