"""The promises about each schedule, one function a promise. Pure.

A function gets a case and a story and returns a sentence for each breach, or None where the
promise is not about this story.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.chaos.history import Arrival, Asked, Entry, to_ms
from tests.chaos.verdict import callbacks, messages
from tests.chaos.verdict.evidence import (
    SLACK_MS,
    SLOWEST_TARGET_MS,
    Case,
    Story,
    late,
    outcome_of,
    version_of,
    woke_up,
)
from tests.chaos.verdict.repeats import (
    LOST,
    are_as_asked,
    due_again_ms,
    has_a_cause,
    is_held_back,
    is_replayed_as_asked,
    is_signed,
    is_stopped,
    may_be_resent,
    was_lost,
)

Breaches = list[str] | None
Promise = Callable[[Case, Story], Breaches]

EXPIRED = "Expired before execution"


def is_there(case: Case, story: Story) -> Breaches:
    """An acknowledged schedule is found at the end, by its id and in the log."""
    if not story.acknowledged:
        return None
    lost = [i for i in story.acknowledged if not case.account.schedules.get(i)]
    unlogged = story.acknowledged - story.stored_ids
    return [f"{i} was acknowledged, and GET does not know it" for i in lost] + [
        f"{i} was acknowledged, and is not in the log" for i in unlogged
    ]


def is_stored_once(_: Case, story: Story) -> Breaches:
    """However often a create was repeated under its key, it is one schedule."""
    ids = story.acknowledged | story.stored_ids
    return [f"it is stored as {', '.join(sorted(ids))}"] if len(ids) > 1 else []


def is_not_stored_if_refused(_: Case, story: Story) -> Breaches:
    """A create that was refused for certain stored nothing and fires nothing."""
    refused = story.asked.bad or all(call.result == "fail" for call in story.creates)
    if not refused or story.acknowledged or story.replay_of or story.occurrence:
        return None
    name = story.creates[-1].name if story.creates else "what stored it"
    found = [f"{name} was refused, and {i} is stored" for i in story.stored_ids]
    return found + ["it was refused, and arrived"] * bool(story.arrivals)


def has_ended(case: Case, story: Story) -> Breaches:
    """No due schedule stays scheduled for ever, and the others still wait."""
    final = story.final
    if story.entry is None or final is None:
        return None
    overdue_ms = case.read_at_ms - final.trigger_at_ms
    if story.entry.status == "scheduled" and overdue_ms > case.run.lease_ms + case.run.margin_ms:
        return [f"it is still scheduled {overdue_ms / 1000:.1f} s after it was due"]
    if story.entry.status in ("completed", "failed") and overdue_ms < 0:
        return [f"it {story.entry.status} though it is not due yet"]
    return []


def ended_as_it_went(case: Case, story: Story) -> Breaches:
    """How it ended is what the target did, or one of the two ways of ending unsent."""
    entry, final = story.entry, story.final
    if entry is None or final is None or entry.status not in ("completed", "failed"):
        return None
    if entry.error_message == LOST:
        if final.delivery == "at-most-once":
            return []
        if final.expires_at_ms is None:
            return ["it was given up, though it is at-least-once"]
        return _expired_wrongly(entry, final)
    if entry.error_message == EXPIRED:
        sent = ["it ended as unsent, and had arrived"] * bool(story.arrivals)
        return sent + _expired_wrongly(entry, final)
    if not story.arrivals:
        return [f"it ended as {_told(entry)} and never arrived"]
    if entry.error_message.startswith("Timeout after"):
        silent = final.behaviour == "never" or _frozen_meanwhile(case, story.arrivals[0], entry)
        if final.timeout_s and f" after {final.timeout_s} second" not in entry.error_message:
            return [f"it ended as {_told(entry)}, and its timeout is {final.timeout_s} s"]
        return [] if silent else [f"it ended as {_told(entry)}, but the target answers"]
    status, code, messages = outcome_of(final.behaviour, entry.attempt)
    as_expected = (entry.status, entry.status_code) == (status, code)
    if as_expected and entry.error_message in messages:
        return []
    return [f"it ended as {_told(entry)}, but the target's answer is {final.behaviour!r}"]


def is_not_early(_: Case, story: Story) -> Breaches:
    """Nothing arrives before its triggerAt, by the target's clock."""
    if not story.arrivals:
        return None
    found = []
    for arrival in story.arrivals:
        wanted = story.wanted_by(arrival)
        due_ms = wanted.trigger_at_ms if wanted else to_ms(arrival.trigger_at)
        if arrival.at_ms < due_ms:
            found.append(f"it arrived {due_ms - arrival.at_ms:.3f} ms early")
        if to_ms(arrival.trigger_at) != due_ms:
            found.append(f"it arrived with the triggerAt {arrival.trigger_at}, not its own")
    return found


def arrives_at_most_once(_: Case, story: Story) -> Breaches:
    """at-most-once never arrives twice, except for a retry after an answer."""
    if story.asked.delivery != "at-most-once":
        return None
    times, answered = len(story.arrivals), [e for e in story.attempts if e.status_code]
    over = times > 1 + len(answered)
    return [f"it is at-most-once and arrived {times} times"] if over else []


