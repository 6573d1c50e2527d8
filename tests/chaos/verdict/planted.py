"""A history in the making, in which `test_verdict` plants breaches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    Kind,
    Result,
    Run,
    iso,
)
from tests.chaos.verdict.evidence import outcome_of
from tests.chaos.verdict.verdict import Verdict, judge

START_MS = 1_800_000_000_000
DUE_MS = START_MS + 1000
END_MS = START_MS + 100_000
LEASE_MS, MARGIN_MS = 3000, 5000
GRANTED = 100
NAME = "customer"


def sch(tag: str) -> str:
    return f"sch_{tag}"


class History:
    """`log` has the last entry of each tag, `further` other entries, `bodies` what GET tells
    besides these, or None where it knows nothing. All else of the end follows from them, unless
    `end` has it."""

    def __init__(self) -> None:
        run = Run(1, 10, "single", GRANTED, LEASE_MS, MARGIN_MS, 30_000)
        self.events: list[Event] = [run]
        self.arrivals: list[Arrival] = []
        self.log: dict[str, Entry] = {}
        self.further: list[Entry] = []
        self.bodies: dict[str, dict[str, Any] | None] = {}
        self.end: dict[str, Any] = {}
        self.problems: list[str] = []
        self.mishaps: list[str] = []

    def call(
        self,
        kind: Kind,
        asked: list[Asked] | None = None,
        result: Result = "ok",
        *,
        at_ms: float = 0,
        **fields: Any,
    ) -> None:
        """A call and its end; `fields` are of either."""
        op, asked = len(self.events), asked or []
        at_ms = at_ms or START_MS + op
        about = {name: fields.pop(name) for name in Invoked.__struct_fields__ if name in fields}
        self.events.append(Invoked(op, "c0", NAME, kind, at_ms, asked=asked, **about))
        made = kind in ("create", "batch") and result == "ok"
        ids = [400 if each.bad else sch(each.tag) for each in asked] if made else []
        done = 201 if kind in ("create", "rule", "rule trigger") else 200
        status = {"ok": done, "fail": 503, "unknown": 0}[result]
        self.events.append(Answered(op, result, at_ms, **{"status": status, "ids": ids} | fields))

    def arrive(self, asked: Asked, attempt: int = 1, at_ms: float = 0, **fields: Any) -> None:
        due_ms = asked.trigger_at_ms
        arrival = Arrival(at_ms or due_ms + 2.5, sch(asked.tag), attempt, iso(due_ms), asked.path)
        self.arrivals.append(msgspec.structs.replace(arrival, **fields))

    def store(self, asked: Asked, status: str = "completed", *ended: Any, **fields: Any) -> None:
        """What the log has of it."""
        self.log[asked.tag] = entry_of(asked, status, *ended, **fields)
        if asked.lane:
            self.bodies[sch(asked.tag)] = {"lane": asked.lane}

    def fire(self, asked: Asked, *ended: Any, **fields: Any) -> None:
        """It is created, arrives once, and ends so."""
        self.call("create", [asked])
        self.arrive(asked)
        self.store(asked, *ended, **fields)

    def share(self, created: Asked, *others: Asked) -> None:
        """The first creates a schedule, which each other one means: the last that does not keep it
        stands, arrives and ends."""
        self.call("create", [created])
        schedule_id = sch(created.tag)
        for each in others:
            self.call("create", [each], status=200, ids=[schedule_id], existing=[0])
        stands = [each for each in (created, *others) if each.on_existing == "replace"][-1]
        stands = msgspec.structs.replace(stands, trigger_at_ms=DUE_MS)
        self.store(stands, schedule_id=schedule_id)
        self.bodies[schedule_id] = {"reference": stands.reference}
        self.arrive(stands, schedule_id=schedule_id)

    def retry(self, asked: Asked, attempt: int, at_ms: float, next_ms: float) -> None:
        """An attempt that is made again arrives, is answered as ever, and is logged."""
        self.arrive(asked, attempt, at_ms)
        answer = outcome_of(asked.behaviour, attempt)
        said = (answer.code, *answer.messages)
        ended = {"at_ms": at_ms + 5, "attempt": attempt, "next_attempt_at": iso(next_ms)}
        self.further.append(entry_of(asked, "retrying", *said, **ended))

    def fault(self, what: str, target: str, from_ms: float, to_ms: float) -> None:
        op = len(self.events)
        self.events.append(Fault(op, what, target, "begin", from_ms))
        self.events.append(Fault(op, what, target, "end", to_ms))

    def judged(self) -> Verdict:
        log = [*self.log.values(), *self.further]
        executed = [entry for entry in log if entry.status in ("completed", "failed")]
        completed = sum(entry.status == "completed" for entry in executed)
        bodies = {each.schedule_id: body_of(each) for each in log if each.status != "retrying"}
        for name, besides in self.bodies.items():
            bodies[name] = None if besides is None else (bodies.get(name) or {}) | besides
        account = {
            "credits": GRANTED - len({e.schedule_id for e in log if e.status != "cancelled"}),
            "stats": {
                "totalInvocations": len(executed),
                "successfulInvocations": completed,
                "failedInvocations": len(executed) - completed,
                "averageResponseTime": 2.0,
            },
            "log": log,
            "schedules": bodies,
            "waiting": [entry.schedule_id for entry in log if entry.status == "scheduled"],
        }
        final = Final(END_MS, {NAME: Account(**account | self.end)}, self.problems, self.mishaps)
        return judge(self.events, self.arrivals, final)


Plant = Callable[[History], object]


def last_arrival(path: str, **fields: Any) -> Plant:
    """The last one at this path is another."""

    def plant(it: History) -> None:
        place = max(place for place, each in enumerate(it.arrivals) if each.path == path)
        it.arrivals[place] = msgspec.structs.replace(it.arrivals[place], **fields)

    return plant


def entry_of(
    asked: Asked,
    status: str = "completed",
    code: int = 200,
    message: str = "",
    *,
    at_ms: float = DUE_MS + 10,
    **fields: Any,
) -> Entry:
    executed = status in ("completed", "failed", "retrying")
    told: dict[str, Any] = {
        "schedule_id": sch(asked.tag),
        "created_at": iso(START_MS),
        "scheduled_at": iso(asked.trigger_at_ms),
        "executed_at": iso(at_ms) if executed else None,
        "target_url": f"http://127.0.0.1:9{asked.path}",
        "status": status,
        "status_code": code if executed else 0,
        "response_time_ms": 2 if executed else 0,
        "error_message": message,
        "labels": asked.labels,
    }
    return Entry(**told | fields)


def body_of(entry: Entry) -> dict[str, Any]:
    """What GET tells where the log tells this."""
    return {
        "status": entry.status,
        "targetUrl": entry.target_url,
        "triggerAt": entry.scheduled_at,
        "executedAt": entry.executed_at,
        "errorMessage": entry.error_message,
        "labels": [*entry.labels],
    }
