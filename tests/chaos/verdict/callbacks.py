"""What must hold of callbacks: each end that wants one is reported as it was, and no other. Pure.

A target's first answer may refuse it; the second one does not, so that at most one retry is due,
but from a target that refuses for good. A report that arrives again needs the same causes as a
request, or a call that sends it again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tests.chaos.history import NO_CALLBACK, REPORTS, Arrival, Entry, answer_to, to_ms
from tests.chaos.verdict import messages
from tests.chaos.verdict.evidence import (
    CLOCK_MS,
    LONGEST,
    SLACK_MS,
    SLOWEST_TARGET_MS,
    Call,
    Case,
    Story,
    held_back,
    late,
)

# How a target answers the first attempt that has this in its path (0: not at all).
REFUSED_AT_FIRST = {status: int(status) for status in ("408", "409", "425", "429", "500", "503")}
REFUSED_AT_FIRST["cut"] = 0
# A target that refuses each attempt, with a status that is not tried again.
REFUSED = "404"
# Those that name a Retry-After. It is longer than any other delay, and than any lane is calm.
ASKING, ASKED_S = ("429", "503"), 13
_DELAY_MS = 10_000
# What does not delay a callback: it is in no account's pause.
_DESPITE = ("fill", "pause")


def is_called_back(case: Case, story: Story) -> list[str] | None:
    """What wants a callback has it delivered when all has settled: accepted by its target at least
    once, saying what the log says, under one webhook-id. One that was refused for good has failed.
    """
    entry = story.entry
    if entry is None or not _is_wanted(case, story):
        return None
    told = (story.body or {}).get("callback") or {}
    ends = {_end_by(arrival) for arrival in story.reports} - {None}
    found = [] if told.get("status") in ends else [f"its callback is {told or 'none'}"]
    if not ends:
        found.append(f"no callback was accepted, of {len(story.reports)} that arrived")
    for call in story.resent:
        since_ms = call.invoked.wall_ms
        arrived = any(_end_by(each) and each.at_ms >= since_ms for each in story.reports)
        if call.result == "ok" and not arrived:
            found.append(f"{call.name} sent it again, and none was accepted since then")
    for arrival in story.reports:
        if arrival.signed[0] != f"cbk_{entry.schedule_id[4:]}":
            found.append(f"a callback has the webhook-id {arrival.signed[0]}")
        if arrival.at_ms < to_ms(entry.executed_at or entry.scheduled_at):
            found.append("a callback arrived before the end")
        judged = messages.said_wrongly if story.asked.is_told_as_message else _said_wrongly
        found += judged(entry, story, msgspec.json.decode(arrival.body))
        found += _went_astray(entry, story, arrival)
    return found


def is_not_called_back(case: Case, story: Story) -> list[str] | None:
    """What was cancelled, waits, or wants no callback of such an end has none."""
    if story.entry is None or _is_wanted(case, story) is not False:
        return None
    found = [f"a callback arrived, and it is {story.entry.status}"] * bool(story.reports)
    state = (story.body or {}).get("callback")
    return found + ([f"its callback is {state}, and it wants none"] if state else [])


def has_a_cause(case: Case, story: Story) -> list[str] | None:
    """A callback arrives again only as a retry, once by each call that sends it again, or if a
    fault cost its worker the lease."""
    if not story.reports:
        return None
    found, calls = [], sorted(story.resent, key=lambda call: call.invoked.wall_ms)
    if not _was_wished(case, story):  # the first of them sent the first one
        calls = calls[1:]
    for before, after in pairwise(story.reports):
        if _is_retry(case, story, before, after) or case.cost_a_lease(before.at_ms, after.at_ms):
            continue
        if after.attempt == 1 and calls and calls[0].invoked.wall_ms <= after.at_ms:
            calls.pop(0)
            continue
        found.append(
            f"callback {after.attempt} arrived {after.at_ms - before.at_ms:.0f} ms after callback"
            f" {before.attempt}, and no worker had lost it"
        )
    return found


def is_set_with_the_end(case: Case, story: Story) -> list[str] | None:
    """Whoever sees the end sees its callback, which is due from then on: one step sets both. So
    each read tells, however fast the machine is."""
    entry, wished = story.entry, _was_wished(case, story)
    reads = [each for each in story.reads if _saw_end(each, entry)]
    if not wished or not reads:
        return None
    found = []
    for call in reads:
        state = call.answered.seen.callback if call.answered and call.answered.seen else None
        if state is None:
            found.append(f"{call.name} saw its end, and no callback")
        elif state["status"] == "pending" and not (state["attempts"] or story.resent):
            due = state["nextAttemptAt"]
            wrong = entry is not None and due != entry.executed_at
            found += [f"{call.name} saw its callback due at {due}, not at its end"] * wrong
    return found


def is_in_time(case: Case, story: Story) -> list[str] | None:
    """It first arrives within a lease and a margin of the end, or of the last fault since then."""
    entry = story.entry
    if not story.reports or entry is None or entry.executed_at is None:
        return None
    since_ms = to_ms(entry.executed_at)
    if story.resent and not _was_wished(case, story):  # the first of them, or a later one, sent it
        since_ms = max(call.invoked.wall_ms for call in story.resent)
    at_ms = story.reports[0].at_ms
    return late(case, "its callback first arrived", at_ms, since_ms, despite=_DESPITE)


def is_again_in_time(case: Case, story: Story) -> list[str] | None:
    """After a refusal it arrives within a lease and a margin of the end of its delay, and after the
    loss of its worker within as much of that."""
    pairs = [(one, next_) for one, next_ in pairwise(story.reports) if one.attempt < next_.attempt]
    found = []
    for before, after in pairs:
        since_ms = before.at_ms + SLOWEST_TARGET_MS
        if _end_by(before) is None:
            since_ms = _recorded_ms(case, before) + _delay_ms(story, before) * LONGEST
        calls_ms = [call.invoked.wall_ms for call in story.resent]
        since_ms = max([since_ms, *(each for each in calls_ms if each <= after.at_ms)])
        name = f"callback {after.attempt} arrived"
        found += late(case, name, after.at_ms, since_ms, despite=_DESPITE)
    return found if pairs else None


def is_held_back(case: Case, story: Story) -> list[str] | None:
    return held_back(case, "callback", story.reports)


def _is_wanted(case: Case, story: Story) -> bool | None:
    """None if that is not known. What was sent again is wanted, whatever was wished before; so is
    the callback of its replays then, perhaps."""
    before = story.replay_of
    while before is not None and not before.resent:
        before = before.replay_of
    wished = _was_wished(case, story)
    if any(call.result == "ok" for call in story.resends):
        return True
    return wished if wished or not (story.resent or before) else None


def _was_wished(case: Case, story: Story) -> bool | None:
    entry, final = story.entry, story.final
    if entry is None or final is None:
        return None
    if entry.status not in ("completed", "failed"):
        return False
    if entry.status == "failed" and final.failure_callback:
        return True
    if final.callback == NO_CALLBACK:
        return False
    if final.callback is None:
        return case.name in case.run.calling_back
    return entry.status == "failed" or final.callback_on == "executed"


def _is_of_answer(name: str) -> bool:
    return name.startswith("response") and name != "responseTimeMs"


def _answered_wrongly(entry: Entry, story: Story, told: dict[str, Any]) -> list[str]:
    """The report has the whole answer to the last attempt, if it is to have it and one came. That
    was kept no longer if it had been delivered, or if the schedule ended between two attempts."""
    final = story.final or story.asked
    if not (final.asks and entry.status_code):
        return [f"its callback tells of an answer: {told}"] if told else []
    ended_between = story.cancels or final.expires_at_ms is not None
    if told == {"responseDropped": True} and (story.resent or ended_between):
        return []
    expected = answer_to(final.path, entry.attempt)
    whole = told.get("responseBody") == expected and told.get("responseCut") is False
    whole = whole and "responseDropped" not in told
    length = told.get("responseHeaders", {}).get("content-length")
    if whole and length == [str(len(expected))]:
        return []
    return [f"its callback says that the target answered {told}, and not {expected!r}"]


def _went_astray(entry: Entry, story: Story, arrival: Arrival) -> list[str]:
    """A report goes to the URL for such an end, unless a call sent it or one before to another."""
    of: Story | None = story
    while of is not None:
        if of.resent:
            return []
        of = of.replay_of
    final = story.final or story.asked
    expected = final.callback_path if final.callback else f"{REPORTS}ok"
    if entry.status == "failed" and final.failure_callback:
        expected = final.failure_path
    return [] if arrival.path == expected else [f"its callback went to {arrival.path}"]


def _saw_end(call: Call, entry: Entry | None) -> bool:
    """Whether a read saw this end of it."""
    seen = call.answered.seen if call.answered else None
    ended_at = entry.executed_at if entry else None
    return seen is not None and ended_at is not None and seen.executed_at == ended_at


def _behaviour(arrival: Arrival) -> str:
    return urlsplit(arrival.path).path.removeprefix(REPORTS)


def _end_by(arrival: Arrival) -> str | None:
    """How a callback stands after it; None: it is tried again."""
    if _behaviour(arrival) == REFUSED:
        return "failed"
    is_refused = arrival.attempt == 1 and _behaviour(arrival) in REFUSED_AT_FIRST
    return None if is_refused else "delivered"


def _delay_ms(story: Story, refused: Arrival) -> float:
    """The shortest one after it. A message's are those of its own retries."""
    if _behaviour(refused) in ASKING:
        return ASKED_S * 1000
    return _own_ms(story)


