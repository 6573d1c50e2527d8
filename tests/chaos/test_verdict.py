"""The checker works: a sound history passes, a planted breach is reported."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
import pytest

from tests.chaos.books import BOOKS
from tests.chaos.evidence import SLACK_MS
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
    Secret,
)
from tests.chaos.promises import EXPIRED, PROMISES
from tests.chaos.repeats import LOST
from tests.chaos.verdict import Verdict, judge, table

START_MS = 1_800_000_000_000
DUE_MS = START_MS + 1000
END_MS = START_MS + 100_000
LEASE_MS, MARGIN_MS = 3000, 5000
GRANTED = 100
NAME = "customer"


def iso(ms: float) -> str:
    text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


class History:
    """A history in the making. `entries` has the log entries of each tag; everything
    else of the end follows from it, unless it is set."""

    def __init__(self) -> None:
        run = Run(1, 10, "single", [NAME], GRANTED, LEASE_MS, MARGIN_MS, 30_000)
        self.events: list[Event] = [run]
        self.arrivals: list[Arrival] = []
        self.entries: dict[str, Entry] = {}
        self.further: list[Entry] = []
        self.bodies: dict[str, dict[str, Any] | None] = {}
        self.credits: int | None = None
        self.stats: dict[str, Any] = {}
        self.waiting: list[str] | None = None
        self.problems: list[str] = []
        self.mishaps: list[str] = []
        self._op = 0

    def call(
        self,
        kind: Kind,
        asked: list[Asked],
        result: Result | None = "ok",
        *,
        status: int = 0,
        schedule_id: str = "",
        key: str = "",
        **answered: Any,
    ) -> None:
        """A call and, unless `result` is None, its end, which has the fields of `answered`."""
        self._op += 1
        at: dict[str, Any] = {"wall_ms": START_MS + self._op, "mono_ms": float(self._op)}
        about: dict[str, Any] = {"asked": asked, "schedule_id": schedule_id, "key": key}
        self.events.append(Invoked(self._op, "c0", NAME, kind, **at, **about))
        if result is None:
            return
        made = kind in ("create", "batch") and result == "ok"
        ids = [400 if each.bad else sch(each.tag) for each in asked] if made else []
        done = 201 if kind in ("create", "replay", "rotate") else 200
        told = status or {"ok": done, "fail": 503, "unknown": 0}[result]
        fields = {"status": told, "ids": ids} | answered
        self.events.append(Answered(self._op, result, **at, **fields))

    def store(
        self,
        asked: Asked,
        status: str = "completed",
        code: int = 200,
        message: str = "",
        at_ms: float = DUE_MS + 10,
        attempt: int = 1,
    ) -> None:
        """What the log has of it."""
        self.entries[asked.tag] = self.entry(asked, status, code, message, at_ms, attempt)

    def fire(self, asked: Asked, *status: Any, **stored: Any) -> None:
        """It is created, arrives once, and ends so."""
        self.call("create", [asked])
        self.arrive(asked)
        self.store(asked, *status, **stored)

    def retry(self, asked: Asked, attempt: int, at_ms: float, next_ms: float) -> None:
        """An attempt that is made again arrives, is answered 503, and is logged."""
        self.arrive(asked, attempt, at_ms)
        entry = self.entry(asked, "retrying", 503, "Service Unavailable", at_ms + 5, attempt)
        self.further.append(msgspec.structs.replace(entry, next_attempt_at=iso(next_ms)))

    def replay(self, asked: Asked, new: str, of: str, at_ms: float) -> None:
        """A replay as it is stored, sent and logged: due at that moment."""
        asked = msgspec.structs.replace(asked, trigger_at_ms=round(at_ms))
        self.arrive(asked)
        self.arrivals[-1] = msgspec.structs.replace(self.arrivals[-1], schedule_id=new)
        entry = self.entry(asked, "failed", 500, "Internal Server Error", at_ms + 10)
        entry = msgspec.structs.replace(entry, schedule_id=new)
        self.further.append(entry)
        self.bodies[new] = {**body(entry), "replayOf": of}

    def entry(
        self, asked: Asked, status: str, code: int, message: str, at_ms: float, attempt: int = 1
    ) -> Entry:
        executed = status in ("completed", "failed", "retrying")
        return Entry(
            invocation_id=sch(asked.tag).replace("sch", "inv"),
            schedule_id=sch(asked.tag),
            created_at=iso(START_MS),
            scheduled_at=iso(asked.trigger_at_ms),
            executed_at=iso(at_ms) if executed else None,
            target_url=f"http://127.0.0.1:9{asked.path}",
            status=status,
            status_code=code if executed else 0,
            response_time_ms=2 if executed else 0,
            error_message=message,
            attempt=attempt,
        )

    def arrive(self, asked: Asked, attempt: int = 1, at_ms: float | None = None) -> None:
        self.arrivals.append(
            Arrival(
                at_ms=asked.trigger_at_ms + 2.5 if at_ms is None else at_ms,
                schedule_id=sch(asked.tag),
                invocation_id=sch(asked.tag).replace("sch", "inv"),
                attempt=attempt,
                trigger_at=iso(asked.trigger_at_ms),
                path=asked.path,
                signed=signed("inv_1", NEW),
            )
        )

    def fault(self, what: str, target: str, from_ms: float, to_ms: float) -> None:
        self._op += 1
        phases: list[tuple[Literal["begin", "end"], float]] = [("begin", from_ms), ("end", to_ms)]
        for phase, at_ms in phases:
            self.events.append(Fault(self._op, what, target, phase, at_ms, at_ms))

    def judged(self) -> Verdict:
        log = [*self.entries.values(), *self.further]
        executed = [entry for entry in log if entry.status in ("completed", "failed")]
        completed = sum(entry.status == "completed" for entry in executed)
        stats = {
            "totalInvocations": len(executed),
            "successfulInvocations": completed,
            "failedInvocations": len(executed) - completed,
            "averageResponseTime": 2.0,
        }
        spent = len({entry.schedule_id for entry in log if entry.status != "cancelled"})
        waiting = [entry.schedule_id for entry in log if entry.status == "scheduled"]
        account = Account(
            credits=GRANTED - spent if self.credits is None else self.credits,
            stats=stats | self.stats,
            log=log,
            schedules={
                **{e.schedule_id: body(e) for e in log if e.status != "retrying"},
                **self.bodies,
            },
            waiting=waiting if self.waiting is None else self.waiting,
        )
        final = Final(END_MS, {NAME: account}, self.problems, self.mishaps)
        return judge(self.events, self.arrivals, final)


def signed(message_id: str, *secrets: Secret) -> tuple[str, str, str]:
    """As README's Standard Webhooks has it, of an empty body."""
    found = []
    for each in secrets:
        key = b64decode(each.secret.removeprefix("whsec_"))
        digest = hmac.digest(key, f"{message_id}.5.".encode(), "sha256")
        found.append(f"v1,{b64encode(digest).decode()}")
    return message_id, "5", " ".join(found)


