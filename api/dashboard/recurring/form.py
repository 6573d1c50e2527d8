"""The form of a recurring schedule, to and from the fields of the API. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.dashboard.requests.form import edited, fields_of, given_of, request_given
from api.dashboard.zones import Zone
from scheduler.field_rows import Group
from scheduler.recurrence.fields import FIELDS
from scheduler.recurrence.recurring import Rule

# Those of the preview.
TIMING = tuple(row for row in FIELDS if row.group is Group.WHEN)


def rule_given(rule: Rule, zone: Zone) -> dict[str, str]:
    """The form as a rule fills it, with masks for its secrets."""
    timing = rule.timing
    own = given_of(FIELDS, timing, zone)
    own |= {"name": rule.name or "", "way": "cron" if timing.every_ms is None else "every"}
    return own | request_given(rule.request)


def edited_rule(form: Mapping[str, str], rule: Rule, zone: Zone) -> dict[str, Any]:
    """The fields that a form has otherwise than the rule filled it; null clears one. Raises
    InvalidRequest."""
    before, after = (fields_of(FIELDS, each, zone) for each in (rule_given(rule, zone), form))
    found = {name: value for name, value in after.items() if value != before.get(name)}
    found |= {name: None for name in before if name not in after}
    return found | edited(form, rule.request)
