"""Rules of a run, each with its calls and occurrences. Pure.

Each occurrence becomes a story of its own, so that it is judged as every schedule is."""

from __future__ import annotations

from typing import Any

from tests.chaos.history import Account, Asked, Entry, Ruled, to_ms
from tests.chaos.verdict.evidence import Call, Rule, Story, tag_of, version_of

# These cancel the occurrence that waits, and no call names it.
_CANCELS = ("rule pause", "rule delete")


def add_occurrences(stories: dict[str, Story], calls: list[Call], account: Account) -> list[Rule]:
    """The rules of an account; adds the stories of their occurrences. What belongs to no rule that
    a client wanted is left to be a stranger."""
    rules: dict[str, Rule] = {}
    for call in calls:
        if call.invoked.rule:
            rules.setdefault(call.invoked.rule, Rule(call.invoked.rule, [])).calls.append(call)
    by_id: dict[str, Rule] = {}
    for body in account.rules:
        if rule := rules.get(tag_of(body["targetUrl"])):
            rule.body = body
            by_id[body["recurringId"]] = rule
    for entry in account.log:
        rule = rules.get(tag_of(entry.target_url))
        if rule is None or entry.recurring_id is None or entry.status == "retrying":
            continue
        by_id[entry.recurring_id] = rule
        answer = account.schedules.get(entry.schedule_id) or {}
        slot = answer.get("slot")
        rule.occurrences.append((entry, to_ms(slot) if slot else None))
        _add_story(stories, rule, entry, answer)
    for skipped in account.skipped:
        if skipped.recurring_id in by_id:
            by_id[skipped.recurring_id].skipped.append(skipped)
    return list(rules.values())


def wanted(rule: Rule) -> list[Ruled]:
    """Every version of it, as far as clients tell."""
    return [call.invoked.ruled for call in rule.calls if call.invoked.ruled]


def _add_story(stories: dict[str, Story], rule: Rule, entry: Entry, answer: dict[str, Any]) -> None:
    version = version_of(entry.target_url)
    ruled = next((each for each in wanted(rule) if each.version == version), None)
    if ruled is None:
        return
    expires_at = answer.get("expiresAt")
    story = Story(f"{rule.tag} as {entry.schedule_id}", occurrence_id=entry.schedule_id)
    story.occurrence = Asked(
        story.tag,
        ruled.behaviour,
        round(to_ms(entry.scheduled_at)),
        version=ruled.version,
        lane=ruled.lane,
        labels=ruled.labels,
        message=ruled.message,
        expires_at_ms=round(to_ms(expires_at)) if expires_at else None,
    )
    told = [call for call in rule.calls if entry.schedule_id in call.ids]
    story.acknowledged = {entry.schedule_id} if told else set()
    story.cancels = [Call(c.invoked) for c in rule.calls if c.invoked.call in _CANCELS]
    stories[story.tag] = story
