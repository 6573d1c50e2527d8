"""Callbacks in a sound history, and breaches of their promises, for `test_verdict`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from tests.chaos.history import NO_CALLBACK, Arrival, Asked, Entry, Limits, Seen, to_ms
from tests.chaos.verdict.callbacks import ASKED_S, REFUSED
from tests.chaos.verdict.planted_lanes import START_MS

Plant = Callable[[Any], object]

# Long after the faults and the hold of the history, and before its lanes.
_DUE_MS = START_MS + 45_000
_ENDED_MS = _DUE_MS + 10
_AGAIN_MS = 10_500
_AS_ASKED_MS = 1000 * ASKED_S + 500


def _wanted(tag: str, **fields: Any) -> Asked:
    return Asked(tag, "ok", _DUE_MS, **fields)


_CALLED = _wanted("called", callback="ok", lane="rated", reference="r")
_REFUSED = _wanted("called twice", callback="500")
_ASKED = _wanted("called when asked", callback="429")
_FOR_GOOD = _wanted("refused for good", callback=REFUSED)
_UNCALLED = _wanted("of failures", callback="ok", callback_on="failed")
_GONE = _wanted("gone", callback="ok")
_RESENT = _wanted("resent", callback="500", callback_on="failed")
# When it is sent again, from its end on.
_RESENDS_MS = (2000, 14_000)


def sound_callbacks(it: Any) -> None:
    """`it` is a History. One is accepted at once, two are refused first, one is refused for good,
    two are not wanted, and one that was not is sent again, refused first, and then once more."""
    for each in (_CALLED, _REFUSED, _ASKED, _FOR_GOOD):
        it.fire(each, at_ms=_ENDED_MS)
        status = "failed" if each is _FOR_GOOD else "delivered"
        it.bodies[f"sch_{each.tag}"] = _body(it.log[each.tag], each, status)
        _report(it, each)
    _report(it, _REFUSED, 2, _AGAIN_MS)
    _report(it, _ASKED, 2, _AS_ASKED_MS)
    _see(it, _CALLED, due_after_ms=0)
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


def _see(it: Any, asked: Asked, due_after_ms: float | None) -> None:
    """A read sees the end, and the callback due so long after it; None: no callback."""
    entry, state = it.log[asked.tag], None
    if due_after_ms is not None:
        due = datetime.fromtimestamp((_ENDED_MS + due_after_ms) / 1000, UTC)
        at = due.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        state = {"status": "pending", "attempts": 0, "nextAttemptAt": at}
    seen = Seen(entry.status, entry.executed_at, state)
    it.call("read", [], schedule_id=entry.schedule_id, seen=seen)


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


def _it_has_failed(it: Any) -> None:
    _it_is_only_refused(it)
    it.bodies["sch_called twice"]["callback"]["status"] = "failed"


def _all_come_late(it: Any) -> None:
    _none_arrives(it)
    _report(it, _CALLED, after_ms=20_000)


def _an_account_is_paused_meanwhile(it: Any) -> None:
    """It is no excuse."""
    _all_come_late(it)
    until_ms = round(_ENDED_MS) + 15_000
    it.call("lane", [], limits=Limits("", paused_until_ms=until_ms))


def _a_retry_comes(asked: Asked, after_ms: float) -> Plant:
    def plant(it: Any) -> None:
        [(place, again)] = [
            (place, each)
            for place, each in enumerate(it.arrivals)
            if each.path == asked.callback_path and each.attempt == 2
        ]
        it.arrivals[place] = msgspec.structs.replace(again, at_ms=_ENDED_MS + after_ms)

    return plant


PLANTED_IN_CALLBACKS: dict[str, list[Plant]] = {
    "called back: as it ended": [
        _none_arrives,
        _it_is_only_refused,
        _it_has_failed,
        lambda it: it.bodies["sch_refused for good"]["callback"].update(status="delivered"),
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
        lambda it: _report(it, _FOR_GOOD, 2, _AGAIN_MS),
        _a_retry_comes(_REFUSED, 9000),
        _a_retry_comes(_ASKED, _AGAIN_MS),
        lambda it: _report(it, _RESENT, 1, 27_000),
    ],
    "called back: set with the end": [
        lambda it: _see(it, _CALLED, due_after_ms=None),
        lambda it: _see(it, _CALLED, due_after_ms=500),
    ],
    "called back in time": [_all_come_late, _an_account_is_paused_meanwhile],
    "called back again in time": [
        _a_retry_comes(_REFUSED, 24_000),
        _a_retry_comes(_ASKED, 28_000),
        lambda it: _report(it, _CALLED, 2, 12_000),
    ],
    "on hold: no callback goes out": [lambda it: _report(it, _CALLED, after_ms=-20_000)],
}
