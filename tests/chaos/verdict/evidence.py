"""Calls, answers and arrivals of each schedule, and the faults meanwhile. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Container
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec

from tests.chaos.history import (
    Account,
    Answered,
    Arrival,
    Asked,
    Entry,
    Invoked,
    Result,
    Run,
    Secret,
    Skipped,
    to_ms,
)

# From a worker's last look to the first byte at the target, on a busy machine.
SLACK_MS = 2000
# How far behind the store's clock a worker's idea of it may be, where nothing is slow.
CLOCK_MS = 100
# Requests claimed before a hold, a pause or a call still go out for so long after it.
CLAIMED_MS = 1000
# So far behind the store's clock an API's idea of it may be while all its replies are slow.
_SLOWEST_LINE_MS = 500
# A delay is lengthened by a fifth at most.
LONGEST = 1.2
# Actions of an operator, and a store without room, which may cost accounts time only.
HARMLESS = frozenset({"stop", "hold", "on hold", "pause", "fill"})
SLOWEST_TARGET_MS = 2500
# A long one takes so much less at most.
_SPREAD_MS = 500
# A flaky target has failed so often before it answers.
FLAKY_ATTEMPTS = 2
# The first answer of a calming target asks for so long: while claimed ones may still come, and a
# second more.
CALM_MS = 2000


class Outcome(NamedTuple):
    """How the request ends, and the messages that may say so."""

    status: str
    code: int
    messages: frozenset[str]


_OUTCOMES = {
    "ok": Outcome("completed", 200, frozenset({""})),
    "slow": Outcome("completed", 200, frozenset({""})),
    "long": Outcome("completed", 200, frozenset({""})),
    "fail": Outcome("failed", 500, frozenset({"Internal Server Error"})),
    "calming": Outcome("failed", 429, frozenset({"Too Many Requests"})),
    "missing": Outcome("failed", 404, frozenset({"Not Found"})),
    "busy": Outcome("failed", 503, frozenset({"Service Unavailable"})),
    "reset": Outcome(
        "failed", 0, frozenset({"Connection reset", "Connection closed before an answer"})
    ),
    "never": Outcome("failed", 0, frozenset()),
}


class Call(msgspec.Struct, frozen=True):
    """A call from its beginning to its end. One without an end is unknown."""

    invoked: Invoked
    answered: Answered | None = None
    became: str = ""
    """Of a cancel: which status the schedule has by it."""

    @property
    def result(self) -> Result:
        return self.answered.result if self.answered else "unknown"

    @property
    def status(self) -> int:
        return self.answered.status if self.answered else 0

    @property
    def ids(self) -> list[str | int]:
        return self.answered.ids if self.answered else []

    @property
    def name(self) -> str:
        """How a report calls it."""
        told = f"{self.invoked.call} {self.invoked.op} of {self.invoked.client}"
        return f"{told} ({self.result}, {self.status})"


class Outage(msgspec.Struct, frozen=True):
    """A fault from its beginning to its end, both wall milliseconds; `healed_ms` is infinite if
    nothing tells of its end."""

    what: str
    target: str
    began_ms: float
    healed_ms: float

    @property
    def costs_leases(self) -> bool:
        """Whether a worker may die of it, or fail to prolong or record what it holds."""
        if self.what in HARMLESS:
            return False
        return not self.target.removeprefix("line of ").startswith("api")

    @property
    def kills_worker(self) -> bool:
        return self.what in ("kill", "kill workers") and self.target.startswith("worker")


class Story(msgspec.Struct):
    """All that is known of one schedule that a client wanted. One that is the replay of another
    has its story in `replay_of`; `replays` are the calls that asked for replays of this one, each
    with the new id if it was told, and `replayed` the stories of these. `attempts` are what the log
    has as retrying, and `reports` the callbacks that arrived. An occurrence of a rule has the
    id `occurrence_id`, and is wanted as `occurrence` says."""

    tag: str
    replay_of: Story | None = None
    occurrence: Asked | None = None
    occurrence_id: str = ""
    replays: list[tuple[Call, str | None]] = []
    replayed: dict[str, Story] = {}
    attempts: list[Entry] = []
    creates: list[Call] = []
    changes: list[Call] = []
    cancels: list[Call] = []
    reads: list[Call] = []
    resends: list[Call] = []
    acknowledged: set[str] = set()
    entries: list[Entry] = []
    arrivals: list[Arrival] = []
    reports: list[Arrival] = []
    body: dict[str, Any] | None = None

    @property
    def asked(self) -> Asked:
        """As it was first wanted. A replay is wanted as the other one stood, and now."""
        if self.occurrence is not None:
            return self.occurrence
        if self.replay_of is not None:
            return _wanted_again(self.replay_of.final or self.replay_of.asked, self.entry)
        asked = next(a for a in self.creates[0].invoked.asked if a.tag == self.tag)
        done = [c.answered.wall_ms for c in self.creates if c.answered and c.result == "ok"]
        done_ms = min(done, default=float("inf"))
        if asked.message:
            return _counted(asked, self.entry, done_ms)
        return _bounded(asked, self.entry, done_ms)

    @property
    def stored_ids(self) -> set[str]:
        """Under which ids it is found at the end: one, or none."""
        return {entry.schedule_id for entry in self.entries}

    @property
    def entry(self) -> Entry | None:
        """Its only log entry, if it has just one."""
        return self.entries[0] if len(self.entries) == 1 else None

    @property
    def final(self) -> Asked | None:
        """The version of it that the log has."""
        version = version_of(self.entry.target_url) if self.entry else None
        return None if version is None else self.at(version)

    @property
    def lane(self) -> str | None:
        """The one that it has at the end, or was first wanted in."""
        return (self.final or self.asked).lane

    def at(self, version: int) -> Asked | None:
        """What this version wanted; None if no client ever wanted that."""
        wanted = [self.asked, *(call.invoked.asked[0] for call in self.changes)]
        return next((asked for asked in wanted if asked.version == version), None)

    def wanted_by(self, arrival: Arrival) -> Asked | None:
        """The version that arrived."""
        version = version_of(arrival.path)
        return None if version is None else self.at(version)

    def cancelled(self, result: Result) -> list[Call]:
        """Those that gave the credit back, or may have."""
        return [c for c in self.cancels if c.result == result and not self._is_stopped_by(c)]

    @property
    def resent(self) -> list[Call]:
        """Those that sent its callback again, or may have."""
        return [call for call in self.resends if call.result != "fail"]

    @property
    def stops(self) -> list[Call]:
        """Cancellations between two attempts."""
        return [c for c in self.cancels if c.result == "ok" and self._is_stopped_by(c)]

    def _is_stopped_by(self, cancel: Call) -> bool:
        """The QStash door does not tell whether an attempt had been made."""
        return cancel.became == "failed" or (cancel.invoked.door and bool(self.attempts))


class Rule(msgspec.Struct):
    """A recurring schedule: the calls about it in their order, and what became of it. `body` is
    None once it was deleted; `occurrences` are the log's, with their slots, None for those that a
    trigger made."""

    tag: str
    calls: list[Call]
    body: dict[str, Any] | None = None
    occurrences: list[tuple[Entry, float | None]] = []
    skipped: list[Skipped] = []


class Case(msgspec.Struct):
    """One account's part of a run."""

    run: Run
    name: str
    calls: list[Call]
    outages: list[Outage]
    account: Account
    stories: dict[str, Story]
    strangers: list[str]
    read_at_ms: float
    secrets: list[Secret] = []
    rules: list[Rule] = []
    keys: dict[str, float] = {}
    """Those of its QStash door, the oldest first, and by when another one surely was current."""

    @property
    def frozen_workers(self) -> list[Outage]:
        return [o for o in self.outages if o.what == "freeze" and o.target.startswith("worker")]

    def deadline_ms(self, since_ms: float, *, despite: Container[str] = ("fill",)) -> float:
        """The deadline for work that could begin then: a lease and the margin after the last fault
        that can have been in its way. A full store is none: it still claims and records."""
        allowed_ms = self.run.lease_ms + self.run.margin_ms
        deadline_ms = since_ms + allowed_ms
        for outage in self.outages:
            if outage.what in despite:
                continue
            if outage.began_ms <= deadline_ms and outage.healed_ms >= since_ms:
                deadline_ms = max(deadline_ms, outage.healed_ms + allowed_ms)
        return deadline_ms

    def cost_a_lease(self, since_ms: float, until_ms: float, lane: str | None = None) -> bool:
        """Whether a worker that had a request at the first moment may have lost it to whoever had
        it at the second one: by a fault in between, no longer ago than a lease lasts. While the
        service is on hold, the account paused, or a worker ends, what was lost before may have to
        wait; in a `lane`, for any time."""
        lease_ms = self.run.lease_ms + SLACK_MS
        latest_ms = since_ms if lane else until_ms - lease_ms
        waits = [outage for outage in self.outages if outage.what in HARMLESS]
        for wait in sorted(waits, key=lambda outage: outage.healed_ms, reverse=True):
            if wait.began_ms <= until_ms and wait.healed_ms >= latest_ms:
                latest_ms = min(latest_ms, wait.began_ms - lease_ms)
        latest_ms = max(since_ms - SLACK_MS, latest_ms)
        return any(
            outage.costs_leases and outage.began_ms <= until_ms and outage.healed_ms >= latest_ms
            for outage in self.outages
        )


