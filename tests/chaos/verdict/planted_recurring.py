"""A recurring schedule in a sound history, and breaches of its promises, for `test_verdict`."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.chaos.history import Asked, Kind, Ruled, Skipped, iso
from tests.chaos.verdict.planted import START_MS, History, Plant, entry_of

# Long after the faults and the hold of the history, and before its lanes.
_BEGINS_MS = START_MS + 50_000
_EVERY_MS = 1000
_PAUSED_MS, _RESUMED_MS = _BEGINS_MS + 5500, _BEGINS_MS + 8500
_FAR_MS = 3_600_000
_RULED = Ruled("rule", "ok", _EVERY_MS, _BEGINS_MS)
_FAR = Ruled("rule", "ok", _FAR_MS, _BEGINS_MS + _FAR_MS, version=1)
_GONE = Ruled("gone", "ok", _EVERY_MS, _BEGINS_MS)
# Its occurrence gets an earlier time, and is due again after the rule has had other times.
_MOVED = Ruled("moved", "ok", _FAR_MS, _BEGINS_MS + 10_000)
_MOVED_TO_MS, _OTHERWISE_MS, _PUT_OFF_MS = _BEGINS_MS + 50, _BEGINS_MS + 100, _BEGINS_MS + 2900
_OTHERWISE = Ruled("moved", "ok", _EVERY_MS, _BEGINS_MS + 300, version=1)
_WAITS = "sch_rulefar"


def sound_recurring(it: History) -> None:
    """A rule is sent, one occurrence cancelled, one time skipped; it is paused, resumed, triggered,
    and put off. Another one is deleted. Of a third one, a lost worker had an occurrence before its
    slot, which takes the place of all times up to that slot."""
    it.end |= {"rules": [], "skipped": []}
    _call(it, "rule", _BEGINS_MS - 100, ruled=_RULED, ids=["sch_rule0"])
    for number in (0, 1, 3, 4, 9, 10, 11, 12):
        _fire(it, number)
    _store(it, "sch_rule2", _slot(2), "cancelled")
    _call(it, "cancel", _slot(1) + 5, schedule_id="sch_rule2")
    it.end["skipped"].append(Skipped("rec_rule", iso(_slot(5)), 1))
    _call(it, "rule pause", _PAUSED_MS)
    _store(it, "sch_rule6", _slot(6), "cancelled")
    _call(it, "rule resume", _RESUMED_MS)
    _call(it, "rule trigger", _RESUMED_MS, key="t", ids=["sch_now"])
    _store(it, "sch_now", _RESUMED_MS, "completed", slot=False)
    _arrive(it, "sch_now", _RESUMED_MS)
    _call(it, "rule change", _slot(12) + 500, ruled=_FAR)
    _store(it, _WAITS, _FAR.anchor_ms, "scheduled", ruled=_FAR)
    it.end["rules"].append(_body("active", _WAITS))
    _call(it, "rule", _BEGINS_MS + 5, rule="gone", ruled=_GONE)
    _call(it, "rule delete", _BEGINS_MS + 100, rule="gone")
    _call(it, "rule", _BEGINS_MS, rule="moved", ruled=_MOVED, ids=["sch_moved"])
    _call(it, "rule change", _OTHERWISE_MS, rule="moved", ruled=_OTHERWISE)
    far = msgspec.structs.replace(_FAR, tag="moved", version=2)
    _call(it, "rule change", _PUT_OFF_MS, rule="moved", ruled=far)
    _store(it, "sch_moved", _MOVED_TO_MS, "completed", ruled=_MOVED, at_ms=_PUT_OFF_MS + 100)
    it.bodies["sch_moved"]["slot"] = iso(_MOVED.anchor_ms)
    it.arrive(_asked(_MOVED_TO_MS, _MOVED), at_ms=_PUT_OFF_MS + 100, schedule_id="sch_moved")
    _store(it, "sch_movedfar", far.anchor_ms, "scheduled", ruled=far)
    it.end["rules"].append(_body("active", "sch_movedfar", far))


def _slot(number: int) -> float:
    return _BEGINS_MS + number * _EVERY_MS


def _call(it: History, kind: Kind, at_ms: float, rule: str = "rule", **fields: Any) -> None:
    rule = rule if kind.startswith("rule") else ""
    it.call(kind, at_ms=at_ms, rule=rule, **{"ids": []} | fields)


def _fire(it: History, number: int, schedule_id: str = "") -> None:
    schedule_id = schedule_id or f"sch_rule{number}"
    _store(it, schedule_id, _slot(number), "completed")
    _arrive(it, schedule_id, _slot(number))


def _asked(due_ms: float, ruled: Ruled = _RULED) -> Asked:
    return Asked(ruled.tag, ruled.behaviour, round(due_ms), version=ruled.version)


def _arrive(it: History, schedule_id: str, due_ms: float) -> None:
    it.arrive(_asked(due_ms), schedule_id=schedule_id)


def _store(
    it: History,
    schedule_id: str,
    due_ms: float,
    status: str,
    *,
    slot: bool = True,
    ruled: Ruled = _RULED,
    at_ms: float = 0,
) -> None:
    """An occurrence as log and GET show it."""
    of_rule = {"schedule_id": schedule_id, "recurring_id": f"rec_{ruled.tag}"}
    entry = entry_of(_asked(due_ms, ruled), status, at_ms=at_ms or due_ms + 10, **of_rule)
    it.further.append(entry)
    it.bodies[schedule_id] = {"slot": entry.scheduled_at if slot else None}


def _body(state: str, schedule_id: str | None, ruled: Ruled = _FAR) -> dict[str, Any]:
    target_url = f"http://127.0.0.1:9{ruled.path}"
    of_rule = {"recurringId": f"rec_{ruled.tag}", "targetUrl": target_url}
    return {**of_rule, "state": state, "scheduleId": schedule_id}


def _lost(*schedule_ids: str) -> Plant:
    def plant(it: History) -> None:
        it.further = [each for each in it.further if each.schedule_id not in schedule_ids]
        it.arrivals = [each for each in it.arrivals if each.schedule_id not in schedule_ids]

    return plant


def _one_more_waits(it: History) -> None:
    _store(it, "sch_other", _slot(20), "scheduled")


def _it_ended(it: History) -> None:
    it.end["rules"][0] = _body("ended", None)
    _lost(_WAITS)(it)


def _silent_before_a_pause(it: History) -> None:
    """The pause cancels a late occurrence, and the times behind that leave no entry."""
    _lost("sch_rule3", "sch_rule4")(it)
    _store(it, "sch_rule3", _slot(3), "cancelled")
    it.end["skipped"].clear()


PLANTED_IN_RECURRING: dict[str, list[Plant]] = {
    "a rule's slot: never two for one": [
        lambda it: _fire(it, 3, "sch_again"),
        lambda it: _fire(it, 5),
        lambda it: _store(it, "sch_odd", _slot(3) + 1, "completed"),
        lambda it: it.end["skipped"].append(Skipped("rec_rule", iso(_slot(4)), 1)),
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
