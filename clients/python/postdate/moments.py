"""Moments and durations of callers, as text for the server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta


def moment_text(name: str, moment: datetime | str) -> str:
    """ISO 8601; a string goes out as it is, and the server takes no zone for UTC.

    Raises ValueError for a datetime without a time zone. `name` is that of the argument.
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


def duration_text(span: timedelta | float | str) -> str:
    """A string goes out as it is, a number is seconds; rounds up to a millisecond."""
    if isinstance(span, str):
        return span
    delta = span if isinstance(span, timedelta) else timedelta(seconds=span)
    if delta < timedelta():
        raise ValueError(f"A delay cannot be negative: {span!r}")
    return f"{-(-delta // timedelta(milliseconds=1))}ms"


def durations(spans: Sequence[timedelta | float | str] | None) -> list[str] | None:
    """Raises TypeError for a string, whose letters would be taken for durations."""
    if isinstance(spans, str):
        raise TypeError(f"retry_delays must be a list of durations, not {spans!r}")
    return None if spans is None else [duration_text(each) for each in spans]


def when(
    at: datetime | str | None,
    in_: timedelta | float | None,
    delay: timedelta | float | str | None,
) -> dict[str, str]:
    """The field that says when: exactly one of `at`, `in_` (timedelta or seconds by this machine's
    clock) and `delay` (by the server's)."""
    if [at, in_, delay].count(None) != 2:
        raise ValueError("Say when, with one of at=..., in_=... and delay=...")
    if delay is not None:
        return {"delay": duration_text(delay)}
    if at is not None:
        return {"triggerAt": moment_text("at", at)}
    assert in_ is not None
    try:
        ahead = in_ if isinstance(in_, timedelta) else timedelta(seconds=in_)
        moment = datetime.now(UTC) + ahead
    except OverflowError:
        raise ValueError(f"That is further ahead than there are years: {in_!r}") from None
    return {"triggerAt": moment_text("in_", moment)}
