"""What a step of a bulk action does to its schedules: all that writes to them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from api.bulk_actions.found import made_since
from api.recurring_times import follow
from api.schema.payload import AS_IT_WAS, Change, in_lane, moved_to
from api.schema.rules import Rules
from scheduler.errors import (
    Conflict,
    Damaged,
    InvalidRequest,
    NotFound,
    QuotaExceeded,
    TooManyResends,
)
from scheduler.models import Idempotency, Request
from scheduler.store import Store
from scheduler.store.bulk.records import Asked, Bulk, Kind, Planned
from scheduler.store.verdict import SENTENCES, Verdict

# So many bytes of requests are read for replays that are made together, or a single one.
_MOST_REPLAYED_BYTES = 1024 * 1024
_ANY_BYTES = 2**40
_AT_ONCE = 16


class Acted(NamedTuple):
    """The number of those that it was done to, and of the others by reason; new ids; and those of
    the plan that are left for another step, after so many ms."""

    done: int
    refused: Counter[str]
    made: Sequence[str] = ()
    left: Sequence[Planned] = ()
    wait_ms: int = 0


class Acts:
    def __init__(self, store: Store, rules: Rules) -> None:
        self._store = store
        self._rules = rules

    async def carry_out(
        self, account_id: str, bulk: Bulk, rows: Sequence[Planned], is_repeat: bool
    ) -> Acted:
        """One step. Safe to repeat with the same rows; `is_repeat` says so. Raises StoreError."""
        if not rows:
            return Acted(0, Counter())
        names = [each.schedule_id for each in rows]
        match bulk.asked.kind:
            case Kind.CANCEL:
                return await self._cancel(account_id, names)
            case Kind.AGAIN:
                return await self._run_again(account_id, bulk, names, is_repeat)
            case Kind.MOVE | Kind.LANE:
                return await self._change(account_id, bulk, rows)
            case Kind.CALLBACK:
                return await self._call_back(account_id, bulk, rows)

    async def _cancel(self, account_id: str, names: Sequence[str]) -> Acted:
        done = await self._store.canceller.by_id(account_id, names)
        await follow(self._store, account_id, done)
        refused = Counter(str(each.refusal) for each in done.each if each.refusal is not None)
        return Acted(len(done.each) - refused.total(), refused)

    async def _run_again(
        self, account_id: str, bulk: Bulk, names: Sequence[str], is_repeat: bool
    ) -> Acted:
        """In halves where they are too large together, or where one cannot be made again."""
        now_ms = self._store.clock.now_ms()
        whose = " ".join(names)
        once = Idempotency(f"bulk {bulk.action_id} {names[0]} {len(names)}", whose)
        remake = partial(AS_IT_WAS.of_replay, now_ms=now_ms)
        most = _MOST_REPLAYED_BYTES if len(names) > 1 else _ANY_BYTES
        try:
            replays = await self._store.schedules.replay_all(
                account_id, names, remake, once, now_ms, most_bytes=most
            )
        except (InvalidRequest, QuotaExceeded) as refusal:
            if len(names) == 1:
                return Acted(0, Counter([_words(refusal)]))
            middle = len(names) // 2
            one = await self._run_again(account_id, bulk, names[:middle], is_repeat)
            other = await self._run_again(account_id, bulk, names[middle:], is_repeat)
            refused = one.refused + other.refused
            return Acted(one.done + other.done, refused, [*one.made, *other.made])
        made = {each.original: each.schedule_id for each in replays.each if each.schedule_id}
        if is_repeat:
            before = [each.original for each in replays.each if each.verdict is Verdict.REPLAYED]
            made |= await made_since(self._store.server, account_id, before, bulk.asked.at_ms)
        others = [each.verdict for each in replays.each if each.original not in made]
        return Acted(len(made), Counter(SENTENCES[each] for each in others), sorted(made.values()))

    async def _change(self, account_id: str, bulk: Bulk, rows: Sequence[Planned]) -> Acted:
        """To another time or lane, by the call that changes a single one."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(row: Planned) -> str:
            """Why it was not changed, if so."""

            def changed(before: Request) -> Request:
                return self._changed(bulk.asked, row).of(before)

            operation = f"{bulk.action_id}:{row.schedule_id}"
            async with gate:
                try:
                    change = self._store.schedules.change
                    await change(account_id, row.schedule_id, changed, operation)
                except (NotFound, Conflict, Damaged, QuotaExceeded, InvalidRequest) as why:
                    return _words(why)
            return ""

        refused = Counter(filter(None, await asyncio.gather(*map(one, rows))))
        return Acted(len(rows) - refused.total(), refused)

    def _changed(self, asked: Asked, row: Planned) -> Change:
        """The time was fixed with the plan: a repeat moves it no further. Raises InvalidRequest."""
        now_ms = self._store.clock.now_ms()
        if asked.kind is Kind.LANE:
            return in_lane(asked.lane, self._rules, now_ms)
        at_ms = row.trigger_at_ms + (asked.shift_ms or 0)
        return moved_to(at_ms if asked.to_ms is None else asked.to_ms, self._rules, now_ms)

    async def _call_back(self, account_id: str, bulk: Bulk, rows: Sequence[Planned]) -> Acted:
        names = [each.schedule_id for each in rows]
        done = await self._store.callbacks.resend_steadily(account_id, names, bulk.action_id)
        left, wait_s, refused = list[Planned](), 0, Counter[str]()
        for row, each in zip(rows, done.each, strict=True):
            if isinstance(each.refusal, TooManyResends):
                left.append(row)
                wait_s = max(wait_s, each.refusal.wait_s)
            elif each.refusal is not None:
                refused[_words(each.refusal)] += 1
        number = len(rows) - len(left) - refused.total()
        return Acted(number, refused, left=left, wait_ms=1000 * wait_s)


def _words(why: Exception) -> str:
    if isinstance(why, InvalidRequest):
        return " ".join(each.message for each in why.details)
    return str(why)
