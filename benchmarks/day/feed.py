"""One hour's creates, cancels and reads over HTTP."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

import aiohttp
import msgspec

from benchmarks.day.before import LANES, Owner, url
from benchmarks.day.clock import SteppedClock
from benchmarks.day.plan import HOUR_MS, KINDS, SETTLE_MS, Plan, moments
from scheduler.times import format_iso8601

_AHEAD_MS = 2500  # of when it is due, each is stored
_FAR_MS = 40 * 24 * HOUR_MS
_READ_EVERY_S = 0.1
_PATHS = ("/stats", "/stats/logs", "/schedule")
_RETRIES = {"retries": 1, "retryDelays": ["1s"]}
_IN_BATCHES = ("batch", "laned", "called", "flaky", "failing")
# The turn (ms) of a schedule in its hour, and what a create says of it.
Item = tuple[int, dict[str, Any]]


class Feed:
    """Talks to the API for all accounts. `reads` counts answers."""

    def __init__(
        self, session: aiohttp.ClientSession, plan: Plan, clock: SteppedClock, target: str
    ) -> None:
        self._session = session
        self._plan, self._clock, self._target = plan, clock, target
        self.reads = 0

    async def hour(self, owners: list[Owner], number: int, hour_ms: int) -> int:
        """Stores what is due in that hour, second by second, each a little ahead. Returns how many
        it has cancelled."""
        items = list(self._items(number, hour_ms))
        singles = self._alike("single", number, hour_ms)
        cancels = self._alike("cancelled", number, hour_ms, after_ms=_FAR_MS)
        cancelled = 0
        for second in range(self._plan.busy_ms // 1000):
            begin_ms = hour_ms + SETTLE_MS + 1000 * second
            batch, alone, unwanted = (
                [item for at_ms, item in some if begin_ms <= at_ms < begin_ms + 1000]
                for some in (items, singles, cancels)
            )
            owner, other = (owners[n % len(owners)] for n in (second, second + 1))
            await self._until(begin_ms - _AHEAD_MS)
            await asyncio.gather(
                self._batches(owners, batch),
                self._alone(owner, alone),
                self._cancelled(other, unwanted),
            )
            cancelled += len(unwanted)
        return cancelled

    @asynccontextmanager
    async def reading(self, owners: list[Owner]) -> AsyncIterator[None]:
        """Asks for statistics, log and schedules of one account after the other meanwhile."""
        task = asyncio.create_task(self._read(owners))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _until(self, moment_ms: int) -> None:
        await asyncio.sleep(max(0, moment_ms - self._clock.now_ms()) / 1000)

    def _items(self, hour: int, hour_ms: int) -> Iterator[Item]:
        for kind in _IN_BATCHES:
            yield from self._alike(kind, hour, hour_ms)

    def _alike(self, kind: str, hour: int, hour_ms: int, after_ms: int = 0) -> list[Item]:
        """All of one kind; `after_ms`: how much later than its turn each is due."""
        turns = moments(hour_ms, self._plan.busy_ms, self._plan.due(hour, kind))
        return [(ms, self._item(kind, number, ms + after_ms)) for number, ms in enumerate(turns)]

    def _item(self, kind: str, number: int, at_ms: int) -> dict[str, Any]:
        item: dict[str, Any] = {
            "targetUrl": url(self._target, KINDS[kind].path, number),
            "targetBody": {"order": f"ord_{number}", "text": "Your trial ends tomorrow"},
            "triggerAt": format_iso8601(at_ms),
        }
        if kind == "laned":
            item["lane"] = f"lane-{number % LANES}"
        if kind == "called":
            item["callbackUrl"] = f"{self._target}/callback/{number % 10}"
        return item | (_RETRIES if kind in {"flaky", "failing"} else {})

    async def _batches(self, owners: list[Owner], items: list[dict[str, Any]]) -> None:
        shares = ((owner, items[number :: len(owners)]) for number, owner in enumerate(owners))
        await asyncio.gather(*(self._batch(owner, share) for owner, share in shares if share))

    async def _batch(self, owner: Owner, items: list[dict[str, Any]]) -> list[str]:
        answer = await self._call("POST", "/schedule/batch", owner, {"schedules": items})
        return [each["scheduleId"] for each in answer["schedules"]]

    async def _alone(self, owner: Owner, items: list[dict[str, Any]]) -> None:
        """With a key each, which is remembered for a day."""
        for item in items:
            await self._call("POST", "/schedule", owner, item, {"Idempotency-Key": str(uuid4())})

    async def _cancelled(self, owner: Owner, items: list[dict[str, Any]]) -> None:
        if items:
            wanted = {"ids": await self._batch(owner, items)}
            await self._call("POST", "/schedule/cancel", owner, wanted)

    async def _read(self, owners: list[Owner]) -> None:
        for number in itertools.count():
            owner = owners[number // len(_PATHS) % len(owners)]
            await self._call("GET", _PATHS[number % len(_PATHS)], owner)
            self.reads += 1
            await asyncio.sleep(_READ_EVERY_S)

    async def _call(
        self,
        method: str,
        path: str,
        owner: Owner,
        payload: object = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """What the answer says. Ends the benchmark if it is a refusal."""
        body = None if payload is None else msgspec.json.encode(payload)
        with_key = {"x-api-key": owner.key, **(headers or {})}
        async with self._session.request(method, path, data=body, headers=with_key) as answer:
            said = await answer.read()
        if answer.status not in {200, 201}:
            raise SystemExit(f"{method} {path} was answered {answer.status}: {said[:300]!r}")
        return msgspec.json.decode(said)
