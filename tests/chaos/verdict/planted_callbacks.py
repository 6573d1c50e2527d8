"""Callbacks in a sound history, and breaches of their promises, for `test_verdict`."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.chaos.history import (
    NO_CALLBACK,
    Arrival,
    Asked,
    Limits,
    Result,
    Seen,
    answer_to,
    iso,
    to_ms,
)
from tests.chaos.verdict.callbacks import ASKED_S, REFUSED
from tests.chaos.verdict.planted import START_MS, History, Plant, body_of, last_arrival

# Long after the faults and the hold of the history, and before its lanes.
_DUE_MS = START_MS + 45_000
_ENDED_MS = _DUE_MS + 10
_AGAIN_MS = 10_500
_AS_ASKED_MS = 1000 * ASKED_S + 500


def _wanted(tag: str, **fields: Any) -> Asked:
    return Asked(tag, "ok", _DUE_MS, **fields)


_CALLED = _wanted("called", callback="ok", lane="rated", reference="r", included=True)
_FAILED = Asked("ended badly", "fail", _DUE_MS, callback="ok", failure_callback="ok")
_REFUSED = _wanted("called twice", callback="500")
_ASKED = _wanted("called when asked", callback="429")
_FOR_GOOD = _wanted("refused for good", callback=REFUSED)
_UNCALLED = _wanted("of failures", callback="ok", callback_on="failed")
_GONE = _wanted("gone", callback="ok")
_RESENT = _wanted("resent", callback="500", callback_on="failed")
# When it is sent again, from its end on.
_RESENDS_MS = (2000, 14_000)


def sound_callbacks(it: History) -> None:
    """One is accepted at once, two are refused first, one is refused for good, two are not wanted,
    and one that was not is sent again, refused first, and then once more."""
    for each in (_CALLED, _REFUSED, _ASKED, _FOR_GOOD):
        it.fire(each, at_ms=_ENDED_MS)
        status = "failed" if each is _FOR_GOOD else "delivered"
        told = {"lane": each.lane, "reference": each.reference}
        it.bodies[f"sch_{each.tag}"] = {**told, "callback": {"status": status}}
        _report(it, each)
    _report(it, _REFUSED, 2, _AGAIN_MS)
    _report(it, _ASKED, 2, _AS_ASKED_MS)
    _see(it, _CALLED, due_after_ms=0)
    it.fire(_FAILED, "failed", 500, "Internal Server Error", at_ms=_ENDED_MS)
    it.bodies["sch_ended badly"] = {"callback": {"status": "delivered"}}
    _report(it, _FAILED)
    it.fire(_UNCALLED, at_ms=_ENDED_MS)
    it.fire(_wanted("of none", callback=NO_CALLBACK), at_ms=_ENDED_MS)
    it.fire(_RESENT, at_ms=_ENDED_MS)
    it.bodies["sch_resent"] = {"callback": {"status": "delivered"}}
    for after_ms, result in zip(_RESENDS_MS, ("ok", "unknown"), strict=True):
        _resend(it, result, after_ms)
        _report(it, _RESENT, 1, after_ms + 5)
        _report(it, _RESENT, 2, after_ms + 5 + _AGAIN_MS)
    _resend(it, "fail", 15_000)
    it.call("create", [_GONE])
    it.call("cancel", schedule_id="sch_gone")
    it.store(_GONE, "cancelled")


def _see(it: History, asked: Asked, due_after_ms: float | None) -> None:
    """A read sees the end, and the callback due so long after it; None: no callback."""
    entry, state = it.log[asked.tag], None
    if due_after_ms is not None:
        due = iso(_ENDED_MS + due_after_ms)
        state = {"status": "pending", "attempts": 0, "nextAttemptAt": due}
    seen = Seen(entry.status, entry.executed_at, state)
    it.call("read", schedule_id=entry.schedule_id, seen=seen)


def _resend(it: History, result: Result, after_ms: float) -> None:
    """A call, so long after the end."""
    about = {"schedule_id": "sch_resent", "status": 202 if result == "ok" else 0}
    it.call("resend", result=result, at_ms=_ENDED_MS + after_ms, **about)


def _report(
    it: History, asked: Asked, attempt: int = 1, after_ms: float = 5, of: str = "cbk_", **said: Any
) -> None:
    """A callback arrives, so long after the end."""
    entry = it.log[asked.tag]
    named = {"lane": asked.lane, "reference": asked.reference}
    data = body_of(entry) | {
        "scheduleId": entry.schedule_id,
        "invocationId": f"inv_{asked.tag}",
        **{name: value for name, value in named.items() if value},
        "targetMethod": "POST",
        "statusCode": entry.status_code,
        "responseTimeMs": entry.response_time_ms,
        "attempts": 1,
    }
    if asked.asks:
        body = answer_to(asked.path, entry.attempt)
        headers = {"content-length": [str(len(body))]}
        data |= {"responseHeaders": headers, "responseBody": body, "responseCut": False}
    ended_at = entry.executed_at or entry.scheduled_at
    report = {"type": f"schedule.{entry.status}", "timestamp": ended_at, "data": data | said}
    signed = (of + asked.tag, "", "")
    body = msgspec.json.encode(report).decode()
    path = asked.callback_path
    if entry.status == "failed" and asked.failure_callback:
        path = asked.failure_path
    at_ms = to_ms(ended_at) + after_ms
    it.arrivals.append(Arrival(at_ms, entry.schedule_id, attempt, "", path, signed, body))


def _only(asked: Asked, most: int) -> Plant:
    """No callback of it arrives after so many attempts."""

    def plant(it: History) -> None:
        path = asked.callback_path
        it.arrivals = [each for each in it.arrivals if each.path != path or each.attempt <= most]

    return plant


def _stands(tag: str, status: str) -> Plant:
    """So GET says of its callback."""
    return lambda it: it.bodies[f"sch_{tag}"].update(callback={"status": status})


def _it_has_failed(it: History) -> None:
    _only(_REFUSED, 1)(it)
    _stands(_REFUSED.tag, "failed")(it)


def _all_come_late(it: History) -> None:
    _only(_CALLED, 0)(it)
    _report(it, _CALLED, after_ms=20_000)


def _an_account_is_paused_meanwhile(it: History) -> None:
    """It is no excuse."""
    _all_come_late(it)
    it.call("lane", limits=Limits("", paused_until_ms=_ENDED_MS + 15_000))


def _a_retry_comes(asked: Asked, after_ms: float) -> Plant:
    return last_arrival(asked.callback_path, at_ms=_ENDED_MS + after_ms)


def _failures_go_where_all_does(it: History) -> None:
    here = _FAILED.failure_path
    it.arrivals = [
        msgspec.structs.replace(each, path=_FAILED.callback_path) if each.path == here else each
        for each in it.arrivals
    ]


PLANTED_IN_CALLBACKS: dict[str, list[Plant]] = {
    "called back: as it ended": [
        _only(_CALLED, 0),
        _only(_REFUSED, 1),
        _it_has_failed,
        _stands(_FOR_GOOD.tag, "delivered"),
        lambda it: _resend(it, "ok", 30_000),
        _only(_RESENT, 1),
        _stands(_CALLED.tag, "pending"),
        lambda it: _report(it, _CALLED, of="inv_"),
        lambda it: _report(it, _CALLED, statusCode=500),
        lambda it: _report(it, _CALLED, responseBody="another"),
        lambda it: _report(it, _CALLED, responseDropped=True),
        lambda it: _report(it, _FAILED, responseBody="unasked"),
        _failures_go_where_all_does,
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
