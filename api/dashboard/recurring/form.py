"""The form of a recurring schedule, to and from the fields of the API. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.dashboard.requests.form import LABELS as REQUEST_LABELS
from api.dashboard.requests.form import edited, request_fields, request_given
from api.dashboard.zones import Zone
from scheduler.durations import format_duration
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Rule
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
    """The fields of a call that the form asks for. Raises InvalidRequest."""
    return own_fields(form, zone) | request_fields(form)


def own_fields(form: Mapping[str, str], zone: Zone) -> dict[str, Any]:
    """Those of the rule itself; its times are of the viewer's zone."""
    texts = {name: form.get(name, "").strip() for name in ("name", "expiresAfter")}
    given = {name: text for name, text in texts.items() if text}
    return given | timing_fields(form, zone)


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
    own = {"name": rule.name or "", **_timing_given(rule.timing, zone)}
    return own | request_given(rule.request)


def edited_rule(form: Mapping[str, str], rule: Rule, zone: Zone) -> dict[str, Any]:
    """The same of all fields of a rule, for a call that changes it. Raises InvalidRequest."""
    given = given_of(rule, zone)
    before, after = own_fields(given, zone), own_fields(form, zone)
    found = {name: value for name, value in after.items() if value != before.get(name)}
    found |= {name: None for name in before if name not in after}
    return found | edited(form, request_fields(given), rule.request)


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


def _utc_text(text: str, zone: Zone) -> str:
    """A time of the viewer's zone as the API takes it; other text unchanged."""
    try:
        return format_iso8601(zone.moment(text))
    except (ValueError, OverflowError):
        return text
