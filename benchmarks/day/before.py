"""Fills the store before a day begins: accounts, an old log, rules, and waiting schedules."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Iterator
from typing import NamedTuple

from benchmarks.day.plan import ACCOUNTS, HOUR_MS, Plan, moments
from benchmarks.support.history import Past, fill
from benchmarks.support.payload import new_account, request
from scheduler.lane_settings import LaneSettings
from scheduler.models import Outcome, Request, Status
from scheduler.recurrence.recurrence import Timing
from scheduler.recurrence.recurring import Draft
from scheduler.store import Store

LANES = 20  # of each account
_URLS = 50  # of each kind
_AT_ONCE, _RULES_AT_ONCE = 1000, 100
_DAY_MS = 24 * HOUR_MS
_KEPT_DAYS = 2  # a log of one day is kept for one more
_BURST_EVERY_MS = HOUR_MS // 6
_BURST_PART = 10
_COMPLETED = Outcome(Status.COMPLETED, 200, 42, "")


class Owner(NamedTuple):
    account_id: str
    key: str


def url(target: str, path: str, number: int) -> str:
    return f"{target}/{path}/{number % _URLS}"


async def stored(store: Store, plan: Plan, target: str, start_ms: int) -> list[Owner]:
    """Stores it all, for a day that begins at `start_ms`; returns the accounts."""
    owners = [await _owner(store, number, plan) for number in range(ACCOUNTS)]
    await _timed("entries of an old log", plan.logged, _log(store, owners, plan, target, start_ms))
    await _timed("rules", plan.rules, _rules(store, owners, plan, target, start_ms))
    await _timed("schedules", plan.waiting, _waiting(store, owners, plan, target, start_ms))
    return owners


async def _timed(what: str, count: int, act: Awaitable[None]) -> None:
    began_s = time.monotonic()
    await act
    print(f"{count:,} {what} stored in {time.monotonic() - began_s:.0f} s", flush=True)


async def _owner(store: Store, number: int, plan: Plan) -> Owner:
    """With lanes whose rate is twice what they need at the peak."""
    account = await new_account(store, f"day-{number}")
    rate = max(1, 2 * plan.peak // (10 * LANES * ACCOUNTS))
    for lane in range(LANES):
        limits = LaneSettings(rate=rate, per_ms=1000, burst=rate, parallelism=rate)
        await store.lanes.put(account.account_id, f"lane-{lane}", limits)
    _, key = await store.api_keys.create(account.account_id, "day")
    return Owner(account.account_id, key)


async def _log(store: Store, owners: list[Owner], plan: Plan, target: str, start_ms: int) -> None:
    """Each hour of the day trims as many of its entries."""
    count = plan.logged // len(owners)
    begin_ms, span_ms = start_ms - _KEPT_DAYS * _DAY_MS, plan.hours * HOUR_MS
    for owner in owners:
        past = (
            Past(at_ms, Request(at_ms, "POST", url(target, "plain", n)), _COMPLETED)
            for n, at_ms in enumerate(begin_ms + n * span_ms // count for n in range(count))
        )
        await fill(store, owner.account_id, past)


async def _rules(store: Store, owners: list[Owner], plan: Plan, target: str, start_ms: int) -> None:
    """Each is due once in the busy time of each hour. A tenth more is due every ten minutes: their
    times pass while the clock is stepped, so that they are all due at once after it."""
    hourly = moments(start_ms, plan.busy_ms, plan.rules)
    timings = [Timing(every_ms=HOUR_MS, starts_at_ms=at_ms) for at_ms in hourly]
    burst = Timing(every_ms=_BURST_EVERY_MS, starts_at_ms=start_ms + _BURST_EVERY_MS)
    drafts = [Draft(request(url(target, "rule", n), 0), each) for n, each in enumerate(timings)]
    at_once = Draft(request(url(target, "burst", 0), 0), burst)
    drafts += [at_once] * (plan.rules // _BURST_PART)
    for start in range(0, len(drafts), _RULES_AT_ONCE):
        some = enumerate(drafts[start : start + _RULES_AT_ONCE])
        await asyncio.gather(
            *(store.recurring.create(owners[n % len(owners)][0], draft, None) for n, draft in some)
        )


async def _waiting(
    store: Store, owners: list[Owner], plan: Plan, target: str, start_ms: int
) -> None:
    """The accounts' shares side by side, so that packing and storing overlap."""
    await asyncio.gather(
        *(
            _waiting_of(store, owner, number, plan, target, start_ms)
            for number, owner in enumerate(owners)
        )
    )


async def _waiting_of(
    store: Store, owner: Owner, number: int, plan: Plan, target: str, start_ms: int
) -> None:
    batch: list[Request] = []
    for n, due_ms in enumerate(_due(plan, number, start_ms)):
        batch.append(request(url(target, "plain", n), due_ms))
        if len(batch) == _AT_ONCE:
            await store.schedules.create_all(owner.account_id, batch)
            batch = []
    if batch:
        await store.schedules.create_all(owner.account_id, batch)


def _due(plan: Plan, account: int, start_ms: int) -> Iterator[int]:
    """One account's share: some are due in the day, the others in the 30 days after it."""
    dice, left = random.Random(account), plan.waiting // ACCOUNTS
    for hour in range(plan.hours):
        all_of_hour = moments(start_ms + hour * HOUR_MS, plan.busy_ms, plan.due(hour, "waited"))
        due = all_of_hour[account::ACCOUNTS]
        left -= len(due)
        yield from due
    end_ms = start_ms + (plan.hours + 1) * HOUR_MS
    for _ in range(left):
        yield dice.randrange(end_ms, end_ms + 30 * _DAY_MS)