def repeats_count_up(case: Case, story: Story) -> Breaches:
    """Each repeat carries the next attempt. A worker that was frozen between its last look and its
    first byte sends a stale one afterwards: no lease can prevent that, and the number tells it.
    A number comes again that a worker used for a re-send, and was lost before it could report."""
    if len(story.arrivals) < 2:
        return None
    found = []
    for index, arrival in enumerate(story.arrivals[1:], 1):
        before = story.arrivals[:index]
        same = [n for n, each in enumerate(before) if each.attempt == arrival.attempt]
        if same and not _was_unreported(case, story, same, arrival.at_ms):
            found.append(f"attempt {arrival.attempt} arrived twice")
        newer = [each for each in before if each.attempt > arrival.attempt]
        if newer and not woke_up(case, newer[0].at_ms, arrival.at_ms):
            found.append(f"attempt {arrival.attempt} arrived after attempt {newer[0].attempt}")
    return found


def stays_cancelled(_: Case, story: Story) -> Breaches:
    """Once a cancellation was acknowledged, the schedule never fires. A repeat is acknowledged
    alike; that it refunds nothing is the ledger's promise."""
    told, maybe = story.cancelled("ok"), story.cancelled("unknown")
    status = story.entry.status if story.entry else None
    if not story.cancels and status != "cancelled":
        return None
    found = []
    if told and status is not None and status != "cancelled":
        found.append(f"{told[0].name} said that it is cancelled, and it is {status}")
    if status == "cancelled" and not told and not maybe:
        found.append("it is cancelled, and nobody's cancel was done")
    if (told or status == "cancelled") and story.arrivals:
        found.append("it is cancelled, and arrived")
    return found


def changes_hold(_: Case, story: Story) -> Breaches:
    """It is as the last acknowledged change made it, or as one of unknown outcome made it;
    and what arrives is that as well."""
    if story.entry is None:
        return None
    told = [call.invoked.asked[0].version for call in story.changes if call.result == "ok"]
    maybe = {call.invoked.asked[0].version for call in story.changes if call.result == "unknown"}
    allowed = {told[-1] if told else story.asked.version} | maybe
    found = []
    final = story.final
    if final is None or final.version not in allowed:
        found.append(f"it is stored as {story.entry.target_url}, not in version {_or(allowed)}")
    elif to_ms(story.entry.scheduled_at) != final.trigger_at_ms:
        found.append(f"version {final.version} is stored with the time of another one")
    versions = {version_of(arrival.path) for arrival in story.arrivals}
    if final is not None and versions - {final.version}:
        found.append(f"version {_or(versions - {final.version})} arrived, not {final.version}")
    return found


def is_logged_as_it_stands(_: Case, story: Story) -> Breaches:
    """One log entry for each schedule, and it says what GET says."""
    if not story.entries:
        return None
    if len(story.entries) > 1:
        told = ", ".join(_told(entry) for entry in story.entries)
        return [f"it has {len(story.entries)} log entries: {told}"]
    [entry] = story.entries
    if story.body is None:
        return [f"the log has it as {entry.status}, and GET does not know it"]
    pairs: list[tuple[str, str | None]] = [("status", entry.status)]
    pairs += [("targetUrl", entry.target_url)]
    pairs += [("triggerAt", entry.scheduled_at), ("executedAt", entry.executed_at)]
    if story.final:
        pairs += [("reference", story.final.reference), ("lane", story.final.lane)]
    if entry.status in ("completed", "failed"):
        pairs += [("errorMessage", entry.error_message)]
    found = [
        f"its {name} is {story.body.get(name)!r} by GET and {value!r} by the log"
        for name, value in pairs
        if story.body.get(name) != value
    ]
    labels = story.final.labels if story.final else entry.labels
    told = [tuple(story.body.get("labels", ()))]
    told += [each.labels for each in (entry, *story.attempts)]
    return found + [f"it has the labels {each}, not {labels}" for each in told if each != labels]


def is_fired_in_time(case: Case, story: Story) -> Breaches:
    """First fired when it is due, or a lease and a margin after the last fault since then. In a
    lane it has to wait for others."""
    if not story.arrivals or story.entry is None or story.lane is not None:
        return None
    changes = [*story.changes, *(story.creates if story.asked.on_existing else ())]
    late_changes = [c for c in changes if c.result == "unknown"]
    if late_changes or story.final is None:
        return None
    done = [c.answered.wall_ms for c in changes if c.answered and c.result == "ok"]
    created_ms = to_ms(story.entry.created_at)
    since_ms = max(story.final.trigger_at_ms, created_ms, *done)
    return late(case, "first arrived", story.arrivals[0].at_ms, since_ms)


