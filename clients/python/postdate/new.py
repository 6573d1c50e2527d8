"""A schedule that does not exist yet."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict, Unpack

from postdate.moments import durations, moment_text, when
from postdate.results import Delivery


class ScheduleOptions(TypedDict, total=False):
    """What `schedule` takes besides the URL."""

    at: datetime | str | None
    in_: timedelta | float | None
    delay: timedelta | float | str | None
    json: Mapping[str, Any] | None
    text: str | None
    data: bytes | None
    method: str | None
    headers: Mapping[str, str] | None
    delivery: Delivery | None
    expires_at: datetime | str | None
    retries: int | None
    retry_delays: Sequence[timedelta | float | str] | None


class ChangeOptions(ScheduleOptions, total=False):
    """Options of `change` and `replay`. Fields without an option stay; None clears one."""

    url: str


_WHEN = ("at", "in_", "delay")
_FIELDS = {
    "url": "targetUrl",
    "method": "targetMethod",
    "headers": "targetHeaders",
    "json": "targetBody",
    "text": "targetBodyText",
    "data": "targetBodyBase64",
    "delivery": "delivery",
    "expires_at": "expiresAt",
    "retries": "retries",
    "retry_delays": "retryDelays",
}


@dataclass(init=False, slots=True)
class NewSchedule:
    """One of a batch: the arguments of `schedule`, by the same names."""

    url: str
    options: ScheduleOptions

    def __init__(self, url: str, **options: Unpack[ScheduleOptions]) -> None:
        self.url, self.options = url, options

    def payload(self) -> dict[str, Any]:
        """By the server's names. Raises ValueError if it does not say when, TypeError for an
        unknown option."""
        given = {name: value for name, value in self.options.items() if value is not None}
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
    given = {name: value for name, value in options.items() if name not in _WHEN}
    if unknown := given.keys() - _FIELDS:
        raise TypeError(f"There is no argument {', '.join(sorted(unknown))}")
    return {_FIELDS[name]: _written(name, value) for name, value in given.items()}


def _written(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, datetime):
        return moment_text(name, value)
    if name == "retry_delays":
        return durations(value)
    return dict(value) if isinstance(value, Mapping) else value
