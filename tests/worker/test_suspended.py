"""A machine that sleeps: its leases go on, and so does what others may have changed meanwhile."""

from __future__ import annotations

import time

import pytest

from scheduler.elapsed import elapsed_s
from scheduler.errors import StoreUnavailable
from scheduler.models import Invocation
from scheduler.store.secrecy import Secrecy
from tests.worker.desk import LEASE_MS, Desk
from tests.worker.firing import firer_for_tests, leased
from tests.worker.scripted import answer, answering, playing, until

REAL = time.clock_gettime


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
    monkeypatch.setattr("scheduler.elapsed.time", machine)
    return machine


@pytest.fixture(autouse=True)
def _on_linux() -> None:
    if not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("the system has no clock that goes on while it sleeps")


def test_time_passes_while_the_machine_sleeps(machine: Machine) -> None:
    before_s = elapsed_s()
    machine.asleep_s = 100.0
    assert elapsed_s() - before_s >= 100


async def test_a_lease_that_ended_while_it_slept_is_not_sent(machine: Machine) -> None:
    unsure: list[Invocation] = []
    async with (
        playing(answering(answer())) as target,
        firer_for_tests(unsure=unsure.append) as firer,
    ):
        invocation = leased(target.url(), LEASE_MS / 1000)
        machine.asleep_s = LEASE_MS / 1000
        firer.fire(invocation, lambda *_: pytest.fail("it was sent"))
        await until(lambda: unsure == [invocation])
    assert target.requests == []


async def test_before_it_claims_again_it_prolongs_what_it_holds(machine: Machine) -> None:
    """Or it would take its own over, and think that another worker was lost."""
    desk = Desk({0: 1, 1: 0}, slots=9)
    await desk.turn()
    assert desk.touch.lost == set()
    machine.asleep_s = LEASE_MS / 1000
    desk.claims.due[0] = 1
    await desk.turn()
    assert desk.touch.lost == {0, 1}
    assert len(desk.claims.claimed) == 1


def test_it_seals_nothing_before_the_store_has_heard_of_it(machine: Machine) -> None:
    secrecy = Secrecy([b"k" * 32])
    secrecy.may_seal_until_s = elapsed_s() + 120
    secrecy.seal(b"text")
    machine.asleep_s = 120.0
    with pytest.raises(StoreUnavailable):
        secrecy.seal(b"text")
