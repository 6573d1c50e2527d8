"""Recurring schedules in words. Pure."""

from __future__ import annotations

from api.dashboard.viewer.session import ROOT
from scheduler.errors import Reason, UnknownRecurring
from scheduler.ids import is_recurring_id
from scheduler.masks import masked_url
from scheduler.recurrence.recurring import Rule, RuleState

ADDRESS = f"{ROOT}/recurring"

# Why a rule is blocked, in short; and what to do about it.
_WHY: dict[str, str] = {
    Reason.INSUFFICIENT_CREDITS: "no credits",
    Reason.QUOTA_EXCEEDED: "storage full",
    Reason.TOO_MANY_LANES: "too many lanes",
}
_REMEDIES: dict[str, str] = {
    Reason.INSUFFICIENT_CREDITS: "The account has no credits left: it goes on at its next time once"
    " there are some.",
    Reason.QUOTA_EXCEEDED: "The account's storage is full: it goes on at its next time once there"
    " is room. Cancel waiting schedules, or delete recurring ones.",
    Reason.TOO_MANY_LANES: "The account has as many lanes as it may have: clear some, or change the"
    " lane of this one.",
}
_OTHER_REMEDY = "Its next occurrence cannot be stored; it tries again at each of its times."
_ENDED = "It has ended: none of its times is left. Change them and it goes on, or delete it."


def named(recurring_id: str) -> str:
    """Raises NotFound for what can be no id."""
    if not is_recurring_id(recurring_id):
        raise UnknownRecurring()
    return recurring_id


def name_of(rule: Rule) -> str:
    """Its name, or what it calls, from the host on."""
    return rule.name or f"{rule.request.method} {masked_url(rule.request.url).partition('://')[2]}"


def trouble(rule: Rule) -> str:
    """Why it is blocked or has ended, and what to do; '' of any other."""
    if rule.state == RuleState.ENDED:
        return _ENDED
    if rule.state != RuleState.BLOCKED:
        return ""
    missed = f" It has missed {rule.missed:,} so far." if rule.missed else ""
    return _REMEDIES.get(rule.reason, _OTHER_REMEDY) + missed


def why_blocked(rule: Rule) -> str:
    """In a few words, for a list: `no credits, 3 missed`; '' of one that is not."""
    if rule.state != RuleState.BLOCKED:
        return ""
    parts = [_WHY.get(rule.reason, ""), f"{rule.missed:,} missed" if rule.missed else ""]
    return ", ".join(filter(None, parts))
