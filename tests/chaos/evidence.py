"""A run's three files put together: what was asked, told and seen of each schedule. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from tests.chaos.history import (
    Account,
    Answered,
    Arrival,
    Asked,
    Entry,
    Event,
    Fault,
    Final,
    Invoked,
    Result,
    Run,
)


# From a worker's last look to the first byte at the target, on a busy machine.
SLACK_MS = 2000


class Call(msgspec.Struct, frozen=True):
    """A call from its beginning to its end. One without an end is unknown."""

    invoked: Invoked
    answered: Answered | None = None

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
        return not self.target.removeprefix("line of ").startswith("api")


class Story(msgspec.Struct):
    """All that is known of one schedule that a client wanted."""

    tag: str
    creates: list[Call] = []
    changes: list[Call] = []
    cancels: list[Call] = []
    reads: list[Call] = []
    acknowledged: set[str] = set()
    entries: list[Entry] = []
    arrivals: list[Arrival] = []
    body: dict[str, Any] | None = None

    @property
    def asked(self) -> Asked:
        """As it was first wanted."""
        return next(a for a in self.creates[0].invoked.asked if a.tag == self.tag)

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

    def at(self, version: int) -> Asked | None:
        """What this version wanted; None if no client ever wanted that."""
        wanted = [self.asked, *(call.invoked.asked[0] for call in self.changes)]
        return next((asked for asked in wanted if asked.version == version), None)

    def wanted_by(self, arrival: Arrival) -> Asked | None:
        """The version that arrived."""
        version = version_of(arrival.path)
        return None if version is None else self.at(version)

    def cancelled(self, result: Result) -> list[Call]:
        return [call for call in self.cancels if call.result == result]


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

    def deadline_ms(self, since_ms: float) -> float:
        """By when what was to be done from then on must have been done: a lease and the margin
        after the last fault that can have been in its way."""
        allowed_ms = self.run.lease_ms + self.run.margin_ms
        deadline_ms = since_ms + allowed_ms
        for outage in self.outages:
            if outage.began_ms <= deadline_ms and outage.healed_ms >= since_ms:
                deadline_ms = max(deadline_ms, outage.healed_ms + allowed_ms)
        return deadline_ms

    def cost_a_lease(self, since_ms: float, until_ms: float) -> bool:
        """Whether a worker that had a request at the first moment may have lost it to whoever had
        it at the second one: by a fault in between, no longer ago than a lease lasts."""
        latest_ms = max(since_ms, until_ms - self.run.lease_ms) - SLACK_MS
        return any(
            outage.costs_leases and outage.began_ms <= until_ms and outage.healed_ms >= latest_ms
            for outage in self.outages
        )


def cases(events: Iterable[Event], arrivals: Iterable[Arrival], final: Final) -> list[Case]:
    """Each account's case. `arrivals` and `final` may tell of what no client asked for: those
    are the `strangers` of each case."""
    events = list(events)
    run = next(event for event in events if isinstance(event, Run))
    arrived = list(arrivals)
    outages, calls = _outages(events), _calls(events)
    made = []
    for name, account in final.accounts.items():
        own = [call for call in calls if call.invoked.account == name]
        stories = _stories(own)
        strangers = _add_entries(stories, account)
        made.append(Case(run, name, own, outages, account, stories, strangers, final.read_at_ms))
    _add_arrivals(made, arrived)
    return made


def tag_of(url: str) -> str:
    return parse_qs(urlsplit(url).query).get("tag", [""])[0]


def version_of(url: str) -> int | None:
    """The version in a target's query; None if there is none."""
    text = parse_qs(urlsplit(url).query).get("v", [""])[0]
    return int(text) if text.isdigit() else None


def _outages(events: list[Event]) -> list[Outage]:
    faults = [event for event in events if isinstance(event, Fault)]
    ends = {fault.number: fault.wall_ms for fault in faults if fault.phase == "end"}
    begun = sorted((f for f in faults if f.phase == "begin"), key=lambda fault: fault.wall_ms)
    return [Outage(f.what, f.target, f.wall_ms, ends.get(f.number, float("inf"))) for f in begun]


def _calls(events: list[Event]) -> list[Call]:
    answers = {event.op: event for event in events if isinstance(event, Answered)}
    return [Call(e, answers.get(e.op)) for e in events if isinstance(e, Invoked)]


def _stories(calls: list[Call]) -> dict[str, Story]:
    stories: dict[str, Story] = {}
    tags: dict[str, str] = {}
    for call in calls:
        if call.invoked.call not in ("create", "batch"):
            continue
        for place, asked in enumerate(call.invoked.asked):
            story = stories.setdefault(asked.tag, Story(asked.tag))
            story.creates.append(call)
            given = call.ids[place] if place < len(call.ids) else None
            if isinstance(given, str):
                story.acknowledged.add(given)
                tags[given] = asked.tag
    for call in calls:
        tag = tags.get(call.invoked.schedule_id)
        if tag is not None:
            kinds = {"change": "changes", "cancel": "cancels", "read": "reads"}
            getattr(stories[tag], kinds[call.invoked.call]).append(call)
    return stories


def _add_entries(stories: dict[str, Story], account: Account) -> list[str]:
    """Puts to each story what the log and GET know; returns what belongs to none."""
    strangers = []
    for entry in account.log:
        story = stories.get(tag_of(entry.target_url))
        if story is None:
            strangers.append(f"a log entry of {entry.schedule_id}, {entry.target_url}")
        else:
            story.entries.append(entry)
    for story in stories.values():
        bodies = [account.schedules.get(i) for i in story.acknowledged | story.stored_ids]
        story.body = next((body for body in bodies if body), None)
    return strangers


def _add_arrivals(made: list[Case], arrivals: list[Arrival]) -> None:
    stories = {tag: story for case in made for tag, story in case.stories.items()}
    for arrival in sorted(arrivals, key=lambda each: each.at_ms):
        story = stories.get(tag_of(arrival.path))
        if story is None:
            made[0].strangers.append(f"an arrival of {arrival.schedule_id} at {arrival.path}")
        else:
            story.arrivals.append(arrival)
