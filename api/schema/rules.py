"""The rules: each makes a field's value from a client's, which has the right type, by the settings
and the store's clock (ms). Raises ValueError with a sentence, or InvalidRequest. Pure."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from api.schema.findings import NotAnew
from scheduler.durations import DAY_MS, parse_duration
from scheduler.lanes import LONGEST_LANE, is_lane
from scheduler.masks import has_mask
from scheduler.references import LONGEST_REFERENCE, is_filter, is_reference
from scheduler.runtime.settings import Settings
from scheduler.schema import (
    DEFAULT,
    LONGEST_DELAY_MS,
    MOST_DELAYS,
    MOST_RAW_BODY_BYTES,
    SHORTEST_DELAY_MS,
    FieldRow,
)
from scheduler.target.destinations import Destinations
from scheduler.target.http import METHODS
from scheduler.target.targets import parse_target
from scheduler.times import parse_iso8601

MAX_PAST_MS = DAY_MS
NO_DURATION = (
    "It must be a duration such as 250ms, 10s, 5m, 2h, 1h30m or 1d, or a whole number of seconds."
)
# Padding bits must be zero.
BASE64_PATTERN = (
    "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?"
)

_END_OF_TIME_MS = parse_iso8601("9999-12-31T23:59:59.999Z") + 1


class Rules(msgspec.Struct, frozen=True):
    """The settings that the rules need."""

    destinations: Destinations
    max_horizon_days: int
    max_body_bytes: int = Settings().max_body_bytes

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        return cls(settings.destinations, settings.max_horizon_days, settings.max_body_bytes)


Rule = Callable[[Any, Rules, int], Any]


def one_of(choices: Iterable[str], make: Callable[[str], Any] = str) -> Rule:
    """A rule for a field with these choices; `make` turns the text into its value."""
    made = {each: make(each) for each in choices}
    *first, last = made
    words = f"It must be {', '.join(first)} or {last}." if first else f"It must be {last}."

    def rule(text: str, rules: Rules, now_ms: int) -> Any:
        if text not in made:
            raise ValueError(words)
        return made[text]

    return rule


def from_to(row: FieldRow) -> Rule:
    """A whole number between its bounds."""
    words, (least, most) = f"It must be from {row.minimum} to {row.maximum}.", _bounds(row)

    def rule(number: int, rules: Rules, now_ms: int) -> int:
        if not least <= number <= most:
            raise ValueError(words)
        return number

    return rule


def whole_seconds(row: FieldRow) -> Rule:
    """A duration of whole seconds between its bounds."""
    words, (least, most) = f"{row.minimum}s to {row.maximum}s", _bounds(row)

    def rule(span: str | int, rules: Rules, now_ms: int) -> int:
        seconds, rest_ms = divmod(duration(span), 1000)
        if rest_ms or not least <= seconds <= most:
            raise ValueError(f"It must be whole seconds from {words}.")
        return seconds

    return rule


def _bounds(row: FieldRow) -> tuple[int, int]:
    assert row.minimum is not None
    assert row.maximum is not None
    return row.minimum, row.maximum


def target_url(url: str, rules: Rules, now_ms: int) -> str:
    target = parse_target(url)
    _refuse_mask(url)
    rules.destinations.judge(target)
    return url


def callback_url(url: str, rules: Rules, now_ms: int) -> str | None:
    """None for the account's."""
    if url == DEFAULT:
        return None
    if ":" not in url:  # a slip of that word
        raise ValueError("It must be an absolute http or https URL, or default.")
    return target_url(url, rules, now_ms)


def url_filter(url: str, most_characters: int) -> str:
    """A whole URL to search by."""
    if len(url) > most_characters:
        raise ValueError(f"It may have at most {most_characters:,} characters.")
    _refuse_mask(url)
    return url


def _refuse_mask(url: str) -> None:
    if has_mask(url):
        raise NotAnew("It has the mask that stands for a secret; give the value itself.")


def trigger_at(text: str, rules: Rules, now_ms: int) -> int:
    moment_ms = timestamp(text)
    if moment_ms < now_ms - MAX_PAST_MS:
        raise NotAnew("It may be at most 24 hours in the past.")
    if moment_ms > now_ms + rules.max_horizon_days * DAY_MS:
        raise ValueError(f"It may be at most {rules.max_horizon_days:,} days ahead.")
    return moment_ms


