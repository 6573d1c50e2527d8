"""The customers of a run: each one does what its seed says, one call after the other, and writes
down its calls and their answers."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

import httpx
import msgspec

from tests.chaos.answers import told
from tests.chaos.history import (
    NO_CALLBACK,
    Answered,
    Asked,
    Invoked,
    Kind,
    Recorder,
    Result,
    iso,
    now_ms,
)
from tests.chaos.keeper import LANES, Keeper
from tests.chaos.verdict.callbacks import REFUSED, REFUSED_AT_FIRST

_PATIENCE_S = 12.0
_PAUSE_S = (0.0, 0.08)
_AHEAD_MS = (-200, 5000)
_FAR = 0.12
_FAR_MS = 3_600_000
_REPEATS = 4
_BEHAVIOURS = {"ok": 40, "slow": 25, "fail": 8, "busy": 4, "flaky": 10, "reset": 6, "never": 4}
_BEHAVIOURS |= {"missing": 3}
_CALLS: dict[Kind, float] = {
    "create": 40,
    "batch": 10,
    "cancel": 16,
    "cancel many": 3,
    "change": 14,
    "read": 10,
    "resend": 8,
    "replay": 4,
    "replay many": 3,
    "rotate": 0.3,
    "lane": 14,
}
# Those that may end with an answer that is retried, most of all.
_RETRIED = {"ok": 0.1, "fail": 0.5, "busy": 0.5, "flaky": 0.9, "reset": 0.5, "calming": 0.7}
_RETRIED |= {"missing": 0.8}
_DELAYS_MS = ((1000,), (1000, 2000))
_KEEP_FOR = ("0s", "4s", "30s", "30s")
_MANY = 6
# Retried after any answer that is not 2xx; of a target that answers 404, more.
_ON_ANY, _ON_ANY_OF_MISSING = 0.2, 0.7
LABELS = ("mail", "eu west", "a:b/c?", "~" * 64)
# References whose creates all have onExisting; what else has one has its own.
_SHARED = ("page-1", "page-2", "page-3")
_FAR_OF_SHARED = 0.4
_LONGEST_WAIT_MS = (500, 4000)
_TIMEOUT_S = (1, 2)
_REMEMBERED = 60
_CALLBACKS = {None: 46, NO_CALLBACK: 8, "ok": 20, "slow": 10, REFUSED: 2}
_CALLBACKS |= dict.fromkeys(REFUSED_AT_FIRST, 2)
_FAILURE_CALLBACKS = ("ok", "slow", "500")
_IN_LANES = 0.3
# In a lane none resets its connection, as the second sending is no start, and none is silent: that
# would keep a lane of parallelism 1 for longer than it can catch up with.
_IN_A_LANE = {"ok": 61, "slow": 14, "fail": 8, "busy": 6, "flaky": 8, "calming": 3}


class Customer(msgspec.Struct, frozen=True):
    """An account, its key, and where its target is."""

    account: str
    api_key: str
    target: str


class Client:
    """One of several that run side by side. `apis` are tried in turn: it goes on to the next one
    when one does not answer."""

    def __init__(
        self,
        name: str,
        customer: Customer,
        apis: list[str],
        seed: int,
        recorder: Recorder,
        *,
        keeps_lanes: bool = False,
    ) -> None:
        self.name = name
        self._keeper = Keeper(Random(f"{seed}:{name}:lanes")) if keeps_lanes else None
        self._customer = customer
        self._apis = apis
        self._random = Random(f"{seed}:{name}")
        self._recorder = recorder
        self._api = self._random.randrange(len(apis))
        self._made = 0
        self._known: dict[str, Asked] = {}
        self._shared: list[str] = []

    async def run(self, seconds: float) -> None:
        """Calls until the time is up; then finishes the call it is in."""
        end_s = asyncio.get_running_loop().time() + seconds
        async with self._connected() as self._http:
            await self._call("signing", "GET", "/signing")
            for each in self._keeper.begin() if self._keeper else ():
                await self._repeated("lane", **each)
            while asyncio.get_running_loop().time() < end_s:
                await self._something()
                await asyncio.sleep(self._random.uniform(*_PAUSE_S))

    def _connected(self) -> httpx.AsyncClient:
        headers = {"x-api-key": self._customer.api_key, "content-type": "application/json"}
        # Nothing here speaks TLS, and loading certificates takes as long as a fault lasts.
        return httpx.AsyncClient(headers=headers, timeout=_PATIENCE_S, verify=False)

    async def _something(self) -> None:
        [kind] = self._random.choices(list(_CALLS), list(_CALLS.values()))
        if kind == "lane" and self._keeper:
            await self._repeated(kind, **self._keeper.change())
            return
        if kind in ("create", "batch") or not self._known:
            await self._create(batch=kind == "batch")
            return
        schedule_id = self._random.choice(self._ended() if kind == "resend" else list(self._known))
        path = f"/schedule/{schedule_id}"
        match kind:
            case "cancel" if self._shared and self._random.random() < 0.3:
                shared_id = self._shared.pop()
                path = f"/schedule/{shared_id}"
                await self._repeated(kind, "DELETE", path, schedule_id=shared_id)
            case "cancel":
                del self._known[schedule_id]
                await self._repeated(kind, "DELETE", path, schedule_id=schedule_id)
            case "cancel many":
                await self._repeated(kind, "POST", "/schedule/cancel", **self._many(kind))
            case "change" if not self._known[schedule_id].retries:
                await self._change(schedule_id)
            case "replay" | "resend":
                await self._once_more(kind, schedule_id)
            case "replay many":
                about = {**self._many(kind), "key": self._some_key()}
                await self._repeated(kind, "POST", "/schedule/replay", **about)
            case "rotate":
                body = json.dumps({"keepFor": self._random.choice(_KEEP_FOR)})
                key = self._some_key(always=True)
                await self._repeated(kind, "POST", "/signing/rotate", body=body, key=key)
            case _:
                await self._call("read", "GET", path, schedule_id=schedule_id)

    async def _once_more(self, kind: Kind, schedule_id: str) -> None:
        about, path = {"schedule_id": schedule_id}, f"/schedule/{schedule_id}"
        if kind == "replay":
            await self._repeated(kind, "POST", f"{path}/replay", **about, key=self._some_key())
            return
        body = self._elsewhere(self._known[schedule_id])
        await self._repeated(kind, "POST", f"{path}/callback", **about, body=body)

    async def _repeated(self, kind: Kind, method: str, path: str, **about: Any) -> None:
        """One of unknown outcome is repeated, as a client would; what makes something new only
        under a key."""
        once = kind.startswith("replay") and not about["key"]
        for _ in range(1 if once else _REPEATS):
            answered = await self._call(kind, method, path, **about)
            if answered.result != "unknown":
                return
            await asyncio.sleep(self._random.uniform(0.1, 0.6))

    def _many(self, kind: Kind) -> dict[str, Any]:
        """Some that are named, one of them twice; for replays also what a filter finds."""
        if kind == "replay many" and self._random.random() < 0.5:
            # What waits for a shared reference may get another request before it is sent.
            found = {"status": "failed", "limit": 2, "reference": "order-*"}
            found |= {"label": LABELS[0]} if self._random.random() < 0.5 else {}
            return {"body": json.dumps(found)}
        ids = self._random.choices(list(self._known), k=_MANY)
        return {"schedule_ids": ids, "body": json.dumps({"ids": [*ids, ids[0]]})}

    def _ended(self) -> list[str]:
        """Those that may have; without any, all."""
        due = [each for each, asked in self._known.items() if asked.trigger_at_ms < round(now_ms())]
        return due or list(self._known)

    def _elsewhere(self, asked: Asked) -> str:
        """Sometimes a resend names a URL, where one had been named: a replay keeps it."""
        if asked.callback in (None, NO_CALLBACK) or self._random.random() < 0.5:
            return ""
        ended = msgspec.structs.replace(asked, callback="ok").callback_path
        return json.dumps({"callbackUrl": self._customer.target + ended})

    def _some_key(self, *, always: bool = False) -> str:
        self._made += 1
        return f"{self.name}-{self._made}" if always or self._random.random() < 0.5 else ""

    async def _create(self, *, batch: bool) -> None:
        """With a key it is repeated while it is not known to be done, and sometimes after that."""
        asked = [self._want(may_be_bad=batch) for _ in range(self._random.randint(1, 8))]
        asked = [self._shares(each) if self._random.random() < 0.25 else each for each in asked]
        if not batch:
            asked = asked[:1]
        key = f"{self.name}-{self._made}" if self._random.random() < 0.5 else ""
        once_more = self._random.random() < 0.3
        payloads = [self._payload(each) for each in asked]
        body = json.dumps({"schedules": payloads} if batch else payloads[0])
        kind: Kind = "batch" if batch else "create"
        path = "/schedule/batch" if batch else "/schedule"
        for _ in range(_REPEATS if key else 1):
            answered = await self._call(kind, "POST", path, body=body, asked=asked, key=key)
            self._remember(asked, answered)
            if answered.result == "ok":
                if not once_more:
                    return
                once_more = False
            else:
                await asyncio.sleep(self._random.uniform(0.1, 0.6))

    async def _change(self, schedule_id: str) -> None:
        before = self._known[schedule_id]
        fresh = self._unretried(expires=before.expires_at_ms is not None)
        version = before.version + 1
        wanted = msgspec.structs.replace(
            fresh,
            tag=before.tag,
            version=version,
            callback=fresh.callback or NO_CALLBACK,
            delivery=before.delivery,
            reference=before.reference and f"order-{before.tag}-{version}",
        )
        # Counted whatever comes of it: a version is wanted once.
        self._known[schedule_id] = wanted
        fields = (
            "timeout",
            "lane",
            "callbackUrl",
            "failureCallbackUrl",
            "callbackInclude",
            "labels",
        )
        payload = {**dict.fromkeys(fields), **self._payload(wanted)}
        del payload["delivery"]
        about = {"asked": [wanted], "schedule_id": schedule_id, "body": json.dumps(payload)}
        await self._call("change", "PATCH", f"/schedule/{schedule_id}", **about)

    def _want(self, *, may_be_bad: bool = False, expires: bool | None = None) -> Asked:
        """A new schedule, by the seed. Few are an hour ahead, to be cancelled, changed, or left."""
        random = self._random
        self._made += 1
        lane = random.choice(LANES) if random.random() < _IN_LANES else None
        among = _BEHAVIOURS if lane is None else _IN_A_LANE
        [behaviour] = random.choices(list(among), list(among.values()))
        far = random.random() < _FAR
        trigger_at_ms = round(now_ms()) + (_FAR_MS if far else random.randint(*_AHEAD_MS))
        if expires is None:
            expires = random.random() < 0.15
        retried = random.random() < _RETRIED.get(behaviour, 0.0)
        limited = behaviour == "never" and random.random() < 0.5
        on_any = _ON_ANY_OF_MISSING if behaviour == "missing" else _ON_ANY
        tag = f"{self.name}-{self._made}"
        [callback] = random.choices(list(_CALLBACKS), list(_CALLBACKS.values()))
        return Asked(
            tag=tag,
            behaviour=behaviour,
            trigger_at_ms=trigger_at_ms,
            delivery="at-most-once" if random.random() < 0.4 else "at-least-once",
            expires_at_ms=trigger_at_ms + random.randint(300, 4000) if expires else None,
            bad=may_be_bad and random.random() < 0.05,
            retries=random.randint(1, 3) if retried else 0,
            delays_ms=random.choice(_DELAYS_MS) if retried else (),
            timeout_s=random.randint(*_TIMEOUT_S) if limited else None,
            reference=f"order-{tag}" if random.random() < 0.5 else None,
            lane=lane,
            callback=callback,
            callback_on="failed" if random.random() < 0.2 else "executed",
            failure_callback=random.choice(_FAILURE_CALLBACKS) if random.random() < 0.3 else None,
            included=random.random() < 0.4,
            retry_on="any" if retried and random.random() < on_any else None,
            labels=tuple(random.sample(LABELS, random.choice((0, 0, 1, 3)))),
        )

    def _unretried(self, *, expires: bool | None = None, **fields: Any) -> Asked:
        """A new one with these fields, whose first answer counts."""
        wanted = self._want(expires=expires)
        return msgspec.structs.replace(wanted, retries=0, delays_ms=(), retry_on=None, **fields)

    def _shares(self, asked: Asked) -> Asked:
        """The same, for a reference that others have too. It has no retries, as what waits for one
        may be replaced after it has arrived."""
        random = self._random
        on_existing = random.choice(("keep", "replace", "replace"))
        bounded = on_existing == "replace" and random.random() < 0.4
        far_ms = _FAR_MS if random.random() < _FAR_OF_SHARED else 0
        return msgspec.structs.replace(
            asked,
            trigger_at_ms=asked.trigger_at_ms + far_ms,
            expires_at_ms=None,
            retries=0,
            delays_ms=(),
            retry_on=None,
            reference=random.choice(_SHARED),
            on_existing=on_existing,
            max_wait_ms=random.randint(*_LONGEST_WAIT_MS) if bounded else None,
        )

    def _payload(self, asked: Asked) -> dict[str, Any]:
        fields = {
            "targetUrl": self._customer.target + asked.path,
            "triggerAt": "no time" if asked.bad else iso(asked.trigger_at_ms),
            "delivery": asked.delivery,
            "expiresAt": asked.expires_at_ms and iso(asked.expires_at_ms),
            "retries": asked.retries or None,
            "retryDelays": [f"{each}ms" for each in asked.delays_ms] if asked.retries else None,
            "timeout": asked.timeout_s and f"{asked.timeout_s}s",
            "retryOn": asked.retry_on,
            "labels": asked.labels,
            "reference": asked.reference,
            "onExisting": asked.on_existing,
            "maxWait": asked.max_wait_ms and f"{asked.max_wait_ms}ms",
            "lane": asked.lane,
        }
        payload: dict[str, Any] = {each: value for each, value in fields.items() if value}
        if asked.callback == NO_CALLBACK:
            payload["callbackUrl"] = None
        elif asked.callback is not None:
            payload["callbackUrl"] = self._customer.target + asked.callback_path
            payload["callbackOn"] = asked.callback_on
        if asked.failure_callback:
            payload["failureCallbackUrl"] = self._customer.target + asked.failure_path
        if asked.asks:
            payload["callbackInclude"] = "response"
        return payload

    def _remember(self, asked: list[Asked], answered: Answered) -> None:
        for each, given in zip(asked, answered.ids, strict=False):
            if isinstance(given, str) and each.on_existing:
                self._shared = [*self._shared[-_MANY:], given]
            elif isinstance(given, str):
                self._known[given] = each
        while len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]

    async def _call(
        self,
        kind: Kind,
        method: str,
        path: str,
        *,
        body: str = "",
        key: str = "",
        headers: dict[str, str] | None = None,
        **about: Any,
    ) -> Answered:
        """`about` is what else is written down of it."""
        op = self._recorder.number()
        about |= {"wall_ms": now_ms(), "key": key}
        # Written down before it goes out: a call without a record never left.
        self._recorder.write(Invoked(op, self.name, self._customer.account, kind, **about))
        url = self._apis[self._api] + path
        if headers is None:
            headers = {"idempotency-key": key} if key else {}
        try:
            answer = await self._http.request(method, url, content=body, headers=headers)
            said = told(kind, answer, by_door=about.get("door", False))
            answered = Answered(op, wall_ms=now_ms(), **said)
        except httpx.TransportError as error:
            self._api = (self._api + 1) % len(self._apis)
            refused = isinstance(error, httpx.ConnectError)
            result: Result = "fail" if refused else "unknown"
            answered = Answered(op, result, now_ms(), error=repr(error))
        self._recorder.write(answered)
        return answered
