"""What a request that arrived again, or was given up as lost, has to be explained by. Pure."""

from __future__ import annotations

from itertools import pairwise

from tests.chaos.evidence import SLACK_MS, Case, Story
from tests.chaos.history import Arrival, to_ms

LOST = "Worker lost; the request may have been sent"


def has_a_cause(case: Case, story: Story) -> list[str] | None:
    """A request arrives again only if a fault cost its worker the lease, or if the target reset a
    kept connection before it answered, which has one sending more."""
    if len(story.arrivals) < 2:
        return None
    found, resent = [], False
    for before, after in pairwise(story.arrivals):
        resent = not resent and may_be_resent(story, before, after)
        if not resent and not case.cost_a_lease(before.at_ms, after.at_ms):
            found.append(
                f"attempt {after.attempt} arrived {after.at_ms - before.at_ms:.0f} ms after attempt"
                f" {before.attempt}, and no worker had lost it"
            )
    return found


def was_lost(case: Case, story: Story) -> list[str] | None:
    """It is given up as lost only if a fault cost a worker the lease of it."""
    entry = story.entry
    if entry is None or entry.error_message != LOST or entry.executed_at is None:
        return None
    since_ms = max(to_ms(entry.scheduled_at), to_ms(entry.created_at))
    since_ms = max(since_ms, *(arrival.at_ms for arrival in story.arrivals), 0)
    if case.cost_a_lease(since_ms, to_ms(entry.executed_at)):
        return []
    return ["it was given up, and no worker had lost it"]


def may_be_resent(story: Story, before: Arrival, after: Arrival) -> bool:
    """At once, as the next attempt."""
    wanted = story.wanted_by(before)
    return (
        wanted is not None
        and wanted.behaviour == "reset"
        and wanted.delivery == "at-least-once"
        and after.attempt == before.attempt + 1
        and after.at_ms - before.at_ms <= SLACK_MS
    )
