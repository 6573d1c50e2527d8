"""Who opens connections, and who waits."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from scheduler.targets import Origin
from worker.openings import Openings

HERE = Origin("http", "here.example", 80)
THERE = Origin("http", "there.example", 80)


class Waiter(NamedTuple):
    name: str
    needs_fresh: bool = False
    is_over: bool = False


@pytest.fixture(autouse=True)
def two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.openings.MAX_OPENINGS", 2)


def full() -> Openings[Waiter]:
    openings: Openings[Waiter] = Openings()
    assert openings.admit(HERE, Waiter("a"))
    assert openings.admit(HERE, Waiter("b"))
    return openings


def test_over_the_cap_one_waits_and_other_origins_do_not() -> None:
    openings = full()
    assert not openings.admit(HERE, Waiter("c"))
    assert openings.admit(THERE, Waiter("d"))


def test_who_waits_goes_on_when_an_attempt_ends() -> None:
    openings = full()
    openings.admit(HERE, Waiter("c"))
    assert openings.ended(HERE) == Waiter("c")
    assert not openings.admit(HERE, Waiter("d"))  # c's attempt counts
    assert [openings.ended(HERE), openings.ended(HERE), openings.ended(HERE)][1:] == [None, None]
    assert openings.admit(HERE, Waiter("e"))


def test_who_waits_is_given_a_connection_that_comes_free() -> None:
    openings = full()
    assert openings.claim_free(HERE) is None
    openings.admit(HERE, Waiter("c"))
    assert openings.claim_free(THERE) is None
    assert openings.claim_free(HERE) == Waiter("c")
    assert openings.claim_free(HERE) is None


def test_who_needs_a_fresh_one_is_given_no_used_one() -> None:
    openings = full()
    openings.admit(HERE, Waiter("c", needs_fresh=True))
    assert openings.claim_free(HERE) is None
    assert openings.ended(HERE) == Waiter("c", needs_fresh=True)


def test_who_has_ended_meanwhile_is_passed_over() -> None:
    openings = full()
    openings.admit(HERE, Waiter("c", is_over=True))
    openings.admit(HERE, Waiter("d"))
    assert openings.ended(HERE) == Waiter("d")
