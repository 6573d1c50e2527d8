"""The rules for the fields of a schedule: a typed payload to a `Request`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar

import msgspec

from api.errors import invalid
from api.schemas import SchedulePayload
from scheduler.errors import FieldError
from scheduler.models import Delivery, Request
from scheduler.settings import DAY_MS, Settings
from scheduler.targets import AddressPolicy, parse_target
from scheduler.times import parse_iso8601

P = ParamSpec("P")
T = TypeVar("T")

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
MAX_HEADERS = 64
MAX_HEADER_BYTES = 16 * 1024
MAX_PAST_MS = DAY_MS

_END_OF_TIME_MS = parse_iso8601("9999-12-31T23:59:59.999Z") + 1
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
# Latin-1 without its control characters: the only characters that a header field can carry and
# that every receiver reads back as one character each.
_HEADER_VALUE = re.compile(r"[ -~\xa0-\xff]*")
_OURS = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "expect",
    }
)
_OUR_PREFIXES = ("proxy-", "postdate-")
_SHOWN_NAME_CHARACTERS = 100


class Rules(msgspec.Struct, frozen=True):
    """What the rules depend on beside the payload."""

    policy: AddressPolicy
    max_horizon_days: int

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        return cls(AddressPolicy(settings.allow_targets), settings.max_horizon_days)


def judge(payload: SchedulePayload, rules: Rules, now_ms: int, found: list[FieldError]) -> Request:
    """The request that a payload describes.

    `found` holds what decoding has already found wrong; those fields are not judged again.
    Raises InvalidRequest with every bad field.
    """
    if not found:
        try:
            return _request(payload, rules, now_ms)
        except ValueError:
            pass  # the first fault: now look for all of them
    _find_all(payload, rules, now_ms, found)
    raise invalid(found)


def _request(payload: SchedulePayload, rules: Rules, now_ms: int) -> Request:
    """Raises ValueError at the first fault."""
    trigger_ms = _trigger_at(payload.trigger_at, rules, now_ms)
    body = _target_body(payload.target_body)
    headers = payload.target_headers or {}
    if headers and not _all_fine(headers):
        raise ValueError("A header cannot be sent.")
    return Request(
        trigger_ms,
        _target_method(payload.target_method, body is not None),
        _target_url(payload.target_url, rules.policy),
        headers,
        body,
        _delivery(payload.delivery),
        _expires_at(payload.expires_at, trigger_ms),
    )


def _find_all(payload: SchedulePayload, rules: Rules, now_ms: int, found: list[FieldError]) -> None:
    """The same rules, to the end: adds a finding for each field that is not in `found` yet."""
    known_bad = {detail.field for detail in found}

    def check(name: str, rule: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        if name in known_bad:
            return None
        try:
            return rule(*args, **kwargs)
        except ValueError as error:
            found.append(FieldError(name, str(error)))
            return None

    check("targetUrl", _target_url, payload.target_url, rules.policy)
    trigger_ms = check("triggerAt", _trigger_at, payload.trigger_at, rules, now_ms)
    check("targetMethod", _target_method, payload.target_method, has_body=True)
    _check_headers(payload.target_headers or {}, found)
    check("targetBody", _target_body, payload.target_body)
    check("delivery", _delivery, payload.delivery)
    check("expiresAt", _expires_at, payload.expires_at, trigger_ms)


def _target_url(url: str | msgspec.UnsetType, policy: AddressPolicy) -> str:
    if url is msgspec.UNSET:
        raise ValueError("It is required.")
    policy.judge(parse_target(url))
    return url


def _trigger_at(text: str | msgspec.UnsetType, rules: Rules, now_ms: int) -> int:
    if text is msgspec.UNSET:
        raise ValueError("It is required.")
    moment_ms = timestamp(text)
    if moment_ms < now_ms - MAX_PAST_MS:
        raise ValueError("It may be at most 24 hours in the past.")
    if moment_ms > now_ms + rules.max_horizon_days * DAY_MS:
        raise ValueError(f"It may be at most {rules.max_horizon_days:,} days ahead.")
    return moment_ms


def _expires_at(text: str | None, trigger_ms: int | None) -> int | None:
    if text is None:
        return None
    moment_ms = timestamp(text)
    if trigger_ms is not None and moment_ms <= trigger_ms:
        raise ValueError("It must be after triggerAt.")
    return moment_ms


def timestamp(text: str) -> int:
    """Milliseconds since the epoch. Raises ValueError with a sentence for clients."""
    try:
        moment_ms = parse_iso8601(text)
    except ValueError:
        moment_ms = _END_OF_TIME_MS
    # The last fraction of the year 9999 rounds up to a year that cannot be written.
    if moment_ms >= _END_OF_TIME_MS:
        raise ValueError("It must be an ISO 8601 timestamp such as 2026-11-20T08:00:00.000Z.")
    return moment_ms


def _target_body(raw: msgspec.Raw) -> bytes | None:
    text = bytes(raw)
    if text == b"null":
        return None
    if text[:1] != b"{":
        raise ValueError("It must be a JSON object or null.")
    return text


def _target_method(text: str | None, has_body: bool) -> str:
    if text is None:
        return "POST" if has_body else "GET"
    method = text.upper()
    # upper() turns a dotless i into an I: only ASCII may come through.
    if method not in METHODS or not text.isascii():
        raise ValueError("It must be one of GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS.")
    return method


def _delivery(text: str | None) -> Delivery:
    if text is None:
        return Delivery.AT_LEAST_ONCE
    try:
        return Delivery(text)
    except ValueError:
        raise ValueError("It must be at-least-once or at-most-once.") from None


def _all_fine(headers: dict[str, str]) -> bool:
    """Whether nothing is wrong with any header, asked of all at once."""
    lower = [name.lower() for name in headers]
    names, values = "".join(lower), "".join(headers.values())
    return (
        len(set(lower)) == len(lower) <= MAX_HEADERS
        and len(names) + len(values) <= MAX_HEADER_BYTES
        and _HEADER_VALUE.fullmatch(values) is not None
        and not any(map(_name_fault, headers))
    )


def _check_headers(headers: dict[str, str], details: list[FieldError]) -> None:
    """Adds a finding for every header that cannot be sent, and for too many of them."""
    if len(headers) > MAX_HEADERS:
        details.append(FieldError("targetHeaders", f"It may have at most {MAX_HEADERS} headers."))
        return
    if sum(map(len, headers)) + sum(map(len, headers.values())) > MAX_HEADER_BYTES:
        message = f"Names and values may have at most {MAX_HEADER_BYTES:,} bytes in all."
        details.append(FieldError("targetHeaders", message))
    seen: set[str] = set()
    for name, value in headers.items():
        lower = name.lower()
        fault = "It is given twice, in another letter case." if lower in seen else None
        fault = fault or _name_fault(name) or _value_fault(value)
        if fault:
            details.append(FieldError(header_field(name), fault))
        seen.add(lower)


def header_field(name: str) -> str:
    """How a finding names a header: `targetHeaders.X-Foo`."""
    return f"targetHeaders.{shown(name)}"


def shown(name: str) -> str:
    """A client's own name for something, short enough to say back."""
    if len(name) <= _SHOWN_NAME_CHARACTERS:
        return name
    return name[:_SHOWN_NAME_CHARACTERS] + "…"


@lru_cache(maxsize=1024)
def _name_fault(name: str) -> str | None:
    if _HEADER_NAME.fullmatch(name) is None:
        return "It is not a valid header name."
    lower = name.lower()
    if lower in _OURS or lower.startswith(_OUR_PREFIXES):
        return "This header is set by Postdate and cannot be given."
    return None


def _value_fault(value: str) -> str | None:
    if _HEADER_VALUE.fullmatch(value) is None:
        return "Its value may only have Latin-1 characters, and no control characters."
    return None
