"""The rules for the fields of a schedule: a typed payload to a `Request`. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import msgspec

from api.errors import invalid
from api.headers import all_fine, check_headers
from api.schemas import SchedulePayload
from scheduler.errors import FieldError
from scheduler.models import Delivery, Request
from scheduler.settings import DAY_MS, Settings
from scheduler.targets import AddressPolicy, parse_target
from scheduler.times import parse_iso8601

P = ParamSpec("P")
T = TypeVar("T")

METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
MAX_PAST_MS = DAY_MS

_END_OF_TIME_MS = parse_iso8601("9999-12-31T23:59:59.999Z") + 1


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
    trigger_ms = trigger_at(payload.trigger_at, rules, now_ms)
    body = target_body(payload.target_body)
    headers = payload.target_headers or {}
    if headers and not all_fine(headers):
        raise ValueError("A header cannot be sent.")
    return Request(
        trigger_ms,
        target_method(payload.target_method, body is not None),
        target_url(payload.target_url, rules.policy),
        headers,
        body,
        delivery(payload.delivery),
        expires_at(payload.expires_at, trigger_ms),
    )


def _find_all(payload: SchedulePayload, rules: Rules, now_ms: int, found: list[FieldError]) -> None:
    """The same rules, to the end: adds a finding for each field that is not in `found` yet."""
    check = Findings(found).check
    check("targetUrl", target_url, payload.target_url, rules.policy)
    trigger_ms = check("triggerAt", trigger_at, payload.trigger_at, rules, now_ms)
    check("targetMethod", target_method, payload.target_method, has_body=True)
    check_headers(payload.target_headers or {}, found)
    check("targetBody", target_body, payload.target_body)
    check("delivery", delivery, payload.delivery)
    check("expiresAt", expires_at, payload.expires_at, trigger_ms)


class Findings:
    """Judges fields one by one; `found` names what is wrong already, and gets what is found."""

    def __init__(self, found: list[FieldError]) -> None:
        self._found = found
        self._known_bad = {detail.field for detail in found}

    def check(self, name: str, rule: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """What the rule makes of a field; None if it raises ValueError, or the field is bad."""
        if name in self._known_bad:
            return None
        try:
            return rule(*args, **kwargs)
        except ValueError as error:
            self._found.append(FieldError(name, str(error)))
            return None


def target_url(url: str | msgspec.UnsetType, policy: AddressPolicy) -> str:
    if url is msgspec.UNSET:
        raise ValueError("It is required.")
    policy.judge(parse_target(url))
    return url


def trigger_at(text: str | msgspec.UnsetType, rules: Rules, now_ms: int) -> int:
    if text is msgspec.UNSET:
        raise ValueError("It is required.")
    moment_ms = timestamp(text)
    if moment_ms < now_ms - MAX_PAST_MS:
        raise ValueError("It may be at most 24 hours in the past.")
    if moment_ms > now_ms + rules.max_horizon_days * DAY_MS:
        raise ValueError(f"It may be at most {rules.max_horizon_days:,} days ahead.")
    return moment_ms


def expires_at(text: str | None, trigger_ms: int | None) -> int | None:
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


def target_body(raw: msgspec.Raw) -> bytes | None:
    text = bytes(raw)
    if text == b"null":
        return None
    if text[:1] != b"{":
        raise ValueError("It must be a JSON object or null.")
    return text


def target_method(text: str | None, has_body: bool) -> str:
    if text is None:
        return "POST" if has_body else "GET"
    method = text.upper()
    # upper() turns a dotless i into an I: only ASCII may come through.
    if method not in METHODS or not text.isascii():
        raise ValueError("It must be one of GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS.")
    return method


def delivery(text: str | None) -> Delivery:
    if text is None:
        return Delivery.AT_LEAST_ONCE
    try:
        return Delivery(text)
    except ValueError:
        raise ValueError("It must be at-least-once or at-most-once.") from None
