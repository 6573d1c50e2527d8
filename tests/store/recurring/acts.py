"""What happens to a rule, and to what a worker holds of it, one act at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from scheduler.lane_settings import Pause
from scheduler.models import Invocation
from scheduler.recurrence.recurring import Rule
from tests.store.clocks import START_MS
from tests.store.recurring.rules import HOUR_MS, Rules

Act = Callable[[Rules, Rule], Awaitable[object]]
# What the worker holds.
HELD: list[Invocation] = []


def ms_at(hours: float, ms: int = 0) -> int:
    return START_MS + int(hours * HOUR_MS) + ms


def at(hours: float, ms: int = 0) -> Act:
    return lambda rules, _: rules.to(ms_at(hours, ms))


def change(**fields: Any) -> Act:
    return lambda rules, rule: rules.change(rule, **fields)


def moved(hours: float, ms: int = 0) -> Act:
    """By its owner, the occurrence that waits."""

    async def act(rules: Rules, rule: Rule) -> object:
        waiting = str((await rules.read(rule)).schedule_id)
        return await rules.scene.change(waiting, trigger_at_ms=ms_at(hours, ms))

    return act


async def cancel(rules: Rules, rule: Rule) -> None:
    await rules.scene.cancel(str((await rules.read(rule)).schedule_id))


def claims(lease_ms: int) -> Act:
    async def act(rules: Rules, _: Rule) -> None:
        HELD[:] = await rules.scene.claim(lease_ms=lease_ms, ahead_ms=50)

    return act


claim = claims(100 * HOUR_MS)


async def lose(*_: object) -> None:
    """The worker is lost."""
    HELD.clear()


async def advance(rules: Rules, _: Rule) -> None:
    await rules.recurring.advance(HELD)


async def ack(rules: Rules, _: Rule) -> None:
    await rules.scene.ack(HELD)


async def fire(rules: Rules, _: Rule) -> None:
    await rules.fire()


async def tend(rules: Rules, _: Rule) -> None:
    await rules.tend()


async def pause(rules: Rules, rule: Rule) -> None:
    await rules.recurring.pause(rules.scene.account_id, rule.recurring_id, Pause("us"))


def pauses(until: float | None, note: str | None = None, ms: int = 0) -> Act:
    """Until so many hours."""

    async def act(rules: Rules, rule: Rule) -> None:
        until_ms = None if until is None else ms_at(until, ms)
        wanted = Pause("us", until_ms, note)
        found = await rules.recurring.pause(rules.scene.account_id, rule.recurring_id, wanted)
        assert found.pause is not None
        assert replace(found.pause, since_ms=0) == wanted

    return act


async def resume(rules: Rules, rule: Rule) -> None:
    await rules.recurring.resume(rules.scene.account_id, rule.recurring_id)


async def checked(rules: Rules, _: Rule) -> None:
    assert await rules.scene.store.check() == []


async def tend_it(rules: Rules, rule: Rule) -> None:
    await rules.recurring.tend(rules.scene.account_id, [rule.recurring_id])


async def delete(rules: Rules, rule: Rule) -> None:
    await rules.recurring.delete(rules.scene.account_id, rule.recurring_id)


def in_turn(*acts: Act) -> Act:
    async def act(rules: Rules, rule: Rule) -> None:
        for each in acts:
            await each(rules, rule)

    return act


def credits(left: int) -> Act:
    return lambda rules, _: rules.take_credits(left)