def secret(name: str, made_ms: float, until_ms: float | None) -> Secret:
    text = f"whsec_{b64encode(name.encode()).decode()}"
    return Secret(name, text, iso(made_ms), iso(until_ms) if until_ms else None)


def sch(tag: str) -> str:
    return f"sch_{tag}"


def body(entry: Entry) -> dict[str, Any]:
    """What GET tells where the log tells this."""
    ended = entry.status in ("completed", "failed")
    return {
        "status": entry.status,
        "targetUrl": entry.target_url,
        "triggerAt": entry.scheduled_at,
        "executedAt": entry.executed_at,
        "errorMessage": entry.error_message if ended else None,
    }


def asked(tag: str, behaviour: str = "ok", **fields: Any) -> Asked:
    return Asked(tag, behaviour, **{"trigger_at_ms": DUE_MS, **fields})


PLAIN, ONCE, CANCELLED = asked("plain"), asked("once", delivery="at-most-once"), asked("cancelled")
GIVEN_UP = asked("given-up", delivery="at-most-once")
BEFORE, AFTER = asked("changed"), asked("changed", version=1, trigger_at_ms=DUE_MS + 500)
FAILING, FAR = asked("failing", "fail"), asked("far", trigger_at_ms=END_MS + 60_000)
BATCH = [asked("b1"), asked("b2"), asked("b3", bad=True)]
KEYED, REFUSED, UNKNOWN = asked("keyed"), asked("refused"), asked("unknown")
REFIRED, STALE = asked("refired"), asked("stale")
RESET = asked("reset", "reset", trigger_at_ms=DUE_MS + 50_000)
EXPIRING = asked("expiring", expires_at_ms=DUE_MS + 500)
KILLED_MS = DUE_MS + 100
FLAKY = asked("flaky", "flaky", retries=2, delays_ms=(1000,))
STOPPED = asked("stopped", "busy", retries=3, delays_ms=(1000,))
ENDED = secret("ended", START_MS - 90_000, START_MS - 60_000)
OLD = secret("old", START_MS - 80_000, None)
NEW = secret("new", START_MS - 60_000, None)
HOLD_MS = DUE_MS + 20_000


