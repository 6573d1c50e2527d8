"""Messages of the QStash door in a sound history, and breaches of their promises, for
`test_verdict`."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import jwt
import msgspec

from tests.chaos.history import Arrival, Asked, answer_to, body_of, to_ms
from tests.chaos.verdict.planted import START_MS, History, Plant, last_arrival, sch

# After the hold of the history, and before its callbacks.
_DUE_MS = START_MS + 33_000
_DELAY_MS = 2000
_ROTATED_MS, _LATE_MS = _DUE_MS + 500, 8000
_KEYS = [f"sig_{n}" * 8 for n in range(4)]
_WANTED: dict[str, Any] = {"message": True, "retry_on": "any", "included": True}
_DELAYED = Asked("delayed", "ok", _DUE_MS, delay_ms=_DELAY_MS, callback="500", **_WANTED)
_AGAIN = Asked("again", "fail", _DUE_MS, retries=1, delays_ms=(1000,), once=True, **_WANTED)
_STOPPED = Asked("let go", "fail", _DUE_MS, retries=1, delays_ms=(1000,), **_WANTED)
_FROM_NOW_ON = Asked("from now on", "ok", _DUE_MS + _LATE_MS, **_WANTED)


def sound_messages(it: History) -> None:
    """One is reported at the second attempt, one is tried again and published twice, one cancelled
    between two attempts, and one sent long after the keys were rotated."""
    it.call("keys", keys=(_KEYS[0], _KEYS[1]), door=True)
    it.call("rotate keys", keys=(_KEYS[1], _KEYS[2]), door=True, at_ms=_ROTATED_MS)
    for each in (_AGAIN, _STOPPED, _FROM_NOW_ON):
        it.call("create", [each], door=True, status=200, key=each.tag if each.once else "")
    it.call("create", [_AGAIN], door=True, status=200, key=_AGAIN.tag, replayed=True)
    # Its delay counts from a moment after the call's beginning.
    due_ms = _DUE_MS + 40
    it.call("create", [_DELAYED], door=True, status=200, at_ms=due_ms - _DELAY_MS)
    delayed = msgspec.structs.replace(_DELAYED, trigger_at_ms=due_ms)
    _arrive(it, delayed)
    it.store(delayed, at_ms=due_ms + 10)
    it.bodies[sch("delayed")] = {"callback": {"status": "delivered"}}
    for attempt, after_ms in ((1, 15), (2, 10_500)):
        _report(it, delayed, attempt, after_ms)
    for each in (_AGAIN, _STOPPED):
        it.retry(each, 1, _DUE_MS + 5, _DUE_MS + 1100)
        it.arrivals.pop()
        _arrive(it, each)
    _arrive(it, _AGAIN, 2, _DUE_MS + 1105)
    failed = ("failed", 500, "Internal Server Error")
    it.store(_AGAIN, *failed, at_ms=_DUE_MS + 1110, attempt=2)
    it.call("cancel", at_ms=_DUE_MS + 400, schedule_id=sch("let go"), door=True)
    it.store(_STOPPED, *failed, at_ms=_DUE_MS + 401)
    _arrive(it, _FROM_NOW_ON, key=1)
    it.store(_FROM_NOW_ON, at_ms=_FROM_NOW_ON.trigger_at_ms + 10)


def _arrive(it: History, asked: Asked, attempt: int = 1, at_ms: float = 0, key: int = 0) -> None:
    body = body_of(asked.tag)
    token = _token(asked.path, body, at_ms or asked.trigger_at_ms, key)
    door = (f"msg_{asked.tag}", str(attempt - 1), token)
    it.arrive(asked, attempt, at_ms, body=body, door=door)


def _report(it: History, asked: Asked, attempt: int, after_ms: float, **said: Any) -> None:
    entry = it.log[asked.tag]
    answer = answer_to(asked.path, 1)
    report = {
        "status": 200,
        "header": {"Content-Length": [str(len(answer))]},
        "body": b64encode(answer.encode()).decode(),
        "retried": 0,
        "maxRetries": 0,
        "sourceMessageId": f"msg_{asked.tag}",
        "url": entry.target_url,
        "method": "POST",
        "sourceBody": b64encode(body_of(asked.tag).encode()).decode(),
        "createdAt": round(to_ms(entry.created_at)),
        "notBefore": asked.trigger_at_ms,
    }
    body, at_ms = json.dumps(report | said), asked.trigger_at_ms + after_ms
    signed = (f"cbk_{asked.tag}", "", "")
    key = int(at_ms > _ROTATED_MS)
    door = (f"msg_cbk_{asked.tag}", "0", _token(asked.callback_path, body, at_ms, key))
    path, schedule_id = asked.callback_path, entry.schedule_id
    it.arrivals.append(Arrival(at_ms, schedule_id, attempt, "", path, signed, body, door))


def _token(path: str, body: str, at_ms: float, key: int) -> str:
    digest = urlsafe_b64encode(hashlib.sha256(body.encode()).digest()).decode()
    seconds = int(at_ms // 1000) - 1
    claims = {"iss": "Upstash", "sub": f"http://127.0.0.1:9{path}", "body": digest}
    return jwt.encode(claims | {"nbf": seconds, "exp": seconds + 300}, _KEYS[key])


def _sent(asked: Asked, **changed: Any) -> Plant:
    """The last attempt has another id, number of retries or token."""
    values = {"id": f"msg_{asked.tag}", "retried": "0", "token": ""} | changed
    return last_arrival(asked.path, door=tuple(values.values()))


def _signed(asked: Asked, key: int, path: str = "", body: str = "", at_ms: float = 0) -> Plant:
    body, at_ms = body or body_of(asked.tag), at_ms or asked.trigger_at_ms
    return _sent(asked, token=_token(path or asked.path, body, at_ms, key))


def _is_due(after_ms: float) -> Plant:
    """So long after the first call for it that has a delay."""

    def plant(it: History) -> None:
        due_ms = _DUE_MS + round(after_ms)
        it.store(msgspec.structs.replace(_DELAYED, trigger_at_ms=due_ms))

    return plant


PLANTED_IN_MESSAGES: dict[str, list[Plant]] = {
    "a message: sent as receivers know it": [
        _sent(_DELAYED, id="msg_other"),
        _sent(_AGAIN, retried="0"),
        _signed(_DELAYED, 3),
        _signed(_FROM_NOW_ON, 0),
        _signed(_DELAYED, 0, path="/elsewhere"),
        _signed(_DELAYED, 0, body="another"),
        _signed(_DELAYED, 0, at_ms=_DUE_MS + 5000),
        last_arrival(_DELAYED.path, body="another"),
        lambda it: it.arrive(Asked("plain", "ok", _DUE_MS), door=("msg_plain", "0", "")),
        lambda it: _report(it, _DELAYED, 3, 10_600, retried=1),
        lambda it: _report(it, _FROM_NOW_ON, 1, 20),  # it has no URL of its own
    ],
    "called back: as it ended": [
        lambda it: _report(it, _DELAYED, 3, 10_600, status=201),
        lambda it: _report(it, _DELAYED, 3, 10_600, sourceMessageId="msg_other"),
        lambda it: _report(it, _DELAYED, 3, 10_600, header={}),
        lambda it: _report(it, _DELAYED, 3, 10_600, body=""),
    ],
    "changed: as told": [_is_due(-1000), _is_due(60_000)],
    "a repeated create is one schedule": [
        lambda it: it.call("create", [_AGAIN], door=True, status=200, ids=["sch_other"])
    ],
    "cancelled: never fires": [
        lambda it: it.call("cancel", schedule_id=sch("from now on"), door=True)
    ],
}
