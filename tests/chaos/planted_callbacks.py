"""Callbacks in a sound history, and breaches of their promises, for `test_verdict`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tests.chaos.history import NO_CALLBACK, Arrival, Asked, Entry, to_ms
from tests.chaos.planted_lanes import START_MS

# Long after the faults and the hold of the history, and before its lanes.
_DUE_MS = START_MS + 45_000
_ENDED_MS = _DUE_MS + 10
_AGAIN_MS = 10_500


def _wanted(tag: str, **fields: Any) -> Asked:
    return Asked(tag, "ok", _DUE_MS, **fields)


_CALLED = _wanted("called", callback="ok", lane="rated", reference="r")
_REFUSED = _wanted("called twice", callback="failing")
_UNCALLED = _wanted("of failures", callback="ok", callback_on="failed")
_GONE = _wanted("gone", callback="ok")
_RESENT = _wanted("resent", callback="failing", callback_on="failed")
# When it is sent again, from its end on.
_RESENDS_MS = (2000, 14_000)


def sound_callbacks(it: Any) -> None:
    """`it` is a History. One is accepted at once, one is refused first, two are not wanted, and one
    that was not is sent again, refused first, and then once more."""
    for each in (_CALLED, _REFUSED):
        it.fire(each, at_ms=_ENDED_MS)
        it.bodies[f"sch_{each.tag}"] = _body(it.log[each.tag], each, "delivered")
    _report(it, _CALLED)
    _report(it, _REFUSED)
    _report(it, _REFUSED, 2, _AGAIN_MS)
    it.fire(_UNCALLED, at_ms=_ENDED_MS)
    it.fire(_wanted("of none", callback=NO_CALLBACK), at_ms=_ENDED_MS)
    it.fire(_RESENT, at_ms=_ENDED_MS)
    it.bodies["sch_resent"] = _body(it.log["resent"], _RESENT, "delivered")
    for after_ms, result in zip(_RESENDS_MS, ("ok", "unknown"), strict=True):
        _resend(it, result, after_ms)
        _report(it, _RESENT, 1, after_ms + 5)
        _report(it, _RESENT, 2, after_ms + 5 + _AGAIN_MS)
    _resend(it, "fail", 15_000)
    it.call("create", [_GONE])
    it.call("cancel", [], schedule_id="sch_gone")
    it.store(_GONE, "cancelled")


def _body(entry: Entry, asked: Asked, status: str) -> dict[str, Any]:
    return {
        "status": entry.status,
        "targetUrl": entry.target_url,
        "triggerAt": entry.scheduled_at,
        "executedAt": entry.executed_at,
        "errorMessage": entry.error_message,
        "lane": asked.lane,
        "reference": asked.reference,
        "callback": {"status": status},
    }


def _resend(it: Any, result: str, after_ms: float) -> None:
    """A call, so long after the end."""
    it.call("resend", [], result, schedule_id="sch_resent", status=202 if result == "ok" else 0)
    at = {"wall_ms": _ENDED_MS + after_ms}
    it.events[-2:] = [msgspec.structs.replace(each, **at) for each in it.events[-2:]]


def _report(
    it: Any, asked: Asked, attempt: int = 1, after_ms: float = 5, of: str = "cbk_", **said: Any
) -> None:
    """A callback arrives, so long after the end."""
    entry = it.log[asked.tag]
    named = {"lane": asked.lane, "reference": asked.reference}
    data = {
        "scheduleId": entry.schedule_id,
        "invocationId": f"inv_{asked.tag}",
        **{name: value for name, value in named.items() if value},
        "targetUrl": entry.target_url,
        "targetMethod": "POST",
        "triggerAt": entry.scheduled_at,
        "executedAt": entry.executed_at,
        "status": entry.status,
        "statusCode": entry.status_code,
        "responseTimeMs": entry.response_time_ms,
        "errorMessage": entry.error_message,
        "attempts": 1,
    }
    ended_at = entry.executed_at or entry.scheduled_at
    report = {"type": f"schedule.{entry.status}", "timestamp": ended_at, "data": data | said}
    signed = (of + asked.tag, "", "")
    body = msgspec.json.encode(report).decode()
    at_ms, path = to_ms(ended_at) + after_ms, asked.callback_path
    it.arrivals.append(Arrival(at_ms, entry.schedule_id, attempt, "", path, signed, body))


def _none_arrives(it: Any) -> None:
    it.arrivals = [each for each in it.arrivals if each.path != _CALLED.callback_path]


def _it_is_only_refused(it: Any) -> None:
    it.arrivals = [
        each for each in it.arrivals if each.path != _REFUSED.callback_path or each.attempt == 1
    ]


def _a_resend_is_lost(it: Any) -> None:
    _resend(it, "ok", 30_000)


def _one_that_is_sent_again_is_only_refused(it: Any) -> None:
    it.arrivals = [
        each for each in it.arrivals if each.path != _RESENT.callback_path or each.attempt == 1
    ]


def _it_stays_pending(it: Any) -> None:
    it.bodies["sch_called"]["callback"]["status"] = "pending"


def _all_come_late(it: Any) -> None:
    _none_arrives(it)
    _report(it, _CALLED, after_ms=20_000)


Plant = Callable[[Any], object]
PLANTED_IN_CALLBACKS: dict[str, list[Plant]] = {
    "called back: as it ended": [
        _none_arrives,
        _it_is_only_refused,
        _a_resend_is_lost,
        _one_that_is_sent_again_is_only_refused,
        _it_stays_pending,
        lambda it: _report(it, _CALLED, of="inv_"),
        lambda it: _report(it, _CALLED, statusCode=500),
        lambda it: _report(it, _CALLED, after_ms=-5),
    ],
    "called back: none that wants none": [
        lambda it: _report(it, _UNCALLED),
        lambda it: _report(it, _GONE),
    ],
    "called back again: lost or refused": [
        lambda it: _report(it, _CALLED, after_ms=2000),
        lambda it: _report(it, _CALLED, 2, _AGAIN_MS),
        lambda it: _report(it, _RESENT, 1, 27_000),
    ],
    "called back in time": [_all_come_late],
    "on hold: no callback goes out": [lambda it: _report(it, _CALLED, after_ms=-20_000)],
}
