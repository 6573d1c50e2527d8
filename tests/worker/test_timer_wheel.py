"""Schedules claimed ahead go out at their time: never early, by the store's clock."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable

import pytest

from scheduler.models import Invocation, Request
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


class Scene:
    """A wheel, and its store's server, whose clock is so far ahead of the monotonic one; the fired
    schedules have their lateness by the server's clock (ms)."""

    def __init__(self, machine: Machine) -> None:
        self.pass_ms = machine.pass_ms
        self.machine = machine
        self.clock = StoreClock()
        self.ahead_us = 1_700_000_000_000_000
        self.late_ms: dict[Invocation, int] = {}
        self.fired_us: dict[Invocation, int] = {}
        self.wheel = TimerWheel(self.clock, one_clock=True, fire=self.fire)

    def now_us(self) -> int:
        return self.machine.now_us + self.ahead_us

    def reply(self, late_us: int = 0) -> int:
        """A reply that took so long to arrive; returns its number."""
        self.clock.observe(self.now_us() - late_us)
        return self.clock.readings

    def due_in(self, *delays_ms: int) -> list[Invocation]:
        return [due_at(self.now_us() // 1000 + delay_ms) for delay_ms in delays_ms]

    def fire(self, invocations: list[Invocation]) -> None:
        now_ms = self.now_us() // 1000
        self.fired_us |= dict.fromkeys(invocations, self.now_us())
        self.late_ms |= {each: now_ms - each.due_at_ms for each in invocations}


@pytest.fixture
async def scene(machine: Machine) -> Scene:
    return Scene(machine)


def due_at(ms: int) -> Invocation:
    request = Request(ms, "GET", "http://example.com/")
    return Invocation(0, "acc_00_x", "sch_x", "1", 1, math.inf, request, request.trigger_at_ms)


def test_what_is_due_goes_at_once_and_the_rest_at_its_time(scene: Scene) -> None:
    late, second, first = scene.due_in(-5, 30, 10)
    scene.wheel.add([late, second, first], scene.reply())
    assert scene.late_ms == {late: 5}
    scene.pass_ms(9)
    assert list(scene.late_ms) == [late]
    scene.pass_ms(21)
    assert list(scene.late_ms.items()) == [(late, 5), (first, 0), (second, 0)]


@pytest.mark.parametrize(
    ("due_in_ms", "slot_in_us", "starts_in_us"),
    [(10, 25_700, 25_700), (-100, 300, 300), (-100, -300, 0), (25, 9_000, 25_000)],
)
def test_what_has_a_slot_goes_at_the_later_of_both_moments(
    scene: Scene, due_in_ms: int, slot_in_us: int, starts_in_us: int
) -> None:
    [slotted, plain] = scene.due_in(due_in_ms, 20)
    start_us = scene.now_us()
    slotted.slot_us = start_us + slot_in_us
    scene.wheel.add([slotted, plain], scene.reply())
    assert scene.wheel.slotted() == ([slotted] if starts_in_us else [])
    scene.pass_ms(30)
    fired_us = {each: at_us - start_us for each, at_us in scene.fired_us.items()}
    assert fired_us == {slotted: starts_in_us, plain: 20_000}


def test_slots_of_one_claim_are_kept_in_whichever_order_they_come(scene: Scene) -> None:
    """Schedules are in the order in which they are due, and not in that of their slots."""
    third, first, second = scene.due_in(0, 1, 2)
    slots_us = [scene.now_us() + in_ms * 1000 for in_ms in (30, 10, 20)]
    third.slot_us, first.slot_us, second.slot_us = slots_us
    scene.wheel.add([third, first, second], scene.reply())
    scene.pass_ms(40)
    assert scene.fired_us == dict(zip([third, first, second], slots_us, strict=True))


def test_callbacks_with_slots_crowd_no_schedules(scene: Scene) -> None:
    """They start one by one, and claims would pass over their accounts meanwhile."""
    [callback] = scene.due_in(0)
    callback.slot_us, callback.is_callback = scene.now_us() + 20_000, True
    scene.wheel.add([callback], scene.reply())
    assert scene.wheel.slotted() == []
    scene.pass_ms(20)
    assert scene.fired_us == {callback: callback.slot_us}


def test_a_slot_too_is_kept_by_the_clock_that_came_with_the_claim(scene: Scene) -> None:
    scene.reply()
    scene.ahead_us -= 5_000_000
    [invocation] = scene.due_in(0)
    invocation.slot_us = scene.now_us() + 20_000
    scene.wheel.add([invocation], scene.reply(late_us=10_000_000))
    scene.reply()
    scene.wheel.refresh()
    scene.pass_ms(20)
    assert scene.fired_us == {invocation: invocation.slot_us}


def test_a_better_reading_makes_up_for_a_slow_reply(scene: Scene) -> None:
    [invocation] = scene.due_in(40)
    scene.wheel.add([invocation], scene.reply(late_us=10_000_000))
    scene.reply()
    scene.wheel.refresh()
    scene.pass_ms(40)
    assert scene.late_ms == {invocation: 0}


def test_what_was_read_before_a_clock_was_set_back_does_not_count(scene: Scene) -> None:
    scene.reply()
    scene.ahead_us -= 5_000_000
    [invocation] = scene.due_in(20)
    scene.wheel.add([invocation], scene.reply())
    scene.wheel.refresh()
    scene.pass_ms(20)
    assert scene.late_ms == {invocation: 0}


async def test_of_several_servers_only_what_the_claim_told_counts(scene: Scene) -> None:
    wheel = TimerWheel(scene.clock, one_clock=False, fire=scene.fire)
    [invocation] = scene.due_in(20)
    wheel.add([invocation], scene.reply())
    scene.reply(late_us=-5_000_000)  # of another node, which is ahead
    wheel.refresh()
    scene.pass_ms(20)
    assert scene.late_ms == {invocation: 0}


async def test_a_real_alarm_rings_at_the_moment_set_last_and_not_before() -> None:
    moments: list[int] = []
    alarm = Alarm(asyncio.get_running_loop(), lambda: moments.append(time.monotonic_ns() // 1000))
    now_us = time.monotonic_ns() // 1000
    alarm.set(now_us + 3_600_000_000)
    alarm.set(now_us + 20_000)
    await until(lambda: bool(moments))
    assert moments[0] >= now_us + 20_000
    alarm.close()
