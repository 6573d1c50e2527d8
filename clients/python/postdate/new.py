"""A schedule that does not exist yet, and its moments and durations as text for the server."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypedDict, Unpack

from postdate.results import CallbackOn, Delivery


class RequestOptions(TypedDict, total=False):
    """The request and its delivery. None is as good as absent, but for `callback_url`: absent, the
    account's default; None, no callback."""

    json: Mapping[str, Any] | None
    text: str | None
    data: bytes | None
    method: str | None
    headers: Mapping[str, str] | None
    delivery: Delivery | None
    retries: int | None
    retry_delays: Sequence[timedelta | float | str] | None
    timeout: timedelta | float | str | None
    callback_url: str | None
    callback_on: CallbackOn | None
    lane: str | None
    reference: str | None


class ScheduleOptions(RequestOptions, total=False):
    """The options of `schedule` besides the URL: also when."""

    at: datetime | str | None
    in_: timedelta | float | None
    delay: timedelta | float | str | None
    expires_at: datetime | str | None


class CreateOptions(ScheduleOptions, total=False):
    """Further options of `schedule`, which need `reference`: keep or replace the schedule that
    waits with it; with "replace", the longest wait."""

    on_existing: Literal["keep", "replace"] | None
    max_wait: timedelta | float | str | None


class ChangeOptions(ScheduleOptions, total=False):
    """Options of `change` and `replay`. Fields without an option stay; None clears one."""

    url: str


_WHEN = ("at", "in_", "delay")
FIELDS = {
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
    "timeout": "timeout",
    "callback_url": "callbackUrl",
    "callback_on": "callbackOn",
    "lane": "lane",
    "reference": "reference",
    "on_existing": "onExisting",
    "max_wait": "maxWait",
}


@dataclass(init=False, slots=True)
class NewSchedule:
    """One of a batch: the arguments of `schedule`, by the same names."""

    url: str
    options: CreateOptions

    def __init__(self, url: str, **options: Unpack[CreateOptions]) -> None:
        self.url, self.options = url, options

    def payload(self) -> dict[str, Any]:
        """By the server's names. Raises ValueError if it does not say when, TypeError for an
        unknown option."""
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
    given = {name: value for name, value in options.items() if name not in _WHEN}
    if unknown := given.keys() - FIELDS:
        raise TypeError(f"There is no argument {', '.join(sorted(unknown))}")
    return {FIELDS[name]: _written(name, value) for name, value in given.items()}


def _written(name: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, datetime):
        return moment_text(name, value)
    if name == "retry_delays":
        return durations(value)
    if name in ("timeout", "max_wait") and value is not None:
        return duration_text(value)
    return dict(value) if isinstance(value, Mapping) else value


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