def delay(span: str | int, rules: Rules, now_ms: int) -> int:
    """When it is due."""
    ms = duration(span)
    if ms > rules.max_horizon_days * DAY_MS:
        raise ValueError(f"It may be at most {rules.max_horizon_days:,} days.")
    return now_ms + ms


def target_method(text: str, rules: Rules, now_ms: int) -> str:
    method = text.upper() if len(text) <= len("OPTIONS") else text
    # upper() turns a dotless i into an I: only ASCII may come through.
    if method not in METHODS or not text.isascii():
        raise ValueError(f"It must be one of {', '.join(METHODS)}.")
    return method


def target_body(text: bytes, rules: Rules, now_ms: int) -> bytes:
    if text[:1] != b"{":
        raise ValueError("It must be a JSON object or null.")
    return text


def target_body_text(text: str, rules: Rules, now_ms: int) -> bytes:
    return _of_a_fair_size(text.encode())


def target_body_base64(text: str, rules: Rules, now_ms: int) -> bytes:
    """Only the form of RFC 4648, so that answers show the same text."""
    try:
        body = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        body = b""
    if binascii.b2a_base64(body, newline=False).decode() != text:
        raise ValueError("It must be base64 (RFC 4648) with padding, and without line breaks.")
    return _of_a_fair_size(body)


def _of_a_fair_size(body: bytes) -> bytes:
    if len(body) > MOST_RAW_BODY_BYTES:
        raise ValueError(f"It may have at most {MOST_RAW_BODY_BYTES:,} bytes.")
    return body


def retry_delays(spans: list[str | int], rules: Rules, now_ms: int) -> tuple[int, ...]:
    if not 1 <= len(spans) <= MOST_DELAYS:
        raise ValueError(f"It must have from 1 to {MOST_DELAYS} durations.")
    delays_ms = tuple(map(duration, spans))
    if min(delays_ms) < SHORTEST_DELAY_MS or max(delays_ms) > LONGEST_DELAY_MS:
        raise ValueError("Each must be from 1s to 7d.")
    return delays_ms


def lane(text: str, rules: Rules, now_ms: int) -> str:
    return lane_filter(text)


def reference(text: str, rules: Rules, now_ms: int) -> str:
    if not is_reference(text):
        raise ValueError(
            f"It must have 1 to {LONGEST_REFERENCE} visible ASCII characters, no space, and no * at"
            " its end."
        )
    return text


def max_wait(span: str | int, rules: Rules, now_ms: int) -> int:
    ms = duration(span)
    if ms > rules.max_horizon_days * DAY_MS:
        raise ValueError(f"It may be at most {rules.max_horizon_days:,} days.")
    return ms


def reference_filter(text: str) -> str:
    """A reference to search by, or how some begin, with a `*` behind it."""
    if not is_filter(text):
        raise ValueError("It must be a reference, or how references begin and a * behind that.")
    return text


def lane_filter(text: str) -> str:
    """The name of a lane to search by."""
    if not is_lane(text):
        raise ValueError(
            f"It must have 1 to {LONGEST_LANE} letters, digits, dots, underscores, colons and"
            " hyphens, and begin with a letter or digit."
        )
    return text


def timestamp(text: str) -> int:
    """Milliseconds since the epoch. Raises ValueError with a sentence for clients."""
    try:
        moment_ms = parse_iso8601(text)
    except ValueError:
        moment_ms = _END_OF_TIME_MS
    # The last fraction of the year 9999 rounds up into the year 10000.
    if moment_ms >= _END_OF_TIME_MS:
        raise ValueError("It must be an ISO 8601 timestamp such as 2026-11-20T08:00:00.000Z.")
    return moment_ms


def duration(span: str | int) -> int:
    """Milliseconds of a text or of seconds. Raises ValueError with a sentence for clients."""
    try:
        return parse_duration(span if isinstance(span, str) else f"{span}s")
    except ValueError:
        raise ValueError(NO_DURATION) from None