def sound() -> History:
    """A history in which everything that can happen did, and every promise held."""
    it = History()
    for each in (PLAIN, ONCE):
        it.fire(each)
    it.call("create", [CANCELLED])
    it.call("cancel", [], schedule_id=sch("cancelled"))
    it.store(CANCELLED, "cancelled")
    it.call("create", [BEFORE])
    it.call("change", [AFTER], schedule_id=sch("changed"))
    it.call("read", [], schedule_id=sch("changed"))
    it.arrive(AFTER)
    it.store(AFTER, at_ms=AFTER.trigger_at_ms + 9)
    it.fire(FAILING, "failed", 500, "Internal Server Error")
    it.call("create", [FAR])
    it.store(FAR, "scheduled")
    it.call("batch", BATCH)
    for each in BATCH[:2]:
        it.arrive(each)
        it.store(each)
    it.call("create", [KEYED], None, key="k")
    it.call("create", [KEYED], key="k")
    it.call("create", [KEYED], key="k", replayed=True)
    it.arrive(KEYED)
    it.store(KEYED)
    for _ in range(2):
        it.call("batch", [asked("all-bad", bad=True)], key="bad")
    it.call("create", [REFUSED], "fail")
    it.call("create", [UNKNOWN], "unknown")
    it.arrive(UNKNOWN)
    it.store(UNKNOWN)
    it.call("create", [asked("never-came")], "unknown")
    it.fault("kill", "worker 1", KILLED_MS, KILLED_MS + 500)
    it.call("create", [REFIRED])
    it.arrive(REFIRED)
    it.arrive(REFIRED, 2, KILLED_MS + LEASE_MS)
    it.store(REFIRED, at_ms=KILLED_MS + LEASE_MS + 5)
    it.fire(GIVEN_UP, "failed", 0, LOST, at_ms=KILLED_MS + LEASE_MS)
    it.call("create", [RESET])
    for attempt in (1, 2):
        it.arrive(RESET, attempt, RESET.trigger_at_ms + attempt)
    it.store(RESET, "failed", 0, "Connection reset", at_ms=RESET.trigger_at_ms + 5)
    it.call("create", [EXPIRING])
    it.store(EXPIRING, "failed", 0, EXPIRED, at_ms=DUE_MS + 700)
    it.call("create", [FLAKY])
    for attempt in (1, 2):
        at_ms = FLAKY.trigger_at_ms + attempt * 1200 - 1190
        it.retry(FLAKY, attempt, at_ms, at_ms + 1100)
    it.arrive(FLAKY, 3, DUE_MS + 2500)
    it.store(FLAKY, at_ms=DUE_MS + 2510, attempt=3)
    it.call("create", [STOPPED])
    it.retry(STOPPED, 1, DUE_MS + 5, DUE_MS + 1100)
    it.call("cancel", [], schedule_id=sch("stopped"), became={sch("stopped"): "failed"})
    it.store(STOPPED, "failed", 503, "Service Unavailable", at_ms=DUE_MS + 500)
    it.call("replay many", [], became={sch("failing"): "sch_failing2", sch("plain"): 409})
    it.replay(FAILING, "sch_failing2", sch("failing"), DUE_MS + 12_000)
    it.call("signing", [], secrets=[NEW, OLD, ENDED])
    it.fault("on hold", "service", HOLD_MS, HOLD_MS + 10_000)
    it.fault("freeze", "worker 2", DUE_MS - 100, DUE_MS + 6000)
    it.call("create", [STALE])
    it.arrive(STALE, 2, DUE_MS + 5000)
    it.arrive(STALE, 1, DUE_MS + 6001)
    it.store(STALE, at_ms=DUE_MS + 5005)
    return it