def is_fired_again_in_time(case: Case, story: Story) -> Breaches:
    """A request whose worker was lost is sent again within a lease and a margin."""
    if len(story.arrivals) < 2 or story.lane is not None:
        return None
    found: list[str] = []
    for before, after in zip(story.arrivals, story.arrivals[1:], strict=False):
        since_ms = before.at_ms + _answers_after_ms(case, story)
        since_ms = max(since_ms, due_again_ms(story, before.attempt, after.attempt))
        found += late(case, f"attempt {after.attempt} arrived", after.at_ms, since_ms)
    return found


def ends_in_time(case: Case, story: Story) -> Breaches:
    """Its outcome is recorded within a lease and a margin after it last arrived."""
    entry = story.entry
    if not story.arrivals or entry is None or entry.executed_at is None:
        return None
    since_ms = story.arrivals[-1].at_ms + _answers_after_ms(case, story)
    stopped = [call.answered.wall_ms for call in story.stops if call.answered]
    since_ms = max(since_ms, due_again_ms(story, 0, entry.attempt + 1), *stopped)
    return late(case, "it ended", to_ms(entry.executed_at), since_ms)


def never_fires_expired(case: Case, story: Story) -> Breaches:
    """Nothing is sent after its expiresAt."""
    final = story.final
    if final is None or final.expires_at_ms is None:
        return None
    latest_ms = final.expires_at_ms + SLACK_MS
    return [
        f"it arrived {arrival.at_ms - final.expires_at_ms:.0f} ms after it expired"
        for arrival in story.arrivals
        if arrival.at_ms > latest_ms and not woke_up(case, final.expires_at_ms, arrival.at_ms)
    ]


PROMISES: tuple[tuple[str, Promise], ...] = (
    ("acknowledged: it is there", is_there),
    ("a repeated create is one schedule", is_stored_once),
    ("refused: nothing stored", is_not_stored_if_refused),
    ("due: it ends", has_ended),
    ("it ends as the target answered", ended_as_it_went),
    ("never early", is_not_early),
    ("at-most-once: once", arrives_at_most_once),
    ("at-least-once: attempts rise", repeats_count_up),
    ("sent again: a worker had lost it", has_a_cause),
    ("given up: a worker had lost it", was_lost),
    ("retried: as asked, and no sooner", are_as_asked),
    ("stopped: no attempt follows", is_stopped),
    ("replayed: in bulk once", is_replayed_as_asked),
    ("on hold: nothing goes out", is_held_back),
    ("signed with what is good", is_signed),
    ("a message: sent as receivers know it", messages.is_sent_so),
    ("cancelled: never fires", stays_cancelled),
    ("changed: as told", changes_hold),
    ("expired: not sent", never_fires_expired),
    ("one log entry, as GET tells", is_logged_as_it_stands),
    ("fired in time", is_fired_in_time),
    ("fired again in time", is_fired_again_in_time),
    ("ended in time", ends_in_time),
    ("called back: as it ended", callbacks.is_called_back),
    ("called back: none that wants none", callbacks.is_not_called_back),
    ("called back again: lost or refused", callbacks.has_a_cause),
    ("called back: set with the end", callbacks.is_set_with_the_end),
    ("called back in time", callbacks.is_in_time),
    ("called back again in time", callbacks.is_again_in_time),
    ("on hold: no callback goes out", callbacks.is_held_back),
)


def _expired_wrongly(entry: Entry, final: Asked) -> list[str]:
    if final.expires_at_ms is None:
        return ["it ended as expired and has no expiresAt"]
    if entry.executed_at and to_ms(entry.executed_at) < final.expires_at_ms:
        return ["it ended as expired before its expiresAt"]
    return []


def _answers_after_ms(case: Case, story: Story) -> float:
    behaviour = story.final.behaviour if story.final else ""
    limit_s = story.final.timeout_s if story.final else None
    never_ms = 1000 * limit_s if limit_s else case.run.fire_timeout_ms
    times_ms = {"slow": SLOWEST_TARGET_MS, "long": SLOWEST_TARGET_MS, "never": never_ms}
    return times_ms.get(behaviour, 0)


def _frozen_meanwhile(case: Case, arrival: Arrival, entry: Entry) -> bool:
    """Whether some worker was frozen while the answer came, or when it should have."""
    ended_ms = to_ms(entry.executed_at or entry.scheduled_at)
    return any(
        freeze.began_ms <= ended_ms and freeze.healed_ms >= arrival.at_ms
        for freeze in case.frozen_workers
    )


def _was_unreported(case: Case, story: Story, same: list[int], at_ms: float) -> bool:
    """Whether the only arrival of this number before was a re-send of a worker that was lost."""
    [first, *more] = same
    before = story.arrivals[first - 1 : first + 1]
    if more or first == 0 or not may_be_resent(story, *before):
        return False
    return case.cost_a_lease(before[1].at_ms, at_ms, story.lane)


def _told(entry: Entry) -> str:
    return f"{entry.status} {entry.status_code} {entry.error_message!r}"


def _or(versions: Iterable[int | None]) -> str:
    return " or ".join(sorted(map(str, versions)))
