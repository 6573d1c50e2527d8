"""A recurring schedule in a sound history, and breaches of its promises, for `test_verdict`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from tests.chaos.history import Answered, Arrival, Entry, Invoked, Kind, Result, Ruled, Skipped
from tests.chaos.verdict.planted_lanes import START_MS

# Long after the faults and the hold of the history, and before its lanes.
_BEGINS_MS = START_MS + 50_000
_EVERY_MS = 1000
_PAUSED_MS, _RESUMED_MS = _BEGINS_MS + 5500, _BEGINS_MS + 8500
_FAR_MS = 3_600_000
_RULED = Ruled("rule", "ok", _EVERY_MS, _BEGINS_MS)
_FAR = Ruled("rule", "ok", _FAR_MS, _BEGINS_MS + _FAR_MS, version=1)
_GONE = Ruled("gone", "ok", _EVERY_MS, _BEGINS_MS)
_WAITS = "sch_rulefar"


def sound_recurring(it: Any) -> None:
    """`it` is a History. A rule is sent, one occurrence cancelled, one time skipped; it is paused,
    resumed, triggered, and put off. Another one is deleted."""
    it.end |= {"rules": [], "skipped": []}
    _call(it, "rule", _BEGINS_MS - 100, ruled=_RULED, ids=["sch_rule0"])
    for number in (0, 1, 3, 4, 9, 10, 11, 12):
        _fire(it, number)
    _store(it, "sch_rule2", _slot(2), "cancelled")
    _call(it, "cancel", _slot(1) + 5, schedule_id="sch_rule2")
    it.end["skipped"].append(Skipped("rec_rule", _iso(_slot(5)), 1))
    _call(it, "rule pause", _PAUSED_MS)
    _store(it, "sch_rule6", _slot(6), "cancelled")
    _call(it, "rule resume", _RESUMED_MS)
    _call(it, "rule trigger", _RESUMED_MS, key="t", ids=["sch_now"])
    _store(it, "sch_now", _RESUMED_MS, "completed", slot=False)
    _arrive(it, "sch_now", _RESUMED_MS)
    _call(it, "rule change", _slot(12) + 500, ruled=_FAR)
    _store(it, _WAITS, _FAR.anchor_ms, "scheduled", ruled=_FAR)
    it.end["rules"].append(_body("active", _WAITS))
    _call(it, "rule", _BEGINS_MS, rule="gone", ruled=_GONE)
    _call(it, "rule delete", _BEGINS_MS + 100, rule="gone")


def _slot(number: int) -> float:
    return _BEGINS_MS + number * _EVERY_MS


def _call(
    it: Any, kind: Kind, at_ms: float, result: Result = "ok", rule: str = "rule", **about: Any
) -> None:
    """A call and its answer, which has `ids`."""
    op, ids = len(it.events), about.pop("ids", [])
    about["rule"] = rule if kind.startswith("rule") else ""
    status = {"ok": 201 if kind in ("rule", "rule trigger") else 200, "fail": 503, "unknown": 0}
    it.events.append(Invoked(op, "r0", "customer", kind, at_ms, **about))
    it.events.append(Answered(op, result, at_ms + 5, status=status[result], ids=ids))


def _fire(it: Any, number: int, schedule_id: str = "") -> None:
    schedule_id = schedule_id or f"sch_rule{number}"
    _store(it, schedule_id, _slot(number), "completed")
    _arrive(it, schedule_id, _slot(number))


def _arrive(it: Any, schedule_id: str, due_ms: float) -> None:
    it.arrivals.append(Arrival(due_ms + 2.5, schedule_id, 1, _iso(due_ms), _RULED.path))


def _store(
    it: Any,
    schedule_id: str,
    due_ms: float,
    status: str,
    *,
    slot: bool = True,
    ruled: Ruled = _RULED,
) -> None:
    """An occurrence as log and GET show it."""
    executed = status == "completed"
    entry = Entry(
        schedule_id=schedule_id,
        created_at=_iso(START_MS),
        scheduled_at=_iso(due_ms),
        executed_at=_iso(due_ms + 10) if executed else None,
        target_url=f"http://127.0.0.1:9{ruled.path}",
        status=status,
        status_code=200 if executed else 0,
        response_time_ms=2 if executed else 0,
        error_message="",
        recurring_id="rec_rule",
    )
    it.further.append(entry)
    it.bodies[schedule_id] = {
        "status": status,
        "targetUrl": entry.target_url,
        "triggerAt": entry.scheduled_at,
        "executedAt": entry.executed_at,
        "errorMessage": "",
        "slot": entry.scheduled_at if slot else None,
    }


def _body(state: str, schedule_id: str | None) -> dict[str, Any]:
    target_url = f"http://127.0.0.1:9{_FAR.path}"
    of_rule = {"recurringId": "rec_rule", "targetUrl": target_url}
    return {**of_rule, "state": state, "scheduleId": schedule_id}


def _iso(ms: float) -> str:
    text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _lost(*schedule_ids: str) -> Callable[[Any], object]:
    def plant(it: Any) -> None:
        it.further = [each for each in it.further if each.schedule_id not in schedule_ids]
        it.arrivals = [each for each in it.arrivals if each.schedule_id not in schedule_ids]

    return plant


def _one_more_waits(it: Any) -> None:
    _store(it, "sch_other", _slot(20), "scheduled")


def _it_ended(it: Any) -> None:
    it.end["rules"] = [_body("ended", None)]
    _lost(_WAITS)(it)


def _silent_before_a_pause(it: Any) -> None:
    """The pause cancels a late occurrence, and the times behind that leave no entry."""
    _lost("sch_rule3", "sch_rule4")(it)
    _store(it, "sch_rule3", _slot(3), "cancelled")
    it.end["skipped"].clear()


def _skipped_more(it: Any) -> None:
    it.end["skipped"] = [structs.replace(each, missed=2) for each in it.end["skipped"]]


Plant = Callable[[Any], object]
PLANTED_IN_RECURRING: dict[str, list[Plant]] = {
    "a rule's slot: never two for one": [
        lambda it: _fire(it, 3, "sch_again"),
        lambda it: _fire(it, 5),
        lambda it: _store(it, "sch_odd", _slot(3) + 1, "completed"),
        lambda it: it.end["skipped"].append(Skipped("rec_rule", _iso(_slot(4)), 1)),
    ],
    "a rule's slot: never none": [
        _lost("sch_rule3"),
        _lost("sch_rule11"),
        lambda it: it.end["skipped"].clear(),
        _silent_before_a_pause,
    ],
    "a rule: one waits while it is active": [
        _lost(_WAITS),
        _one_more_waits,
        lambda it: it.end.update(rules=[]),
    ],
    "a rule: as it was told": [
        _it_ended,
        lambda it: _fire(it, 7),
        lambda it: _store(it, "sch_unasked", _slot(3), "completed", slot=False),
        _lost("sch_now"),
    ],
}
