"""Moments as callers give them, to the text that the server reads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def moment_text(name: str, moment: datetime | str) -> str:
    """ISO 8601. A string goes out as it is: the server judges it, and takes no zone for UTC.

    Raises ValueError for a datetime without a time zone: whether it means UTC or local time,
    only its maker knows. `name` is that of the argument.
    """
    if isinstance(moment, str):
        return moment
    if not isinstance(moment, datetime):
        raise TypeError(f"{name} must be a datetime or a string, not {moment!r}")
    if moment.utcoffset() is None:
        raise ValueError(
            f"{name} has no time zone: {moment!r}; say which moment is meant, for instance"
            f" {name}=datetime.now(UTC) + timedelta(minutes=5)"
        )
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def trigger_text(at: datetime | str | None, in_: timedelta | float | None) -> str:
    """The trigger time, of which exactly one spelling must be given. `in_` is a timedelta or
    seconds, counted from now by this machine's clock."""
    if (at is None) == (in_ is None):
        raise ValueError("Say when, either at=... or in_=...")
    if at is not None:
        return moment_text("at", at)
    assert in_ is not None
    delay = in_ if isinstance(in_, timedelta) else timedelta(seconds=in_)
    return moment_text("in_", datetime.now(UTC) + delay)
