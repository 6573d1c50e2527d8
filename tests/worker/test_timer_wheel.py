"""Schedules claimed ahead go out at their time: never early, by the store's clock."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable

import pytest

from scheduler.models import Invocation, Request, Stage
from scheduler.store.server.clock import StoreClock
from tests.worker.scripted import until
from worker.timer_wheel import Alarm, TimerWheel


class Machine:
    """Stands in place of the `time` module; alarms ring as `pass_ms` gets to their moments."""

    def __init__(self) -> None:
        self.now_us = 5_000_000_000
        self.alarms: list[ScriptedAlarm] = []

    def monotonic_ns(self) -> int:
        return self.now_us * 1000

    time_ns = monotonic_ns

    def pass_ms(self, ms: int) -> None:
        end_us = self.now_us + ms * 1000
        while due := [each for each in self.alarms if each.at_us <= end_us]:
            first = min(due, key=lambda each: each.at_us)
            self.now_us, first.at_us = max(self.now_us, int(first.at_us)), math.inf
            first.ring()
        self.now_us = end_us


class ScriptedAlarm:
    def __init__(self, machine: Machine, ring: Callable[[], None]) -> None:
        self.ring = ring
        self.at_us = math.inf
        machine.alarms.append(self)

    def set(self, at_us: int) -> None:
        self.at_us = at_us

    def close(self) -> None:
        self.at_us = math.inf


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr("worker.timer_wheel.time", machine)
    monkeypatch.setattr("scheduler.store.server.clock.time", machine)
    monkeypatch.setattr("worker.timer_wheel.Alarm", lambda _, ring: ScriptedAlarm(machine, ring))
    return machine


class Server:
    """A store's server whose clock is so far ahead of the monotonic one."""

    def __init__(self, machine: Machine, clock: StoreClock, ahead_us: int) -> None:
        self.machine = machine
        self.clock = clock
        self.ahead_us = ahead_us

    def now_us(self) -> int:
        return self.machine.now_us + self.ahead_us

    def reply(self, late_us: int = 0) -> int:
        """A reply that took so long to arrive; returns its number."""
        self.clock.observe(self.now_us() - late_us)
        return self.clock.readings

    def due_in(self, *delays_ms: int) -> list[Invocation]:
        return [due_at(self.now_us() // 1000 + delay_ms) for delay_ms in delays_ms]


class Fired:
    """The fired schedules, and their lateness by the server's clock (ms)."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.late_ms: dict[Invocation, int] = {}

    def __call__(self, invocations: list[Invocation]) -> None:
        now_ms = self.server.now_us() // 1000
        self.late_ms |= {each: now_ms - each.due_at_ms for each in invocations}


@pytest.fixture
def clock(machine: Machine) -> StoreClock:
    return StoreClock()


@pytest.fixture
def server(machine: Machine, clock: StoreClock) -> Server:
    return Server(machine, clock, ahead_us=1_700_000_000_000_000)


@pytest.fixture
def fired(server: Server) -> Fired:
    return Fired(server)


@pytest.fixture
async def wheel(clock: StoreClock, fired: Fired) -> TimerWheel:
    return TimerWheel(clock, one_clock=True, fire=fired)


def due_at(ms: int) -> Invocation:
    request = Request(ms, "GET", "http://example.com/")
    return Invocation(0, "acc_00_x", "sch_x", "1", 1, math.inf, request, request.trigger_at_ms)


def test_what_is_due_goes_at_once_and_the_rest_at_its_time(
    wheel: TimerWheel, machine: Machine, server: Server, fired: Fired
) -> None:
    late, second, first = server.due_in(-5, 30, 10)
    wheel.add([late, second, first], server.reply())
    assert fired.late_ms == {late: 5}
    machine.pass_ms(9)
    assert list(fired.late_ms) == [late]
    machine.pass_ms(21)
    assert list(fired.late_ms.items()) == [(late, 5), (first, 0), (second, 0)]


def test_claims_that_bring_earlier_ones_later_are_in_order(
    wheel: TimerWheel, machine: Machine, server: Server, fired: Fired
) -> None:
    last, first = server.due_in(40, 15)
    wheel.add([last], server.reply())
    wheel.add([first], server.reply())
    machine.pass_ms(40)
    assert list(fired.late_ms.items()) == [(first, 0), (last, 0)]


def test_a_better_reading_makes_up_for_a_slow_reply(
    wheel: TimerWheel, machine: Machine, server: Server, fired: Fired
) -> None:
    [invocation] = server.due_in(40)
    wheel.add([invocation], server.reply(late_us=10_000_000))
    server.reply()
    wheel.refresh()
    machine.pass_ms(40)
    assert fired.late_ms == {invocation: 0}


def test_what_was_read_before_a_clock_was_set_back_does_not_count(
    wheel: TimerWheel, machine: Machine, server: Server, fired: Fired
) -> None:
    server.reply()
    server.ahead_us -= 5_000_000
    [invocation] = server.due_in(20)
    wheel.add([invocation], server.reply())
    wheel.refresh()
    machine.pass_ms(20)
    assert fired.late_ms == {invocation: 0}


async def test_of_several_servers_only_what_the_claim_told_counts(
    clock: StoreClock, machine: Machine, server: Server, fired: Fired
) -> None:
    wheel = TimerWheel(clock, one_clock=False, fire=fired)
    [invocation] = server.due_in(20)
    reading = server.reply()
    wheel.add([invocation], reading)
    Server(machine, clock, server.ahead_us + 5_000_000).reply()  # another node, which is ahead
    wheel.refresh()
    machine.pass_ms(20)
    assert fired.late_ms == {invocation: 0}


def test_clearing_gives_up_all_that_waits(
    wheel: TimerWheel, machine: Machine, server: Server, fired: Fired
) -> None:
    invocations = server.due_in(10, 20)
    wheel.add(invocations, server.reply())
    assert {each.stage for each in invocations} == {Stage.TIMED}
    wheel.clear()
    [later] = server.due_in(40)
    wheel.add([later], server.reply())
    machine.pass_ms(40)
    assert list(fired.late_ms) == [later]


@pytest.fixture
async def rang_us() -> AsyncIterator[tuple[Alarm, list[int]]]:
    """A real alarm, and when it has rung."""
    moments: list[int] = []
    alarm = Alarm(asyncio.get_running_loop(), lambda: moments.append(time.monotonic_ns() // 1000))
    yield alarm, moments
    alarm.close()


async def test_a_real_alarm_rings_at_the_moment_set_last_and_not_before(
    rang_us: tuple[Alarm, list[int]],
) -> None:
    alarm, moments = rang_us
    now_us = time.monotonic_ns() // 1000
    alarm.set(now_us + 3_600_000_000)
    alarm.set(now_us + 20_000)
    await until(lambda: bool(moments))
    assert moments[0] >= now_us + 20_000


async def test_an_alarm_for_a_moment_that_has_passed_rings_at_once(
    rang_us: tuple[Alarm, list[int]],
) -> None:
    alarm, moments = rang_us
    alarm.set(0)
    await until(lambda: bool(moments))
