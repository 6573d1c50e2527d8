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


async def test_a_neighbours_goes_out_after_one_of_the_floods() -> None:
    slow, make = Slow(), Invocations()
    batch = SendBatch(slow.fire)
    batch.fire(make.many(40, 0, "flood"))
    at_once = len(slow.fired)
    batch.fire([neighbours := make.one(0, "neighbour")])
    while len(slow.fired) < 41:
        await asyncio.sleep(0)
    assert slow.fired.index(neighbours) <= at_once + 1
