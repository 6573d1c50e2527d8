"""The customer of a run who has recurring schedules: it makes rules, changes, pauses, triggers and
deletes them, and cancels and changes their occurrences."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec

from tests.chaos.clients import LABELS, Client
from tests.chaos.history import Answered, Kind, Ruled, iso, now_ms
from tests.chaos.keeper import LANES

_RULES = 5
_EVERY_MS = (1000, 2000, 3000)
_BY_CRON = 0.15
_FAR_MS = 3_600_000
_AHEAD_MS = (200, 1500)
_LATER_MS = (300, 4000)
_IN_LANES = 0.2
_BEHAVIOURS = {"ok": 70, "slow": 15, "fail": 10, "reset": 5}
_CALLS: dict[Kind, float] = {
    "rule": 12,
    "rule change": 6,
    "rule pause": 5,
    "rule trigger": 10,
    "rule delete": 3,
    "cancel": 16,
    "cancel many": 6,
    "occurrence change": 10,
    "rule read": 6,
}
_TRIES = 400


class RecurringClient(Client):
    """Alone with its rules, so that the order of the calls about each is known. When the time is up
    each rule is paused, or next due after an hour, so that all can settle."""

    _pause_s = (0.05, 0.4)

    async def run(self, seconds: float) -> None:
        self._ids: dict[str, Ruled] = {}
        end_s = asyncio.get_running_loop().time() + seconds
        async with self._connected() as self._http:
            await self._begin()
            while asyncio.get_running_loop().time() < end_s:
                await self._something()
                await asyncio.sleep(self._random.uniform(*self._pause_s))
            for rule_id in list(self._ids):
                await self._settle(rule_id)

    async def _begin(self) -> None:
        """Nothing."""

    async def _something(self) -> None:
        [kind] = self._random.choices(list(_CALLS), list(_CALLS.values()))
        if not self._ids or (kind == "rule" and len(self._ids) < _RULES):
            await self._create_rule()
            return
        rule_id = self._random.choice(list(self._ids))
        match kind:
            case "rule change":
                await self._change_rule(rule_id, self._next_version(rule_id))
            case "rule pause":
                await self._about(rule_id, kind, "POST", "/pause")
                await asyncio.sleep(self._random.uniform(0, 3))
                await self._about(rule_id, "rule resume", "POST", "/resume")
            case "rule trigger":
                await self._about(
                    rule_id, kind, "POST", "/trigger", key=self._some_key(always=True)
                )
            case "rule delete":
                await self._about(rule_id, kind, "DELETE")
                del self._ids[rule_id]
            case "rule read" | "rule":
                await self._about(rule_id, "rule read", "GET")
            case _:
                await self._occurrence(rule_id, kind)

    async def _create_rule(self) -> None:
        """Under a key: repeated until it is done, or surely not."""
        self._made += 1
        behaviours = list(_BEHAVIOURS)
        [behaviour] = self._random.choices(behaviours, list(_BEHAVIOURS.values()))
        lane = self._random.choice(LANES) if self._random.random() < _IN_LANES else None
        behaviour = "ok" if lane else behaviour  # as a lane's other schedules, none resets
        ruled = self._timed(Ruled(f"rule-{self.name}-{self._made}", behaviour, 0, lane=lane))
        about: dict[str, Any] = {"ruled": ruled, "rule": ruled.tag}
        about |= {"body": json.dumps(self._rule(ruled)), "key": self._some_key(always=True)}
        answered = await self._until_known("rule", "POST", "/recurring", **about)
        if answered.result == "ok":
            self._ids[answered.rule] = ruled

    def _next_version(self, rule_id: str) -> Ruled:
        """Other times, or another request alone."""
        before = self._ids[rule_id]
        labels = tuple(self._random.sample(LABELS, self._random.randint(0, 2)))
        version = msgspec.structs.replace(before, version=before.version + 1, labels=labels)
        return self._timed(version) if self._random.random() < 0.6 else version

    def _timed(self, ruled: Ruled) -> Ruled:
        if self._random.random() < _BY_CRON:
            return msgspec.structs.replace(ruled, every_ms=0, anchor_ms=0)
        every_ms = self._random.choice(_EVERY_MS)
        anchor_ms = round(now_ms()) + self._random.randint(*_AHEAD_MS)
        return msgspec.structs.replace(ruled, every_ms=every_ms, anchor_ms=anchor_ms)

    async def _change_rule(self, rule_id: str, ruled: Ruled) -> Answered:
        self._ids[rule_id] = ruled
        body = json.dumps(self._rule(ruled))
        return await self._about(rule_id, "rule change", "PATCH", body=body, ruled=ruled)

    def _rule(self, ruled: Ruled) -> dict[str, Any]:
        """As the API takes it."""
        times: dict[str, Any] = {"cron": "* * * * *", "every": None, "startsAt": None}
        if ruled.every_ms:
            every, starts_at = f"{ruled.every_ms}ms", iso(ruled.anchor_ms)
            times = {"cron": None, "every": every, "startsAt": starts_at}
        request = {"targetUrl": self._customer.target + ruled.path, "lane": ruled.lane}
        return {**request, "labels": ruled.labels, **times}

    async def _occurrence(self, rule_id: str, kind: Kind) -> None:
        """Cancels, alone or among others, or puts off the occurrence that waits."""
        read = await self._about(rule_id, "rule read", "GET")
        ids = [each for each in read.ids if isinstance(each, str)]
        if not ids:
            return
        path, [schedule_id] = f"/schedule/{ids[0]}", ids
        if kind == "cancel":
            await self._repeated(kind, "DELETE", path, schedule_id=schedule_id)
        elif kind == "cancel many":
            body = json.dumps({"ids": ids * 2})
            await self._repeated(kind, "POST", "/schedule/cancel", body=body, schedule_ids=ids)
        else:
            at = iso(round(now_ms()) + self._random.randint(*_LATER_MS))
            body = json.dumps({"triggerAt": at})
            await self._repeated("occurrence change", "PATCH", path, body=body)

    async def _settle(self, rule_id: str) -> None:
        if self._random.random() < 0.5:
            await self._about(rule_id, "rule pause", "POST", "/pause")
            return
        ruled = self._ids[rule_id]
        anchor_ms = round(now_ms()) + _FAR_MS
        far = {"version": ruled.version + 1, "every_ms": _FAR_MS, "anchor_ms": anchor_ms}
        await self._change_rule(rule_id, msgspec.structs.replace(ruled, **far))

    async def _about(
        self, rule_id: str, kind: Kind, method: str, end: str = "", **about: Any
    ) -> Answered:
        about |= {"rule": self._ids[rule_id].tag}
        return await self._until_known(kind, method, f"/recurring/{rule_id}{end}", **about)

    async def _until_known(self, kind: Kind, method: str, path: str, **about: Any) -> Answered:
        """Until it is done, or refused for good: all the calls about rules are safe to repeat."""
        for _ in range(_TRIES):
            answered = await self._call(kind, method, path, **about)
            if answered.result == "ok" or (answered.status and answered.status != 503):
                break
            await asyncio.sleep(self._random.uniform(0.1, 0.6))
        return answered