def _own_ms(story: Story) -> float:
    wanted = story.final or story.asked
    return wanted.delays_ms[0] if wanted.is_told_as_message and wanted.delays_ms else _DELAY_MS


def _recorded_ms(case: Case, refused: Arrival) -> float:
    """By when that was recorded: at once, if no fault was near."""
    at_ms, latest_ms = refused.at_ms, case.deadline_ms(refused.at_ms, despite=_DESPITE)
    undisturbed = latest_ms == at_ms + case.run.lease_ms + case.run.margin_ms
    return at_ms + SLACK_MS if undisturbed else latest_ms


def _is_retry(case: Case, story: Story, before: Arrival, after: Arrival) -> bool:
    """Of a refusal; of an answer that its worker, frozen meanwhile, took for none; or at once, of a
    kept connection that was cut."""
    if after.attempt != before.attempt + 1:
        return False
    wait_ms = after.at_ms - before.at_ms
    if _behaviour(before) == "cut" and wait_ms <= SLACK_MS:
        return True
    until_ms = before.at_ms + case.run.fire_timeout_ms
    frozen = any(
        o.began_ms <= until_ms and o.healed_ms >= before.at_ms for o in case.frozen_workers
    )
    if frozen:
        return wait_ms >= _own_ms(story) - CLOCK_MS
    return _end_by(before) is None and wait_ms >= _delay_ms(story, before) - CLOCK_MS


