"""A schedule that does not exist yet, and its moments and durations as text for the server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Unpack

from postdate import arguments as kinds
from postdate._schema import FIELDS, CreateOptions, ScheduleOptions
from postdate.arguments import written


class ChangeOptions(ScheduleOptions, total=False):
    """Options of `change` and `replay`. Fields without an option stay; None clears one."""

    url: str


_WHEN = ("at", "in_", "delay")


@dataclass(init=False, slots=True)
class NewSchedule:
    """One of a batch: the arguments of `schedule`, by the same names."""

    url: str
    options: CreateOptions

    def __init__(self, url: str, **options: Unpack[CreateOptions]) -> None:
        self.url, self.options = url, options

    def payload(self) -> dict[str, Any]:
        """By the server's names. Raises ValueError if it does not say when, TypeError for an
        unknown option or one of another type."""
        given = {
            name: value
            for name, value in self.options.items()
            if value is not None or name == "callback_url"
        }
        return _fields({"url": self.url, **given}) | when(*_moments(given))


def changes(options: ChangeOptions) -> dict[str, Any]:
    """The given options, by the server's names. Raises TypeError for an unknown option."""
    moments = _moments({**options})
    says_when = any(each is not None for each in moments)
    return _fields({**options}) | (when(*moments) if says_when else {})


def _moments(options: Mapping[str, Any]) -> list[Any]:
    return [options.get(name) for name in _WHEN]


def _fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """All but those that say when."""
    return written({n: value for n, value in options.items() if n not in _WHEN}, FIELDS)


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
        return {"delay": kinds.duration("delay", delay)}
    if at is not None:
        return {"triggerAt": kinds.moment("at", at)}
    try:
        moment = datetime.now(UTC) + kinds.span("in_", in_)
    except OverflowError:
        raise ValueError(f"in_ is further ahead than there are years: {in_!r}") from None
    return {"triggerAt": kinds.moment("in_", moment)}
