"""The form of a recurring schedule, to and from the fields of the API. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from api.dashboard.requests.form import LABELS as REQUEST_LABELS
from api.dashboard.requests.form import request_fields, request_given
from api.dashboard.zones import Zone
from scheduler.durations import format_duration
from scheduler.masks import MASK
from scheduler.models import Request
from scheduler.recurrence import Timing
from scheduler.recurring import Rule
from scheduler.times import format_iso8601

LABELS = REQUEST_LABELS | {
    "name": "Name",
    "cron": "Cron",
    "every": "Every",
    "timeZone": "Time zone",
    "startsAt": "From",
    "endsAt": "Until",
    "expiresAfter": "Expires after",
}
# Those of the preview, by their names in the form and in the API.
TIMING = ("way", "cron", "every", "timeZone", "startsAt", "endsAt")
_TIMES = ("startsAt", "endsAt")


def fields_of(form: Mapping[str, str], zone: Zone) -> dict[str, Any]:
    """The fields of a call that the form asks for; its times are of the viewer's zone."""
    texts = {name: form.get(name, "").strip() for name in ("name", "expiresAfter")}
    given = {name: text for name, text in texts.items() if text}
    return given | timing_fields(form, zone) | request_fields(form)


def timing_fields(form: Mapping[str, str], zone: Zone) -> dict[str, Any]:
    """The fields of the preview."""
    way = "every" if form.get("way") == "every" else "cron"
    fields = {way: form.get(way, "").strip()}
    for name in ("timeZone", *_TIMES):
        if text := form.get(name, "").strip():
            fields[name] = _utc_text(text, zone) if name in _TIMES else text
    return fields


def given_of(rule: Rule, zone: Zone) -> dict[str, str]:
    """The form as a rule fills it, with masks for its secrets."""
    timing = rule.timing
    given = {"name": rule.name or "", **_timing_given(timing, zone)} | request_given(rule.request)
    # As a browser sends it back.
    return {name: text.replace("\r\n", "\n").replace("\r", "\n") for name, text in given.items()}


def changes(form: Mapping[str, str], rule: Rule, zone: Zone) -> dict[str, Any]:
    """The fields of a call that changes a rule to what its form says: those that the form has
    otherwise than the rule filled it; null clears one. A secret whose mask came back stays, unless
    the target is another one."""
    before, after = fields_of(given_of(rule, zone), zone), fields_of(form, zone)
    found = {name: value for name, value in after.items() if not _same(value, before.get(name))}
    found |= {name: None for name in before if name not in after}
    if "targetHeaders" in found and "targetUrl" not in found:
        found["targetHeaders"] = _unmasked(found["targetHeaders"], rule.request)
    return found


def _timing_given(timing: Timing, zone: Zone) -> dict[str, str]:
    every_ms, expires_ms = timing.every_ms, timing.expires_after_ms
    starts_at_ms, ends_at_ms = timing.starts_at_ms, timing.ends_at_ms
    return {
        "way": "cron" if every_ms is None else "every",
        "cron": timing.cron or "",
        "every": "" if every_ms is None else format_duration(every_ms),
        "timeZone": timing.zone,
        "startsAt": "" if starts_at_ms is None else zone.text(starts_at_ms),
        "endsAt": "" if ends_at_ms is None else zone.text(ends_at_ms),
        "expiresAfter": "" if expires_ms is None else format_duration(expires_ms),
    }


def _same(one: Any, other: Any) -> bool:
    return msgspec.json.encode(one) == msgspec.json.encode(other)


def _unmasked(headers: dict[str, str] | None, before: Request) -> dict[str, str] | None:
    if headers is None:
        return None
    kept = before.headers
    return {name: kept.get(name, v) if v == MASK else v for name, v in headers.items()}


def _utc_text(text: str, zone: Zone) -> str:
    """A time of the viewer's zone as the API takes it; other text unchanged."""
    try:
        return format_iso8601(zone.moment(text))
    except (ValueError, OverflowError):
        return text