def test_a_sound_history_holds_and_every_promise_was_looked_at() -> None:
    verdict = sound().judged()
    assert verdict.breaches == []
    assert [row.promise for row in verdict.rows if row.looked_at == 0] == []
    assert len(verdict.rows) == len(PROMISES) + len(BOOKS) + 2


Plant = Callable[[History], object]


def without(tag: str) -> Plant:
    return lambda it: it.entries.pop(tag)


def entry(tag: str, **fields: Any) -> Plant:
    def plant(it: History) -> None:
        it.entries[tag] = msgspec.structs.replace(it.entries[tag], **fields)

    return plant


def failed(tag: str, message: str, code: int = 0) -> Plant:
    return entry(tag, status="failed", status_code=code, error_message=message)


def last_arrival(tag: str, **fields: Any) -> Plant:
    def plant(it: History) -> None:
        index = max(n for n, each in enumerate(it.arrivals) if each.schedule_id == sch(tag))
        it.arrivals[index] = msgspec.structs.replace(it.arrivals[index], **fields)

    return plant


def first_retry(**fields: Any) -> Plant:
    def plant(it: History) -> None:
        it.further[0] = msgspec.structs.replace(it.further[0], **fields)

    return plant


def no_arrival(tag: str) -> Plant:
    def plant(it: History) -> None:
        it.arrivals = [each for each in it.arrivals if each.schedule_id != sch(tag)]

    return plant


def without_faults(it: History) -> None:
    it.events = [event for event in it.events if not isinstance(event, Fault)]


def all_of(*plants: Plant) -> Plant:
    return lambda it: [plant(it) for plant in plants]


