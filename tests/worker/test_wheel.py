"""What was claimed ahead of its time goes out at its time: never early, by the store's clock."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator

import pytest

from scheduler.models import Invocation, Request
from scheduler.store.clock import StoreClock
from tests.worker.scripted import until
from worker.wheel import Wheel


class Fired:
    def __init__(self) -> None:
        self.at_us: dict[Invocation, int] = {}

    def __call__(self, invocations: list[Invocation]) -> None:
        now_us = time.monotonic_ns() // 1000
        self.at_us |= dict.fromkeys(invocations, now_us)


class Server:
    """A store's server whose clock is so far ahead of the monotonic one."""

    def __init__(self, clock: StoreClock, ahead_us: int) -> None:
        self.clock = clock
        self.ahead_us = ahead_us

    def now_us(self) -> int:
        return time.monotonic_ns() // 1000 + self.ahead_us

    def reply(self, late_us: int = 0) -> int:
        """A reply that took so long to arrive; returns its number."""
        self.clock.observe(self.now_us() - late_us)
        return self.clock.readings


@pytest.fixture
async def fired() -> Fired:
    return Fired()


@pytest.fixture
async def clock() -> StoreClock:
    return StoreClock()


@pytest.fixture
async def server(clock: StoreClock) -> Server:
    return Server(clock, ahead_us=1_700_000_000_000_000)


@pytest.fixture
async def wheel(clock: StoreClock, fired: Fired) -> AsyncIterator[Wheel]:
    wheel = Wheel(clock, one_clock=True, fire=fired)
    yield wheel
    wheel.close()


def due_at(ms: int) -> Invocation:
    request = Request(ms, "GET", "http://example.com/")
    return Invocation(0, "acc_00_x", "sch_x", "1", 1, math.inf, request, request.trigger_at_ms)


def due_in(server: Server, *delays_ms: int) -> list[Invocation]:
    return [due_at(server.now_us() // 1000 + delay_ms) for delay_ms in delays_ms]


def lateness_us(server: Server, fired: Fired, invocation: Invocation) -> int:
    return fired.at_us[invocation] + server.ahead_us - invocation.request.trigger_at_ms * 1000


async def test_what_is_due_goes_at_once_and_the_rest_at_its_time(
    wheel: Wheel, server: Server, fired: Fired
) -> None:
    late, second, first = due_in(server, -5, 30, 10)
    wheel.add([late, second, first], server.reply())
    assert list(fired.at_us) == [late]
    await until(lambda: len(fired.at_us) == 3)
    assert list(fired.at_us) == [late, first, second]
    assert min(lateness_us(server, fired, each) for each in fired.at_us) >= 0


async def test_claims_that_bring_earlier_ones_later_are_in_order(
    wheel: Wheel, server: Server, fired: Fired
) -> None:
    [last] = due_in(server, 40)
    wheel.add([last], server.reply())
    [first] = due_in(server, 15)
    wheel.add([first], server.reply())
    await until(lambda: len(fired.at_us) == 2)
    assert list(fired.at_us) == [first, last]


async def test_a_better_reading_makes_up_for_a_slow_reply(
    wheel: Wheel, server: Server, fired: Fired
) -> None:
    [invocation] = due_in(server, 40)
    wheel.add([invocation], server.reply(late_us=10_000_000))
    server.reply()
    wheel.refresh()
    await until(lambda: bool(fired.at_us))
    assert lateness_us(server, fired, invocation) >= 0


async def test_what_was_read_before_a_clock_was_set_back_does_not_count(
    wheel: Wheel, server: Server, fired: Fired
) -> None:
    server.reply()
    server.ahead_us -= 5_000_000
    [invocation] = due_in(server, 20)
    wheel.add([invocation], server.reply())
    wheel.refresh()
    await until(lambda: bool(fired.at_us))
    assert lateness_us(server, fired, invocation) >= 0


async def test_of_several_servers_only_what_the_claim_told_counts(
    clock: StoreClock, server: Server, fired: Fired
) -> None:
    wheel = Wheel(clock, one_clock=False, fire=fired)
    [invocation] = due_in(server, 20)
    reading = server.reply()
    wheel.add([invocation], reading)
    Server(clock, server.ahead_us + 5_000_000).reply()  # another node, whose clock is ahead
    wheel.refresh()
    await until(lambda: bool(fired.at_us))
    assert lateness_us(server, fired, invocation) >= 0
    wheel.close()


async def test_clearing_gives_up_all_that_waits(wheel: Wheel, server: Server, fired: Fired) -> None:
    invocations = due_in(server, 10, 20)
    wheel.add(invocations, server.reply())
    assert wheel.clear() == invocations
    [later] = due_in(server, 40)
    wheel.add([later], server.reply())
    await until(lambda: bool(fired.at_us))
    assert list(fired.at_us) == [later]