def _said_wrongly(entry: Entry, story: Story, report: dict[str, Any]) -> list[str]:
    final = story.final or story.asked
    named = {"lane": final.lane, "reference": final.reference, "labels": [*final.labels] or None}
    named["recurringId"] = entry.recurring_id
    expected = {
        "scheduleId": entry.schedule_id,
        "invocationId": f"inv_{entry.schedule_id[4:]}",
        **{name: value for name, value in named.items() if value is not None},
        "targetUrl": entry.target_url,
        "triggerAt": entry.scheduled_at,
        "executedAt": entry.executed_at,
        "status": entry.status,
        "statusCode": entry.status_code,
        "responseTimeMs": entry.response_time_ms,
        "errorMessage": entry.error_message,
        "attempts": entry.attempt,
    }
    told = {name: value for name, value in report.get("data", {}).items() if name != "targetMethod"}
    answer = {name: told.pop(name) for name in [*told] if _is_of_answer(name)}
    found = _answered_wrongly(entry, story, answer)
    found += [] if told == expected else [f"its callback says {told}, and the log {expected}"]
    if (report.get("type"), report.get("timestamp")) != (
        f"schedule.{entry.status}",
        entry.executed_at,
    ):
        found.append(f"its callback is a {report.get('type')} of {report.get('timestamp')}")
    return found
