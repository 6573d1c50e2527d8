"""The customer of a run who uses the QStash door: messages alone, in batches and in a queue, under
deduplication ids, cancelled and tried again, schedules, and keys that are rotated."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec

from tests.chaos.clients import LABELS
from tests.chaos.history import (
    NO_CALLBACK,
    Answered,
    Asked,
    Kind,
    Limits,
    Ruled,
    body_of,
    now_ms,
)
from tests.chaos.keeper import QUEUE, QUEUE_LANE
from tests.chaos.recurring_client import RecurringClient
from tests.chaos.verdict.callbacks import REFUSED

_DOOR = "/qstash/v2"
_CALLS: dict[Kind, float] = {
    "create": 40,
    "batch": 8,
    "cancel": 14,
    "replay many": 6,
    "lane": 2,
    "rotate keys": 1.5,
    "rule": 4,
    "rule change": 2,
    "rule pause": 1,
    "rule delete": 0.5,
}
_ONCE, _ONCE_MORE = 0.5, 0.3
_MOST_IN_BATCH = 8
_PARALLEL = (1, 2)
_RULES = 4
_MINUTE_S = 60
_BEHAVIOURS = {"ok": 70, "slow": 15, "fail": 10, "reset": 5}
# By the first one, what gives these waits.
_EXPRESSIONS = {(1000,): "1000", (1000, 2000): "min(2000, 1000 * (1 + retried))"}


class MessageClient(RecurringClient):
    """Alone with its queue, its keys and its schedules, so that the order of the calls about each
    is known. When the time is up its schedules are paused."""

    _pause_s = (0.0, 0.1)

    async def _begin(self) -> None:
        await self._by_door("keys", "GET", "/keys")
        await self._set_queue()

    async def _something(self) -> None:
        [kind] = self._random.choices(list(_CALLS), list(_CALLS.values()))
        if kind.startswith("rule"):
            await self._of_a_schedule(kind)
        elif kind == "rotate keys":
            if (await self._call_door(kind, "POST", "/keys/rotate")).result == "unknown":
                await self._by_door("keys", "GET", "/keys")
        elif kind == "lane":
            await self._set_queue()
        elif kind == "batch" or kind == "create" or not self._known:
            await (self._batch() if kind == "batch" else self._publish())
        elif kind == "cancel":
            ended = self._random.random() < 0.5
            schedule_id = self._random.choice(self._ended() if ended else list(self._known))
            del self._known[schedule_id]
            path = f"/messages/msg_{schedule_id[4:]}"
            await self._by_door(kind, "DELETE", path, schedule_id=schedule_id)
        else:
            schedule_id = self._random.choice(self._ended())
            body = json.dumps({"dlqIds": [schedule_id[4:]]})
            about: dict[str, Any] = {"schedule_ids": [schedule_id], "body": body}
            await self._by_door("replay many", "POST", "/dlq/retry", **about)

    async def _by_door(self, kind: Kind, method: str, path: str, **about: Any) -> Answered:
        """Repeated until it is done, or refused for good."""
        return await self._until_known(kind, method, _DOOR + path, door=True, **about)

    async def _call_door(self, kind: Kind, method: str, path: str, **about: Any) -> Answered:
        return await self._call(kind, method, _DOOR + path, door=True, **about)

    async def _set_queue(self) -> None:
        limits = Limits(QUEUE_LANE, parallelism=self._random.choice(_PARALLEL))
        body = json.dumps({"queueName": QUEUE, "parallelism": limits.parallelism})
        await self._by_door("lane", "POST", "/queues", body=body, limits=limits)

    async def _publish(self) -> None:
        """Under a deduplication id it is repeated until it is done, and sometimes after that."""
        asked = self._message()
        way = "/publish" if asked.lane is None else f"/enqueue/{QUEUE}"
        path, headers = f"{way}/{self._customer.target}{asked.path}", self._headers(asked)
        about: dict[str, Any] = {"asked": [asked], "headers": headers, "body": body_of(asked.tag)}
        if not asked.once:
            self._remember([asked], await self._call_door("create", "POST", path, **about))
            return
        for _ in range(1 + (self._random.random() < _ONCE_MORE)):
            answered = await self._by_door("create", "POST", path, key=asked.tag, **about)
        self._remember([asked], answered)

    async def _batch(self) -> None:
        asked = [self._message() for _ in range(self._random.randint(1, _MOST_IN_BATCH))]
        items = [
            {
                "destination": self._customer.target + each.path,
                "headers": {"content-type": "application/json", **self._headers(each)},
                "body": body_of(each.tag),
                "queue": each.lane and QUEUE,
            }
            for each in asked
        ]
        body = json.dumps(items)
        answered = await self._call_door("batch", "POST", "/batch", body=body, asked=asked)
        self._remember(asked, answered)

    def _message(self) -> Asked:
        """A new one. It has no end of its own, and is at least once; where a native one is in a
        lane, it is in the queue."""
        asked, begun_ms = self._want(expires=False), round(now_ms())
        ahead_ms = max(0, asked.trigger_at_ms - begun_ms)
        by_delay = self._random.random() < 0.5
        due_ms = begun_ms + ahead_ms if by_delay else asked.trigger_at_ms // 1000 * 1000
        callback = {NO_CALLBACK: None, REFUSED: "ok"}.get(asked.callback or "", asked.callback)
        if callback is None and asked.failure_callback:
            callback = NO_CALLBACK
        return msgspec.structs.replace(
            asked,
            message=True,
            trigger_at_ms=due_ms,
            delay_ms=ahead_ms if by_delay else None,
            once=self._random.random() < _ONCE,
            delivery="at-least-once",
            retry_on="any",
            timeout_s=asked.timeout_s or (1 if asked.behaviour == "never" else None),
            reference=None,
            lane=asked.lane and QUEUE_LANE,
            callback=callback,
            callback_on="executed",
            included=callback is not None,
        )

    def _headers(self, asked: Asked) -> dict[str, str]:
        target = self._customer.target
        fields = {
            "delay": f"{asked.delay_ms}ms" if asked.delay_ms else None,
            "not-before": f"{asked.trigger_at_ms // 1000}" if asked.delay_ms is None else None,
            "retries": str(asked.retries),
            "retry-delay": _EXPRESSIONS.get(asked.delays_ms),
            "timeout": asked.timeout_s and f"{asked.timeout_s}s",
            "deduplication-id": asked.once and asked.tag,
            "label": ",".join(asked.labels),
        }
        if asked.callback not in (None, NO_CALLBACK):
            fields |= {"callback": target + asked.callback_path, "callback-retries": "3"}
        if asked.failure_callback:
            fields |= {"failure-callback": target + asked.failure_path}
            fields |= {"failure-callback-retries": "3"}
        return {f"upstash-{name}": str(value) for name, value in fields.items() if value}

    async def _of_a_schedule(self, kind: Kind) -> None:
        if not self._ids or (kind == "rule" and len(self._ids) < _RULES):
            self._made += 1
            [behaviour] = self._random.choices(list(_BEHAVIOURS), list(_BEHAVIOURS.values()))
            tag = f"rule-{self.name}-{self._made}"
            ruled = self._each_minute(Ruled(tag, behaviour, 0, message=True))
            if (await self._put("rule", ruled)).result == "ok":
                self._ids[tag] = ruled
            return
        tag = self._random.choice(list(self._ids))
        if kind == "rule delete":
            await self._about(tag, kind, "DELETE")
            del self._ids[tag]
        elif kind == "rule pause":
            await self._about(tag, kind, "PATCH", "/pause")
            await asyncio.sleep(self._random.uniform(0, 3))
            await self._about(tag, "rule resume", "PATCH", "/resume")
        else:
            labels = tuple(self._random.sample(LABELS, self._random.randint(0, 2)))
            ruled = msgspec.structs.replace(self._ids[tag], labels=labels)
            ruled = msgspec.structs.replace(ruled, version=ruled.version + 1)
            ruled = self._each_minute(ruled) if self._random.random() < 0.5 else ruled
            self._ids[tag] = ruled
            await self._put("rule change", ruled)

    def _each_minute(self, ruled: Ruled) -> Ruled:
        """So many seconds after it: the delay of a schedule's messages."""
        delay_ms = 1000 * self._random.randrange(1, _MINUTE_S)
        return msgspec.structs.replace(ruled, every_ms=1000 * _MINUTE_S, anchor_ms=delay_ms)

    async def _put(self, kind: Kind, ruled: Ruled) -> Answered:
        """Creates a schedule, or replaces it."""
        headers = {
            "upstash-cron": "* * * * *",
            "upstash-schedule-id": ruled.tag,
            "upstash-delay": f"{ruled.anchor_ms // 1000}s",
            "upstash-retries": "0",
            **({"upstash-label": ",".join(ruled.labels)} if ruled.labels else {}),
        }
        path = f"/schedules/{self._customer.target}{ruled.path}"
        about: dict[str, Any] = {"ruled": ruled, "rule": ruled.tag, "body": body_of(ruled.tag)}
        return await self._by_door(kind, "POST", path, headers=headers, **about)

    async def _about(
        self, rule_id: str, kind: Kind, method: str, end: str = "", **about: Any
    ) -> Answered:
        path = f"/schedules/{rule_id}{end}"
        return await self._by_door(kind, method, path, rule=rule_id, **about)

    async def _settle(self, rule_id: str) -> None:
        await self._about(rule_id, "rule pause", "PATCH", "/pause")
