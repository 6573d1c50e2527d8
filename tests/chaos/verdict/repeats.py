"""What a request that arrived again, or was given up as lost, has to be explained by; what holds of
replays, of a hold, and of what requests are signed with. Pure."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from itertools import pairwise

from tests.chaos.history import Arrival, Entry, Secret, to_ms
from tests.chaos.verdict.evidence import (
    CALM_MS,
    CLOCK_MS,
    LONGEST,
    SLACK_MS,
    Case,
    Story,
    held_back,
    outcome_of,
    woke_up,
)

LOST = "Worker lost; the request may have been sent"
# Answers that are retried only where `retryOn` says so.
_ONLY_IF_ANY = (404,)
# A rotation holds everywhere within so long.
_ROTATED_MS = 5000


def has_a_cause(case: Case, story: Story) -> list[str] | None:
    """A request arrives again, or with a higher attempt than the next, only as a retry, if a fault
    cost its worker the lease, or if the target reset a kept connection before it answered, which
    has one sending more."""
    if not story.arrivals:
        return None
    found, resent, first = [], False, story.arrivals[0]
    if first.attempt > 1 and not case.cost_a_lease(0, first.at_ms, story.lane):
        found.append(f"attempt {first.attempt} arrived first, and no worker had lost one before")
    for before, after in pairwise(story.arrivals):
        is_retry = _is_retry(story, before, after)
        resent = not is_retry and not resent and may_be_resent(story, before, after)
        explained = (is_retry or resent) and after.attempt == before.attempt + 1
        if not explained and not case.cost_a_lease(before.at_ms, after.at_ms, story.lane):
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
    since_ms = max(to_ms(entry.scheduled_at), to_ms(entry.created_at), _again_ms(story))
    since_ms = max(since_ms, *(arrival.at_ms for arrival in story.arrivals), 0)
    if case.cost_a_lease(since_ms, to_ms(entry.executed_at), story.lane):
        return []
    return ["it was given up, and no worker had lost it"]


def are_as_asked(case: Case, story: Story) -> list[str] | None:
    """As many retries as were asked for, in order, each of an answer that is retried, and none
    before its delay is over."""
    wanted, entry = story.final, story.entry
    if wanted is None or entry is None or not (wanted.retries or story.attempts):
        return None
    numbers = [each.attempt for each in story.attempts]
    found = [f"its log has the attempts {numbers}"] * (numbers != sorted(set(numbers)))
    if len(numbers) > wanted.retries:
        found.append(f"{len(numbers)} attempts were made again, of {wanted.retries}")
    elif len(numbers) < wanted.retries and _is_left_over(story, entry):
        found.append(f"it ended after {len(numbers)} retries of {wanted.retries}")
    for number, each in enumerate(story.attempts[: wanted.retries]):
        if each.status_code in _ONLY_IF_ANY and wanted.retry_on is None:
            found.append(f"attempt {each.attempt} is made again after {each.status_code}")
        delay_ms = wanted.delays_ms[min(number, len(wanted.delays_ms) - 1)]
        found += _waits(case, story, each, delay_ms)
    return found


def is_stopped(case: Case, story: Story) -> list[str] | None:
    """A cancellation between two attempts stops the rest: it ends as failed."""
    if not story.stops:
        return None
    found = []
    if story.entry is not None and story.entry.status != "failed":
        found.append(f"it was stopped, and is {story.entry.status}")
    if not story.attempts:
        found.append("it was stopped, and no attempt had failed")
    answered = story.stops[0].answered
    late_ms = (answered.wall_ms if answered else 0) + SLACK_MS
    found += [f"attempt {a.attempt} arrived later" for a in story.arrivals if a.at_ms > late_ms]
    return found


def is_replayed_as_asked(_: Case, story: Story) -> list[str] | None:
    """In bulk it is replayed once, and every replay has a call that asked for it."""
    if not story.replays and not story.replayed:
        return None
    told = {new for _, new in story.replays if new}
    in_bulk = {new for call, new in story.replays if new and call.invoked.call == "replay many"}
    asked = {call.invoked.key or call.name for call, _ in story.replays if call.result == "unknown"}
    untold = story.replayed.keys() - told
    found = [f"it was replayed in bulk as {', '.join(sorted(in_bulk))}"] * (len(in_bulk) > 1)
    if len(untold) > len(asked):
        found.append(f"it was replayed as {', '.join(sorted(untold))}, which nobody asked for")
    if told and story.entry is not None and story.entry.status == "scheduled":
        found.append("it was replayed, and has not ended")
    return found


def is_held_back(case: Case, story: Story) -> list[str] | None:
    """The second sending of what a target reset follows the first one."""
    sent = story.arrivals
    first = sent[:1] + [two for one, two in pairwise(sent) if two.at_ms - one.at_ms >= SLACK_MS]
    return held_back(case, "attempt", first)


def is_signed(case: Case, story: Story) -> list[str] | None:
    """Each request is signed with secrets that were good, and with the newest, if that is not of
    the last few seconds."""
    sent = [*story.arrivals, *story.reports]
    if not sent or not case.secrets:
        return None
    found = []
    for arrival in sent:
        good = [secret for secret in case.secrets if _has_signed(secret, arrival)]
        name = f"attempt {arrival.attempt}"
        if len(good) < len(arrival.signed[2].split()) or not good:
            found.append(f"{name} has a signature of no secret")
            continue
        spare_ms = _ROTATED_MS + SLACK_MS
        if woke_up(case, arrival.at_ms - SLACK_MS, arrival.at_ms):
            continue
        ends_ms = [to_ms(each.expires_at) + spare_ms for each in good if each.expires_at]
        if any(arrival.at_ms > each for each in ends_ms):
            found.append(f"{name} is signed with a secret that had ended")
        settled = [s for s in case.secrets if to_ms(s.created_at) + spare_ms < arrival.at_ms]
        newest = max(settled, key=lambda secret: to_ms(secret.created_at), default=None)
        made_ms = max(to_ms(secret.created_at) for secret in good)
        if newest is not None and made_ms < to_ms(newest.created_at):
            found.append(f"{name} is not signed with the newest secret")
    return found


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


def due_again_ms(story: Story, before: int, by: int) -> float:
    """When a retry was due that came between two attempts of these numbers; 0 without one."""
    between = [each for each in story.attempts if before <= each.attempt < by]
    return max((to_ms(each.next_attempt_at or "") for each in between), default=0)


def _again_ms(story: Story) -> float:
    return max((to_ms(each.next_attempt_at or "") for each in story.attempts), default=0)


def _is_retry(story: Story, before: Arrival, after: Arrival) -> bool:
    due_ms = due_again_ms(story, before.attempt, after.attempt)
    return 0 < due_ms <= after.at_ms


def _is_left_over(story: Story, entry: Entry) -> bool:
    """Whether it ended with an outcome that is retried, and nothing had stopped or bounded it."""
    assert story.final is not None
    unbounded = story.final.expires_at_ms is None and not story.stops
    if entry.status != "failed" or not unbounded or entry.error_message == LOST:
        return False
    told = [call for call in story.cancels if call.result == "unknown"]
    is_retried = entry.status_code in (429, 500, 503) or (
        story.final.retry_on == "any"
        if entry.status_code
        else story.final.delivery == "at-least-once"
    )
    return is_retried and not told


def _waits(case: Case, story: Story, entry: Entry, delay_ms: float) -> list[str]:
    again_ms, ended_ms = to_ms(entry.next_attempt_at or ""), to_ms(entry.executed_at or "")
    name = f"attempt {entry.attempt}"
    arrived = [each for each in story.arrivals if each.attempt == entry.attempt]
    if not arrived:
        return [f"{name} is made again, and never arrived"]
    found, wanted = [], story.wanted_by(arrived[0])
    if wanted and wanted.behaviour == "calming":
        delay_ms = max(delay_ms, CALM_MS)
    if wanted and entry.status_code != outcome_of(wanted.behaviour, entry.attempt).code:
        found.append(f"{name} is logged with {entry.status_code}, which the target did not answer")
    harmed = case.cost_a_lease(arrived[0].at_ms, ended_ms)
    spare_ms = SLACK_MS if harmed else CLOCK_MS
    if again_ms - arrived[0].at_ms < delay_ms - spare_ms:
        found.append(f"the wait after {name} is {again_ms - arrived[0].at_ms:.0f} ms")
    if again_ms - ended_ms > delay_ms * LONGEST + spare_ms:
        found.append(f"the wait after {name} is {again_ms - ended_ms:.0f} ms of {delay_ms}")
    later = [each for each in story.arrivals if each.attempt > entry.attempt]
    found += [f"the one after {name} came too early"] * any(a.at_ms < again_ms for a in later)
    return found


def _has_signed(secret: Secret, arrival: Arrival) -> bool:
    message_id, moment, signatures = arrival.signed
    key = b64decode(secret.secret.removeprefix("whsec_"))
    digest = hmac.digest(key, f"{message_id}.{moment}.{arrival.body}".encode(), hashlib.sha256)
    return f"v1,{b64encode(digest).decode()}" in signatures.split()