LONG_AFTER_MS = DUE_MS + 60_000
FIVE_HUNDRED: dict[str, Any] = {"result": "unknown", "status": 500}
PLANTED: dict[str, dict[str, Plant]] = {
    "acknowledged: it is there": {
        "an acknowledged create is in no log": without("plain"),
        "an acknowledged create is a 404": lambda it: it.bodies.update(sch_plain=None),
    },
    "a batch is whole": {
        "a create of a batch is lost": without("b2"),
        "a batch refuses what is good": lambda it: it.call("batch", [PLAIN], ids=[400]),
    },
    "an Idempotency-Key is done once": {
        "a key was done twice": lambda it: it.call("create", [KEYED], key="k"),
        "a key got another schedule": lambda it: it.call(
            "create", [KEYED], key="k", ids=["sch_other"], replayed=True
        ),
    },
    "a repeated create is one schedule": {
        "a repeated create is stored twice": lambda it: it.further.append(
            msgspec.structs.replace(it.entries["keyed"], schedule_id="sch_other")
        )
    },
    "refused: nothing stored": {
        "a refused create is stored": lambda it: it.store(REFUSED),
        "a refused create arrives": lambda it: it.arrive(REFUSED),
    },
    "due: it ends": {
        "a due one stays scheduled": entry("plain", status="scheduled", executed_at=None),
        "one that is not due has ended": all_of(
            entry("far", status="completed", executed_at=iso(END_MS)), lambda it: it.arrive(FAR)
        ),
    },
    "it ends as the target answered": {
        "it ended and was never sent": no_arrival("plain"),
        "a timeout of what was never sent": all_of(
            no_arrival("stale"), failed("stale", "Timeout after 30 seconds")
        ),
        "a timeout though the target answered": all_of(
            without_faults, failed("plain", "Timeout after 30 seconds")
        ),
        "completed though the target failed": entry(
            "failing", status="completed", status_code=200, error_message=""
        ),
        "an at-least-once is given up": failed("plain", LOST),
        "expired without an expiresAt": failed("plain", EXPIRED),
        "expired before its expiresAt": entry("expiring", executed_at=iso(DUE_MS + 100)),
        "expired as unsent, and sent": lambda it: it.arrive(EXPIRING, 1, DUE_MS + 100),
    },
    "never early": {
        "half a millisecond early": last_arrival("plain", at_ms=DUE_MS - 0.5),
        "sent with another triggerAt": last_arrival("plain", trigger_at=iso(DUE_MS - 9)),
    },
    "at-most-once: once": {"at-most-once arrives twice": lambda it: it.arrive(ONCE, 2)},
    "at-least-once: attempts rise": {
        "the same attempt twice": last_arrival("refired", attempt=1),
        "attempts fall, and nobody was frozen": lambda it: it.arrive(AFTER, 0, DUE_MS + 50_000),
    },
    "sent again: a worker had lost it": {
        "sent again, and no worker was harmed": without_faults,
        "sent again a lease and more after the fault": last_arrival(
            "stale", at_ms=DUE_MS + 6000 + LEASE_MS + SLACK_MS + 1
        ),
        "sent a third time after a reset": lambda it: it.arrive(RESET, 3, RESET.trigger_at_ms + 4),
        "the first arrival is a later attempt": all_of(
            without_faults, last_arrival("plain", attempt=2)
        ),
    },
    "given up: a worker had lost it": {"given up, and no worker was harmed": without_faults},
    "retried: as asked, and no sooner": {
        "a retry too many": lambda it: it.retry(FLAKY, 3, DUE_MS + 2500, DUE_MS + 3600),
        "retries are given up": all_of(
            lambda it: it.further.pop(1), failed("flaky", "Service Unavailable", 503)
        ),
        "a delay is shortened": all_of(
            without_faults, first_retry(next_attempt_at=iso(DUE_MS + 600))
        ),
        "a retry comes before its delay is over": first_retry(next_attempt_at=iso(DUE_MS + 1400)),
        "an attempt is logged that was never made": first_retry(attempt=0),
    },
    "stopped: no attempt follows": {
        "a stopped one goes on": lambda it: it.arrive(STOPPED, 2, DUE_MS + 8000),
        "a stopped one completes": entry("stopped", status="completed"),
    },
    "replayed: in bulk once": {
        "replayed in bulk twice": lambda it: it.call(
            "replay many", [], became={sch("failing"): "sch_failing3"}
        ),
        "replayed by nobody": lambda it: it.replay(
            FAILING, "sch_failing3", sch("failing"), DUE_MS + 13_000
        ),
        "replayed before it ended": lambda it: it.call(
            "replay", [], became={sch("far"): "sch_far2"}
        ),
    },
    "on hold: nothing goes out": {
        "sent while on hold": last_arrival("plain", at_ms=HOLD_MS + SLACK_MS + 1)
    },
    "signed with what is good": {
        "unsigned": last_arrival("plain", signed=("", "", "")),
        "signed with a secret that had ended": last_arrival(
            "plain", signed=signed("inv_1", NEW, ENDED)
        ),
        "signed with an old secret alone": last_arrival("plain", signed=signed("inv_1", OLD)),
    },
    "cancelled: never fires": {
        "a cancelled one fires": lambda it: it.arrive(CANCELLED),
        "a cancelled one completes": entry("cancelled", status="completed"),
        "cancelled twice": lambda it: it.call("cancel", [], schedule_id=sch("cancelled")),
        "cancelled by nobody": entry("plain", status="cancelled"),
        "a refused cancel was done": all_of(
            lambda it: it.call("cancel", [], "fail", status=503, schedule_id=sch("far")),
            entry("far", status="cancelled"),
        ),
    },
    "changed: as told": {
        "a change is lost": lambda it: it.store(BEFORE),
        "a refused change was done": all_of(
            lambda it: it.call(
                "change",
                [asked("far", version=1, trigger_at_ms=FAR.trigger_at_ms)],
                "fail",
                status=409,
                schedule_id=sch("far"),
            ),
            lambda it: it.store(
                asked("far", version=1, trigger_at_ms=FAR.trigger_at_ms), "scheduled"
            ),
        ),
        "the old version arrives": lambda it: it.arrive(BEFORE),
        "the time of another version": entry("plain", scheduled_at=iso(DUE_MS + 7)),
    },
    "expired: not sent": {
        "fired after it expired": lambda it: it.arrive(EXPIRING, 1, DUE_MS + 40_000)
    },
    "one log entry, as GET tells": {
        "two log entries": lambda it: it.further.append(it.entries["plain"]),
        "GET and the log disagree": lambda it: it.bodies.update(
            sch_plain={**body(it.entries["plain"]), "status": "failed"}
        ),
    },
    "fired in time": {
        "fired late though nothing was wrong": last_arrival("plain", at_ms=LONG_AFTER_MS)
    },
    "fired again in time": {"fired again late": last_arrival("refired", at_ms=LONG_AFTER_MS)},
    "ended in time": {"recorded late": entry("plain", executed_at=iso(LONG_AFTER_MS))},
    "answers: 503 is the only five": {
        "a 500": lambda it: it.call("read", [], **FIVE_HUNDRED, schedule_id=sch("plain")),
        "a 404 for what was acknowledged": lambda it: it.call(
            "read", [], "fail", status=404, schedule_id=sch("plain")
        ),
    },
    "the ledger balances": {"a credit too few": lambda it: setattr(it, "credits", 80)},
    "statistics agree with the log": {
        "an execution counted twice": lambda it: it.stats.update(totalInvocations=99),
        "an average of something else": lambda it: it.stats.update(averageResponseTime=2.1),
    },
    "the list agrees with the log": {
        "what waits is not listed": lambda it: setattr(it, "waiting", [])
    },
    "nothing that nobody asked for": {
        "a schedule of nobody's": lambda it: it.store(asked("whose")),
        "a request of nobody's": lambda it: it.arrive(asked("whose")),
    },
    "`postdate check` finds nothing": {
        "check finds something": lambda it: it.problems.append("a ledger does not balance")
    },
    "healed: all live, and answer": {
        "a process ended by itself": lambda it: it.mishaps.append("worker 1 ended by itself")
    },
}


