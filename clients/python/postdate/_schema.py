"""Options, filters and shown fields of a request. `make schema` writes them from the server's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, TypedDict

from postdate import arguments as kinds
from postdate.arguments import BytesLike

Delivery: TypeAlias = Literal["at-least-once", "at-most-once"]
CallbackOn: TypeAlias = Literal["executed", "failed"]
CallbackInclude: TypeAlias = Literal["response"]


class RequestOptions(TypedDict, total=False):
    """The request and its delivery. None is the same as absent, but for `callback_url`: absent or
    "default", the account's; None, no callback."""

    method: str | None
    headers: Mapping[str, str] | None
    json: Mapping[str, Any] | None
    text: str | None
    data: BytesLike | None
    delivery: Delivery | None
    retries: int | None
    retry_delays: Sequence[timedelta | float | str] | None
    timeout: timedelta | float | str | None
    callback_url: str | None
    callback_on: CallbackOn | None
    failure_callback_url: str | None
    callback_include: CallbackInclude | None
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


class Filters(TypedDict, total=False):
    """Which schedules, or entries of the log, are meant: all that match all of these. `reference`
    may end in `*`; `from_` is inclusive, `to` exclusive."""

    url: str | None
    lane: str | None
    reference: str | None
    recurring_id: str | None
    from_: datetime | str | None
    to: datetime | str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFields:
    """The request of a schedule or of a recurring one, as the server shows it."""

    target_url: str
    target_method: str
    target_headers: Mapping[str, str]
    target_body: Mapping[str, Any] | None = None
    target_body_text: str | None = None
    target_body_base64: str | None = None
    delivery: Delivery = "at-least-once"
    retries: int = 0
    retry_delays: Sequence[str] | None = None
    timeout: str = "30s"
    callback_url: str | None = "default"
    callback_on: CallbackOn | None = None
    failure_callback_url: str | None = None
    callback_include: CallbackInclude | None = None
    lane: str | None = None
    reference: str | None = None


# The server's name of each option that does not say when, and how it is written.
FIELDS = {
    "url": ("targetUrl", kinds.text),
    "method": ("targetMethod", kinds.text),
    "headers": ("targetHeaders", kinds.headers),
    "json": ("targetBody", kinds.json_object),
    "text": ("targetBodyText", kinds.text),
    "data": ("targetBodyBase64", kinds.base64),
    "delivery": ("delivery", kinds.text),
    "expires_at": ("expiresAt", kinds.moment),
    "retries": ("retries", kinds.whole),
    "retry_delays": ("retryDelays", kinds.durations),
    "timeout": ("timeout", kinds.duration),
    "callback_url": ("callbackUrl", kinds.text),
    "callback_on": ("callbackOn", kinds.text),
    "failure_callback_url": ("failureCallbackUrl", kinds.text),
    "callback_include": ("callbackInclude", kinds.text),
    "lane": ("lane", kinds.text),
    "reference": ("reference", kinds.text),
    "on_existing": ("onExisting", kinds.text),
    "max_wait": ("maxWait", kinds.duration),
}
FILTERS = {
    "url": ("targetUrl", kinds.text),
    "lane": ("lane", kinds.path_part),
    "reference": ("reference", kinds.text),
    "recurring_id": ("recurringId", kinds.path_part),
    "from_": ("from", kinds.moment),
    "to": ("to", kinds.moment),
}