def outcome_of(behaviour: str, attempt: int) -> Outcome:
    """What this attempt comes to."""
    if behaviour == "flaky":
        behaviour = "busy" if attempt <= FLAKY_ATTEMPTS else "ok"
    if behaviour == "calming" and attempt > 1:
        behaviour = "ok"
    return _OUTCOMES[behaviour]


def took_ms(behaviour: str, path: str) -> float:
    """How long a target takes to answer. By its path: a repeat is as slow as the first one was."""
    shortest_ms = {"slow": 0, "long": SLOWEST_TARGET_MS - _SPREAD_MS}.get(behaviour)
    if shortest_ms is None:
        return 0.0
    return shortest_ms + zlib.crc32(path.encode()) % (SLOWEST_TARGET_MS - shortest_ms)


def late(
    case: Case, what: str, at_ms: float, since_ms: float, *, despite: Container[str] = ("fill",)
) -> list[str]:
    """A sentence if it came after the deadline for work that could begin then."""
    over_ms = at_ms - case.deadline_ms(since_ms, despite=despite)
    return [f"{what} {over_ms / 1000:.1f} s too late"] if over_ms > 0 else []


def held_back(case: Case, what: str, arrivals: list[Arrival]) -> list[str] | None:
    """While the service is on hold nothing goes out but what had been claimed before."""
    holds = [outage for outage in case.outages if outage.what == "on hold"]
    if not holds or not arrivals:
        return None
    return [
        f"{what} {arrival.attempt} arrived {arrival.at_ms - hold.began_ms:.0f} ms into a hold"
        for hold in holds
        for arrival in arrivals
        if hold.began_ms + CLAIMED_MS < arrival.at_ms < hold.healed_ms
        and not case.cost_a_lease(hold.began_ms, arrival.at_ms)
    ]


