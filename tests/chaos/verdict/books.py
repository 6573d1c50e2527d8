"""What must hold of an account as a whole: its answers, its ledger, its log and its sums. Pure.

Each function returns how much it looked at and a sentence for each breach.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from tests.chaos.verdict import lanes, recurring
from tests.chaos.verdict.evidence import Call, Case
from tests.chaos.verdict.shared import SEVERAL_WAIT, Looked, shared

Book = Callable[[Case], Looked]

# Allowed answers of each call: done, too late, or 503. A read or a change
# of an acknowledged schedule that gets a 404 means a loss, and no promise allows a 500.
_MAY_BE_TOLD = {
    "create": {201, 503},
    "batch": {200, 503},
    "change": {200, 409, 503},
    "cancel": {200, 409, 503},
    "cancel many": {200, 503},
    "replay": {201, 409, 503},
    "replay many": {200, 503},
    "rotate": {201, 409, 503},
    "signing": {200, 503},
    "lane": {200, 503},
    "rule": {201, 503},
    "rule change": {200, 503},
    "rule pause": {200, 503},
    "rule resume": {200, 503},
    "rule trigger": {201, 503},
    "rule delete": {200, 404, 503},
    "rule read": {200, 503},
    "occurrence change": {200, 409, 503},
    "read": {200, 503},
    # Without a URL, too: a 400.
    "resend": {202, 400, 409, 503},
}
# What has ended cannot be cancelled there, and a second time nothing is deleted.
_BY_DOOR = {"cancel": {200, 404, 503}, "rule delete": {200, 404, 503}}
# Averages are sums of whole milliseconds, divided: they differ by rounding alone.
_ROUNDING_MS = 0.01


def answers(case: Case) -> Looked:
    """The API says what it may say; of the fives only 503."""
    told = [call for call in case.calls if call.status]
    return Looked(
        len(told),
        [
            f"{call.name}: {call.answered.error if call.answered else ''}"
            for call in told
            if call.status not in _may_be_told(call) | _besides(call)
        ]
        + [
            f"{call.name}: {code} for {each}"
            for call in told
            for each, code in (call.answered.became if call.answered else {}).items()
            if isinstance(code, int) and code != 409
        ],
    )


def batches(case: Case) -> Looked:
    """A batch is stored as a whole or not at all; only its bad items are refused."""
    calls = [call for call in case.calls if call.invoked.call == "batch"]
    breaches = []
    for call in calls:
        # With a deduplication id an item is a call of its own.
        good = [a for a in call.invoked.asked if not (a.bad or a.on_existing or a.once)]
        stored = [asked for asked in good if case.stories[asked.tag].stored_ids]
        if 0 < len(stored) < len(good):
            breaches.append(f"{call.name} is stored in part, {len(stored)} of {len(good)}")
        breaches += _answered_wrongly(call)
    return Looked(len(calls), breaches)


def keys(case: Case) -> Looked:
    """Under one Idempotency-Key all answers name the same schedules, and one of them at most is
    not a replay. What stored nothing is not remembered, and may be judged again."""
    by_key: defaultdict[str, list[Call]] = defaultdict(list)
    for call in case.calls:
        stored = any(isinstance(given, str) for given in call.ids)
        if call.invoked.key and call.result == "ok" and stored:
            by_key[call.invoked.key].append(call)
    breaches = []
    for key, calls in by_key.items():
        if len({tuple(call.ids) for call in calls}) > 1:
            breaches.append(f"key {key} was answered with different schedules")
        if sum(1 for call in calls if call.answered and not call.answered.replayed) > 1:
            breaches.append(f"key {key} was done twice")
    return Looked(len(by_key), breaches)


def ledger(case: Case) -> Looked:
    """granted = remaining + spent, and spent counts stored schedules that were not cancelled."""
    spent = len({e.schedule_id for e in case.account.log if e.status != "cancelled"})
    granted, credits = case.run.granted, case.account.credits
    if granted == credits + spent:
        return Looked(1, [])
    return Looked(1, [f"granted {granted}, {credits} left, but {spent} are stored"])


def statistics(case: Case) -> Looked:
    """The sums are those of the log."""
    executed = [e for e in case.account.log if e.status in ("completed", "failed")]
    completed = sum(1 for entry in executed if entry.status == "completed")
    total_ms = sum(entry.response_time_ms for entry in executed)
    wanted = {
        "totalInvocations": len(executed),
        "successfulInvocations": completed,
        "failedInvocations": len(executed) - completed,
    }
    told = case.account.stats
    breaches = [
        f"{name} is {told.get(name)}, but {value} by the log"
        for name, value in wanted.items()
        if told.get(name) != value
    ]
    average_ms = total_ms / len(executed) if executed else 0.0
    if abs(told.get("averageResponseTime", -1) - average_ms) > _ROUNDING_MS:
        breaches.append(
            f"averageResponseTime is {told.get('averageResponseTime')}, {average_ms} by the log"
        )
    return Looked(len(executed), breaches)


def lists(case: Case) -> Looked:
    """GET /schedule lists what the log has as scheduled, each once, and nothing else."""
    logged = {e.schedule_id for e in case.account.log if e.status == "scheduled"}
    listed = case.account.waiting
    breaches = [f"{i} waits by the log, and is not listed" for i in sorted(logged - set(listed))]
    breaches += [f"{i} is listed, and does not wait" for i in sorted(set(listed) - logged)]
    breaches += [f"{i} is listed twice" for i in sorted({i for i in listed if listed.count(i) > 1})]
    return Looked(len(listed), breaches)


def strangers(case: Case) -> Looked:
    """Every log entry and every arrival belongs to a create."""
    return Looked(len(case.account.log), list(case.strangers))


BOOKS: tuple[tuple[str, Book], ...] = (
    ("answers: 503 is the only five", answers),
    ("a batch is whole", batches),
    ("an Idempotency-Key is done once", keys),
    ("the ledger balances", ledger),
    ("statistics agree with the log", statistics),
    ("the list agrees with the log", lists),
    ("a lane's rate: no second has more", lanes.rates),
    ("a lane's parallelism: no more at once", lanes.parallel),
    ("paused: nothing starts", lanes.pauses),
    ("calm: nothing starts in the lane", lanes.calms),
    ("a lane's order: by due time", lanes.order),
    ("onExisting: one waits, the last stands", shared),
    *recurring.BOOKS,
    ("nothing that nobody asked for", strangers),
)


def _answered_wrongly(call: Call) -> list[str]:
    if call.result != "ok":
        return []
    if len(call.ids) != len(call.invoked.asked):
        return [f"{call.name} has {len(call.ids)} answers for {len(call.invoked.asked)}"]
    return [
        f"{call.name} answered {given} for {asked.tag}"
        for asked, given in zip(call.invoked.asked, call.ids, strict=True)
        if isinstance(given, str) == asked.bad or (asked.bad and given != 400)
        if not (asked.on_existing and given == SEVERAL_WAIT)
    ]


def _may_be_told(call: Call) -> set[int]:
    kind = call.invoked.call
    return _BY_DOOR.get(kind, {200, 503}) if call.invoked.door else _MAY_BE_TOLD[kind]


def _besides(call: Call) -> set[int]:
    """What a create may be told besides because it has onExisting, and a pause that came too late
    for its end."""
    limits, answered = call.invoked.limits, call.answered
    if limits is not None and limits.paused_until_ms is not None and answered is not None:
        return {400} if answered.wall_ms >= limits.paused_until_ms else set()
    shares = call.invoked.call == "create" and call.invoked.asked[0].on_existing
    return {200, SEVERAL_WAIT} if shares else set()
