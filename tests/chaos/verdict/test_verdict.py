"""The checker works: a sound history passes, a planted breach is reported. Where `defects` plants a
breach of a promise in the service itself, none is planted here, unless it is short."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.chaos.defects import DEFECTS
from tests.chaos.history import Asked, Fault, iso
from tests.chaos.verdict.books import BOOKS
from tests.chaos.verdict.evidence import SLACK_MS
from tests.chaos.verdict.planted import (
    DUE_MS,
    END_MS,
    LEASE_MS,
    START_MS,
    History,
    Plant,
    entry_of,
    last_arrival,
    sch,
)
from tests.chaos.verdict.planted_callbacks import PLANTED_IN_CALLBACKS, sound_callbacks
from tests.chaos.verdict.planted_lanes import PLANTED_IN_LANES, sound_lanes
from tests.chaos.verdict.planted_messages import PLANTED_IN_MESSAGES, sound_messages
from tests.chaos.verdict.planted_recurring import PLANTED_IN_RECURRING, sound_recurring
from tests.chaos.verdict.promises import EXPIRED, PROMISES
from tests.chaos.verdict.repeats import LOST
from tests.chaos.verdict.verdict import table

KILLED_MS, HOLD_MS = DUE_MS + 100, DUE_MS + 20_000
LONG_AFTER_MS = DUE_MS + 60_000


def wanted(tag: str, behaviour: str = "ok", **fields: Any) -> Asked:
    return Asked(tag, behaviour, **{"trigger_at_ms": DUE_MS, **fields})


PLAIN, CANCELLED = wanted("plain"), wanted("cancelled")
ONCE = wanted("once", delivery="at-most-once")
GIVEN_UP = wanted("given-up", delivery="at-most-once")
BEFORE, AFTER = wanted("changed"), wanted("changed", version=1, trigger_at_ms=DUE_MS + 500)
FAILING, FAR = wanted("failing", "fail"), wanted("far", trigger_at_ms=END_MS + 60_000)
BATCH = [wanted("b1"), wanted("b2"), wanted("b3", bad=True)]
KEYED, REFUSED, REFIRED = wanted("keyed"), wanted("refused"), wanted("refired")
EXPIRING = wanted("expiring", expires_at_ms=DUE_MS + 500)
STOPPED = wanted("stopped", "busy", retries=3, delays_ms=(1000,))
SILENT = wanted("silent", "never", timeout_s=2)
MISSING: dict[str, Any] = {"retries": 1, "delays_ms": (1000,), "labels": ("mail", "eu")}
ON_ANY = wanted("any", "missing", retry_on="any", **MISSING)
FINAL = wanted("404", "missing", **MISSING)
PAGE: dict[str, Any] = {"reference": "page-1", "on_existing": "replace"}
FIRST, LAST = wanted("first", **PAGE), wanted("last", **PAGE)
BOUNDED = wanted("bounded", **PAGE | {"trigger_at_ms": END_MS, "max_wait_ms": DUE_MS - START_MS})
KEEPS = wanted("keeps", **PAGE | {"on_existing": "keep"})


def sound() -> History:
    """A history in which everything that can happen did, and every promise held."""
    it = History()
    it.fire(PLAIN)
    it.fire(ONCE)
    it.call("create", [CANCELLED])
    it.call("cancel", schedule_id=sch("cancelled"))
    it.store(CANCELLED, "cancelled")
    it.call("create", [BEFORE])
    it.call("change", [AFTER], schedule_id=sch("changed"))
    it.arrive(AFTER)
    it.store(AFTER, at_ms=AFTER.trigger_at_ms + 9)
    it.call("create", [FAR])
    it.store(FAR, "scheduled")
    it.call("batch", BATCH)
    for each in BATCH[:2]:
        it.arrive(each)
        it.store(each)
    it.call("create", [KEYED], "unknown", key="k")
    it.call("create", [KEYED], key="k", replayed=True)
    it.arrive(KEYED)
    it.store(KEYED)
    it.call("create", [REFUSED], "fail")
    it.fault("kill", "worker 1", KILLED_MS, KILLED_MS + 500)
    it.fire(REFIRED, at_ms=KILLED_MS + LEASE_MS + 5)
    it.arrive(REFIRED, 2, KILLED_MS + LEASE_MS)
    it.fire(GIVEN_UP, "failed", 0, LOST, at_ms=KILLED_MS + LEASE_MS)
    it.call("create", [EXPIRING])
    it.store(EXPIRING, "failed", 0, EXPIRED, at_ms=DUE_MS + 700)
    it.call("create", [STOPPED])
    it.retry(STOPPED, 1, DUE_MS + 5, DUE_MS + 1100)
    it.call("cancel", schedule_id=sch("stopped"), became={sch("stopped"): "failed"})
    it.store(STOPPED, "failed", 503, "Service Unavailable", at_ms=DUE_MS + 500)
    it.call("create", [ON_ANY])
    it.retry(ON_ANY, 1, DUE_MS + 5, DUE_MS + 1100)
    it.arrive(ON_ANY, 2, DUE_MS + 1105)
    it.store(ON_ANY, "failed", 404, "Not Found", at_ms=DUE_MS + 1110, attempt=2)
    it.fire(FINAL, "failed", 404, "Not Found")
    it.fire(FAILING, "failed", 500, "Internal Server Error")
    it.fire(SILENT, "failed", 0, "Timeout after 2 seconds", at_ms=DUE_MS + 2003)
    it.share(FIRST, LAST, KEEPS)
    it.share(BOUNDED)
    it.call("create", [wanted("among several", **PAGE)], "fail", status=409)
    sound_lanes(it)
    sound_callbacks(it)
    sound_recurring(it)
    sound_messages(it)
    it.fault("on hold", "service", HOLD_MS, HOLD_MS + 10_000)
    return it


def test_a_sound_history_holds_and_its_promises_were_looked_at() -> None:
    verdict = sound().judged()
    assert verdict.breaches == []
    assert {row.promise for row in verdict.rows if row.looked_at} >= PLANTED.keys()
    assert len(verdict.rows) == len(PROMISES) + len(BOOKS) + 2


def entry(tag: str, **fields: Any) -> Plant:
    def plant(it: History) -> None:
        it.log[tag] = msgspec.structs.replace(it.log[tag], **fields)

    return plant


def without_faults(it: History) -> None:
    it.events = [event for event in it.events if not isinstance(event, Fault)]


def stored_twice(it: History) -> None:
    it.further.append(msgspec.structs.replace(it.log["keyed"], schedule_id="sch_other"))


def two_wait(it: History) -> None:
    for each in ("one", "other"):
        far = wanted(each, **PAGE | {"trigger_at_ms": END_MS + 60_000})
        it.call("create", [far], "unknown")
        it.store(far, "scheduled")


def final_is_made_again(it: History) -> None:
    it.retry(FINAL, 1, DUE_MS + 5, DUE_MS + 1100)


def any_is_not_made_again(it: History) -> None:
    it.further = [each for each in it.further if each.schedule_id != sch("any")]


def one_is_stored_beside_another(it: History) -> None:
    far = wanted("far one", **PAGE | {"trigger_at_ms": END_MS + 60_000})
    it.call("create", [far])
    it.store(far, "scheduled")
    it.fire(wanted("beside", **PAGE))


def an_older_one_stands(it: History) -> None:
    it.log["last"] = entry_of(FIRST)


def a_kept_one_is_replaced(it: History) -> None:
    it.log["last"] = entry_of(KEEPS, schedule_id=sch("first"))


def one_is_lost(it: History) -> None:
    del it.log["last"]


def the_replaced_one_arrives(it: History) -> None:
    it.arrive(FIRST)


def no_reference_no_409(it: History) -> None:
    it.call("create", [wanted("several", reference="page-1")], "fail", status=409)


def get_disagrees(it: History) -> None:
    it.bodies["sch_plain"] = {"status": "failed"}


def unknown_to_get(it: History) -> None:
    it.call("read", result="fail", status=404, schedule_id=sch("plain"))


PLANTED: dict[str, list[Plant]] = {
    **PLANTED_IN_LANES,
    **PLANTED_IN_CALLBACKS,
    **PLANTED_IN_RECURRING,
    "acknowledged: it is there": [
        lambda it: it.log.pop("plain"),
        lambda it: it.bodies.update(sch_plain=None),
    ],
    "a batch is whole": [lambda it: it.log.pop("b2")],
    "an Idempotency-Key is done once": [
        lambda it: [it.call("create", [KEYED], key="k") for _ in range(2)]
    ],
    "a repeated create is one schedule": [stored_twice],
    "refused: nothing stored": [lambda it: it.store(REFUSED), lambda it: it.arrive(REFUSED)],
    "due: it ends": [entry("plain", status="scheduled", executed_at=None)],
    "it ends as the target answered": [
        lambda it: it.arrivals.pop(0),
        entry("failing", status="completed"),
        entry("plain", status="failed", error_message=LOST),
        entry("expiring", executed_at=iso(DUE_MS + 100)),
        entry("silent", error_message="Timeout after 30 seconds"),
    ],
    "never early": [last_arrival(PLAIN.path, at_ms=DUE_MS - 0.5)],
    "at-most-once: once": [lambda it: it.arrive(ONCE, 2)],
    "at-least-once: attempts rise": [last_arrival(REFIRED.path, attempt=1)],
    "sent again: a worker had lost it": [
        without_faults,
        last_arrival(REFIRED.path, at_ms=KILLED_MS + 500 + LEASE_MS + SLACK_MS + 1),
    ],
    "given up: a worker had lost it": [without_faults],
    "retried: as asked, and no sooner": [final_is_made_again, any_is_not_made_again],
    "stopped: no attempt follows": [lambda it: it.arrive(STOPPED, 2, DUE_MS + 8000)],
    "on hold: nothing goes out": [last_arrival(PLAIN.path, at_ms=HOLD_MS + SLACK_MS + 1)],
    "cancelled: never fires": [
        lambda it: it.arrive(CANCELLED),
        entry("plain", status="cancelled"),
    ],
    "changed: as told": [
        entry("bounded", scheduled_at=iso(DUE_MS + 1000)),
        lambda it: it.store(BEFORE),
        lambda it: it.arrive(BEFORE),
    ],
    "expired: not sent": [lambda it: it.arrive(EXPIRING, 1, DUE_MS + 40_000)],
    "one log entry, as GET tells": [
        lambda it: it.further.append(it.log["plain"]),
        get_disagrees,
        entry("any", labels=("mail",)),
        lambda it: it.bodies.update(sch_404={"labels": []}),
    ],
    "fired in time": [last_arrival(PLAIN.path, at_ms=LONG_AFTER_MS)],
    "fired again in time": [last_arrival(REFIRED.path, at_ms=LONG_AFTER_MS)],
    "ended in time": [entry("plain", executed_at=iso(LONG_AFTER_MS))],
    "answers: 503 is the only five": [unknown_to_get, no_reference_no_409],
    "the ledger balances": [lambda it: it.end.update(credits=80)],
    "statistics agree with the log": [lambda it: it.end.update(stats={})],
    "the list agrees with the log": [lambda it: it.end.update(waiting=[])],
    "onExisting: one waits, the last stands": [
        two_wait,
        one_is_stored_beside_another,
        an_older_one_stands,
        a_kept_one_is_replaced,
        one_is_lost,
        the_replaced_one_arrives,
    ],
    "nothing that nobody asked for": [
        lambda it: it.store(wanted("whose")),
        lambda it: it.arrive(wanted("whose")),
    ],
    "`postdate check` finds nothing": [lambda it: it.problems.append("it does not balance")],
    "healed: all live, and answer": [lambda it: it.mishaps.append("worker 1 ended by itself")],
}


@pytest.mark.parametrize(
    ("promise", "plant"),
    [
        (promise, each)
        for planted in (PLANTED, PLANTED_IN_MESSAGES)
        for promise, some in planted.items()
        for each in some
    ],
)
def test_a_planted_breach_is_told(promise: str, plant: Plant) -> None:
    history = sound()
    plant(history)
    verdict = history.judged()
    assert verdict.row(promise).breaches, table(verdict)
    assert f"Broken: {promise}" in table(verdict)


def test_every_promise_has_a_planted_breach() -> None:
    in_the_service = {defect.tests[0] for defect in DEFECTS}
    planted = PLANTED.keys() | PLANTED_IN_MESSAGES.keys()
    assert planted | in_the_service == {row.promise for row in sound().judged().rows}
