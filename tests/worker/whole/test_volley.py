"""Thousands due at once: the loop is heard in between, and accounts take turns."""

from __future__ import annotations

import asyncio
import time

from scheduler.models import Invocation
from tests.worker.desk import Invocations
from worker.loop_budget import ROUND_S, SendBatch

SLOW_S = ROUND_S / 4


class Slow:
    """Takes a while for each, and notes them."""

    def __init__(self) -> None:
        self.fired: list[Invocation] = []

    def fire(self, invocation: Invocation) -> None:
        self.fired.append(invocation)
        time.sleep(SLOW_S)


async def test_the_loop_is_heard_between_rounds_and_all_go_out_in_their_order() -> None:
    slow = Slow()
    batch = SendBatch(slow.fire)
    batch.fire(flood := Invocations().many(40))
    longest = len(slow.fired)
    assert 1 <= longest <= 5
    while len(slow.fired) < 40:
        before = len(slow.fired)
        await asyncio.sleep(0)
        longest = max(longest, len(slow.fired) - before)
    assert longest <= 5
    assert slow.fired == flood


def rated(count: int, make: Invocations, account: str = "rated") -> list[Invocation]:
    found = make.many(count, 0, account)
    for each in found:
        each.slack_us = 20_000
    return found


async def test_those_with_a_rate_go_before_others_of_their_account() -> None:
    slow, make = Slow(), Invocations()
    batch = SendBatch(slow.fire)
    batch.fire(make.many(40, 0, "rated"))
    at_once = len(slow.fired)
    batch.fire(first := rated(3, make))
    assert batch.rated() == first
    while len(slow.fired) < 43:
        await asyncio.sleep(0)
    assert slow.fired[at_once : at_once + 3] == first


async def test_a_crowd_of_accounts_does_not_keep_a_rate_waiting_and_yields_no_turn_to_it() -> None:
    """Each round of all accounts starts one: else a lane of a busy worker would miss every slot."""
    slow, make = Slow(), Invocations()
    batch = SendBatch(slow.fire)
    batch.fire([make.one(0, f"{number}") for _ in range(3) for number in range(50)])
    at_once = len(slow.fired)
    batch.fire(rated(1, make))
    others = rated(1, make, "other")
    while len(slow.fired) < 50:
        await asyncio.sleep(0)
        if others and len(slow.fired) > at_once + 1:
            before = len(slow.fired)
            batch.fire([other := others.pop()])
            batch.fire(rated(5, make))
    starts = [slow.fired.index(each) for each in slow.fired if each.slack_us]
    assert starts == [at_once, before]
    assert slow.fired[before] is other


async def test_a_neighbours_goes_out_after_one_of_the_floods() -> None:
    slow, make = Slow(), Invocations()
    batch = SendBatch(slow.fire)
    batch.fire(make.many(40, 0, "flood"))
    at_once = len(slow.fired)
    batch.fire([neighbours := make.one(0, "neighbour")])
    while len(slow.fired) < 41:
        await asyncio.sleep(0)
    assert slow.fired.index(neighbours) <= at_once + 1


async def test_callbacks_go_one_a_round_behind_all_else_and_accounts_take_turns() -> None:
    slow, make = Slow(), Invocations()
    batch = SendBatch(slow.fire)
    called = make.many(20, 0, "failing") + make.many(2, 0, "other")
    for each in called:
        each.is_callback = True
    batch.fire([*called[:4], first := make.one(0, "neighbour")])
    assert slow.fired[0] is first
    batch.fire(called[4:])
    batch.fire(flood := make.many(20, 0, "flood"))
    while len(slow.fired) < 43:
        before = len(slow.fired)
        await asyncio.sleep(0)
        added = slow.fired[before:]
        assert [each.is_callback for each in added][:-1] == [False] * (len(added) - 1)
        assert added[-1].is_callback
    assert set(slow.fired) == {first, *called, *flood}
    assert max(slow.fired.index(each) for each in called[20:]) < slow.fired.index(called[10])
    batch.fire(make.many(1))
    batch.fire(called)
    batch.clear()
    fired = len(slow.fired)
    await asyncio.sleep(0)
    assert len(slow.fired) == fired
