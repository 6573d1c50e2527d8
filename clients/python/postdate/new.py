"""A schedule that does not exist yet."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict

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
    """What `change` and `replay` take. What is not given stays as it is; None clears it."""

    url: str


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """One of a batch: the arguments of `schedule`, by the same names."""

    url: str
    _: KW_ONLY
    at: datetime | str | None = None
    in_: timedelta | float | None = None
    delay: timedelta | float | str | None = None
    json: Mapping[str, Any] | None = None
    text: str | None = None
    data: bytes | None = None
    method: str | None = None
    headers: Mapping[str, str] | None = None
    delivery: Delivery | None = None
    expires_at: datetime | str | None = None
    retries: int | None = None
    retry_delays: Sequence[timedelta | float | str] | None = None

    def payload(self) -> dict[str, Any]:
        """As the server wants it. Raises ValueError if it does not say when."""
        given = {name: value for name in _FIELDS if (value := getattr(self, name)) is not None}
        return when(self.at, self.in_, self.delay) | _fields(given)


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


def changes(options: ChangeOptions) -> dict[str, Any]:
    """What is given, by the server's names; the rest is to stay. Raises TypeError for an option
    that does not exist."""
    given: dict[str, Any] = {**options}
    at, in_, delay = (given.pop(name, None) for name in ("at", "in_", "delay"))
    if unknown := given.keys() - _FIELDS:
        raise TypeError(f"There is no argument {', '.join(sorted(unknown))}")
    found = _fields(given)
    return found if (at, in_, delay) == (None, None, None) else found | when(at, in_, delay)


def _fields(given: Mapping[str, Any]) -> dict[str, Any]:
    return {_FIELDS[name]: _written(name, value) for name, value in given.items()}


def _written(name: str, value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, datetime):
        return moment_text(name, value)
    if name == "retry_delays":
        return durations(value)
    return dict(value) if isinstance(value, Mapping) else value