@pytest.mark.parametrize(
    ("promise", "plant"),
    [
        pytest.param(promise, plant, id=name)
        for promise, plants in PLANTED.items()
        for name, plant in plants.items()
    ],
)
def test_a_planted_breach_is_told(promise: str, plant: Plant) -> None:
    history = sound()
    plant(history)
    verdict = history.judged()
    assert not verdict.held
    assert verdict.row(promise).breaches, table(verdict)
    assert f"Broken: {promise}" in table(verdict)


def test_every_promise_has_a_planted_breach() -> None:
    assert PLANTED.keys() == {row.promise for row in sound().judged().rows}


def test_an_unknown_outcome_may_go_either_way() -> None:
    """And so may a cancel or a change without an answer, also late."""
    for status in ("completed", "cancelled"):
        history = sound()
        history.call("cancel", [], "unknown", schedule_id=sch("plain"))
        entry("plain", status=status)(history)
        if status == "cancelled":
            no_arrival("plain")(history)
            entry("plain", executed_at=None, status_code=0, response_time_ms=0)(history)
        assert history.judged().breaches == []
    for version in (0, 1):
        history = sound()
        later = asked("far", version=1, trigger_at_ms=FAR.trigger_at_ms + 5)
        history.call("change", [later], "unknown", schedule_id=sch("far"))
        history.store(later if version else FAR, "scheduled")
        assert history.judged().breaches == []


def test_what_is_late_because_of_a_fault_has_a_lease_and_a_margin_after_it() -> None:
    late_ms = DUE_MS + 40_000
    for healed_ms, held in ((late_ms - LEASE_MS - MARGIN_MS + 1, True), (DUE_MS + 5000, False)):
        history = sound()
        without_faults(history)
        last_arrival("plain", at_ms=late_ms)(history)
        entry("plain", executed_at=iso(late_ms + 5))(history)
        for tag in ("refired", "stale"):
            del history.entries[tag]
            no_arrival(tag)(history)
        history.fault("kill", "store", DUE_MS - 10, healed_ms)
        assert (history.judged().row("fired in time").breaches == []) is held


def test_a_hold_puts_off_what_a_fault_has_cost() -> None:
    again_ms = DUE_MS + 6000 + LEASE_MS + SLACK_MS + 1
    for held in (False, True):
        history = sound()
        if held:
            history.fault("hold", "service", DUE_MS + 6000, again_ms - 10)
        last_arrival("stale", at_ms=again_ms)(history)
        told = history.judged().row("sent again: a worker had lost it").breaches
        assert (told == []) is held
