"""A machine that sleeps: its leases go on, and so does what others may have changed meanwhile."""

from __future__ import annotations

import time

import pytest

from scheduler.models import Invocation
from scheduler.store.server.clock import StoreClock
from tests.worker.desk import LEASE_MS
from tests.worker.scripted import answer, answering, until
from tests.worker.send.firing import firing_at, leased
from tests.worker.send.test_pool import FIRST, KeptWire, keep, pool, take
from worker.send.pool import Pool

__all__ = ["pool"]  # a fixture

REAL = time.clock_gettime
AHEAD_US = 1_700_000_000_000_000
HOUR_US = 3_600_000_000
# Between two looks at a clock.
A_MOMENT_US = 1_000_000


class Machine:
    """Stands in place of the `time` module: what a machine counts that can be suspended."""

    CLOCK_MONOTONIC = time.CLOCK_MONOTONIC

    def __init__(self) -> None:
        self.asleep_s = 0.0

    def clock_gettime(self, clock: int) -> float:
        slept_s = 0.0 if clock == time.CLOCK_MONOTONIC else self.asleep_s
        return REAL(clock) + slept_s


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr("scheduler.runtime.elapsed.time", machine)
    return machine


@pytest.fixture(autouse=True)
def _on_linux() -> None:
    if not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("needs Linux: it has a clock that goes on while it sleeps")


async def test_a_lease_that_ended_while_it_slept_is_not_sent(machine: Machine) -> None:
    unsure: list[Invocation] = []
    async with firing_at(answering(answer()), unsure=unsure.append) as (target, firer):
        invocation = leased(target.url(), LEASE_MS / 1000)
        machine.asleep_s = LEASE_MS / 1000
        firer.fire(invocation, lambda *_: pytest.fail("it was sent"))
        await until(lambda: unsure == [invocation])
    assert target.requests == []


def server_us(slept_us: int = 0) -> int:
    """What a server says whose clock goes on while this machine sleeps."""
    return time.monotonic_ns() // 1000 + AHEAD_US + slept_us


async def test_the_stores_clock_goes_on_while_it_sleeps(machine: Machine) -> None:
    """Or a delay of a minute would be over when it is asked for, and what has expired be sent."""
    clock = StoreClock()
    clock.observe(server_us())
    machine.asleep_s = 3600.0
    assert 0 <= clock.now_us() - server_us(HOUR_US) + A_MOMENT_US < 2 * A_MOMENT_US
    clock.observe(server_us(HOUR_US))  # and once only
    assert -A_MOMENT_US < clock.now_us() - server_us(HOUR_US) <= 0
    machine.asleep_s = 7200.0
    assert abs(clock.now_us() - server_us(2 * HOUR_US)) < A_MOMENT_US


async def test_a_reply_that_was_on_its_way_meanwhile_does_not_set_it_back(machine: Machine) -> None:
    clock = StoreClock()
    clock.observe(server_us())
    machine.asleep_s = 3600.0
    for _ in range(3):
        clock.observe(server_us() - 5000)
    assert abs(clock.now_us() - server_us(HOUR_US)) < A_MOMENT_US


async def test_by_what_is_fired_only_replies_count(machine: Machine) -> None:
    """The system may tell of a second too many: nothing is to go out early for it."""
    clock = StoreClock()
    clock.observe(server_us())
    before_us = clock.offset_since_us(1)
    machine.asleep_s = 3600.0
    assert clock.offset_since_us(1) == before_us
    assert clock.at_us(0.0) == before_us


async def test_a_connection_from_before_it_slept_is_not_used(machine: Machine, pool: Pool) -> None:
    """Its other end has hung up, or something on the way has forgotten it, and says nothing."""
    old, older = KeptWire(), KeptWire()
    keep(pool, older, old)
    machine.asleep_s = 60.0
    fresh = KeptWire()
    keep(pool, fresh)
    assert [take(pool, FIRST) for _ in range(2)] == [fresh, None]
    assert not old.is_open
    assert not older.is_open
    assert pool.idle_count == 0