def woke_up(case: Case, frozen_by_ms: float, at_ms: float) -> bool:
    """Whether a worker that was frozen by then had just been woken up."""
    return any(
        freeze.began_ms <= frozen_by_ms and abs(at_ms - freeze.healed_ms) <= SLACK_MS
        for freeze in case.frozen_workers
    )


def tag_of(url: str) -> str:
    return parse_qs(urlsplit(url).query).get("tag", [""])[0]


def version_of(url: str) -> int | None:
    """The version in a target's query; None if there is none."""
    text = parse_qs(urlsplit(url).query).get("v", [""])[0]
    return int(text) if text.isdigit() else None


def _bounded(asked: Asked, entry: Entry | None, done_ms: float) -> Asked:
    """The longest wait counts from the first create on, which `createdAt` tells. If it is over
    already, the request is due as it comes: before its call is done."""
    if entry is None or asked.max_wait_ms is None:
        return asked
    latest_ms = round(to_ms(entry.created_at)) + asked.max_wait_ms
    due_ms = round(to_ms(entry.scheduled_at))
    if latest_ms < due_ms <= done_ms:
        latest_ms = due_ms
    return msgspec.structs.replace(asked, trigger_at_ms=min(asked.trigger_at_ms, latest_ms))


def _counted(asked: Asked, entry: Entry | None, done_ms: float) -> Asked:
    """The delay of a message counts from the moment at which an API read it, and a time that has
    passed is that moment."""
    if entry is None:
        return asked
    due_ms = round(to_ms(entry.scheduled_at))
    behind_ms = 0 if asked.delay_ms is None else _SLOWEST_LINE_MS
    if asked.trigger_at_ms - behind_ms <= due_ms <= done_ms + (asked.delay_ms or 0):
        return msgspec.structs.replace(asked, trigger_at_ms=due_ms)
    return asked


def _wanted_again(asked: Asked, entry: Entry | None) -> Asked:
    """What has an expiresAt keeps its distance to triggerAt, unless that lies ahead."""
    if entry is None:
        return asked
    at_ms, expires_at_ms = round(to_ms(entry.scheduled_at)), asked.expires_at_ms
    if expires_at_ms is not None and expires_at_ms <= at_ms:
        expires_at_ms += at_ms - asked.trigger_at_ms
    return msgspec.structs.replace(asked, trigger_at_ms=at_ms, expires_at_ms=expires_at_ms)
