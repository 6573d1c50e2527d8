"""Who opens connections, and who waits."""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest

from scheduler.targets import Origin
from worker.openings import Openings

HERE = Origin("http", "here.example", 80)
THERE = Origin("http", "there.example", 80)


class Waiter(NamedTuple):
    started_s: float
    account_id: str = "a"
    needs_fresh: bool = False
    is_over: bool = False
    resent: bool = False


@pytest.fixture(autouse=True)
def two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.openings.MAX_OPENINGS", 2)


def two_opening(most: int = 100) -> Openings[Waiter]:
    openings: Openings[Waiter] = Openings(most)
    assert openings.admit(HERE, Waiter(0))
    assert openings.admit(HERE, Waiter(0))
    return openings


def two_open() -> Openings[Waiter]:
    """At the ceiling: both that there may be are open."""
    openings = two_opening(most=2)
    for _ in range(2):
        openings.opened(HERE)
        openings.ended(HERE)
    return openings


def in_line(openings: Openings[Waiter], *waiters: Waiter) -> Openings[Waiter]:
    for waiter in waiters:
        assert not openings.admit(HERE, waiter)
    return openings


def order(openings: Openings[Waiter]) -> list[Waiter]:
    """Who goes, as one connection after the other is closed."""
    gone = []
    while openings.in_line:
        openings.closed(HERE)
        following = openings.next_to_open(HERE)
        if following is not None:
            gone.append(following)
            openings.opened(HERE)
            openings.ended(HERE)
    return gone


def test_over_the_openings_one_waits_and_other_origins_do_not() -> None:
    openings = in_line(two_opening(), Waiter(1))
    assert openings.admit(THERE, Waiter(1))


def test_who_waits_goes_on_when_an_attempt_ends() -> None:
    openings = in_line(two_opening(), Waiter(1))
    openings.ended(HERE)
    assert openings.next_to_open(HERE) == Waiter(1)
    in_line(openings, Waiter(2))  # that attempt counts
    for _ in range(2):
        openings.ended(HERE)
    assert openings.next_to_open(HERE) == Waiter(2)


def test_what_is_open_counts_until_it_is_closed() -> None:
    openings = in_line(two_open(), Waiter(1))
    assert openings.next_to_open(HERE) is None
    openings.closed(HERE)
    assert openings.next_to_open(HERE) == Waiter(1)
    assert openings.next_to_open(HERE) is None


def test_who_comes_while_others_wait_does_not_go_before_them() -> None:
    openings = in_line(two_open(), Waiter(1))
    openings.closed(HERE)
    in_line(openings, Waiter(2))
    assert openings.next_to_open(HERE) == Waiter(1)


def test_what_waits_longest_goes_first_and_accounts_take_turns() -> None:
    flood = [Waiter(at, "flood") for at in range(4)]
    late, fresh = Waiter(9, "neighbour"), Waiter(1.5, "flood", needs_fresh=True)
    openings = in_line(two_open(), *flood[:2], fresh, *flood[2:], late)
    assert order(openings) == [flood[0], fresh, late, *flood[1:]]


def test_neither_kind_starves_the_other() -> None:
    kinds = [Waiter(at, needs_fresh=at % 3 == 0) for at in range(9)]
    assert order(in_line(two_open(), *kinds)) == kinds


def test_what_goes_out_again_goes_before_all() -> None:
    again = Waiter(5, needs_fresh=True, resent=True)
    assert order(in_line(two_open(), Waiter(1), again))[0] == again


def test_who_waits_is_given_a_connection_that_comes_free() -> None:
    openings = two_open()
    assert openings.next_to_reuse(HERE) is None
    in_line(openings, Waiter(1))
    assert openings.next_to_reuse(THERE) is None
    assert openings.next_to_reuse(HERE) == Waiter(1)
    assert openings.next_to_reuse(HERE) is None
    assert openings.in_line == 0


def test_who_needs_a_fresh_one_is_given_no_used_one_but_room_for_it() -> None:
    openings = in_line(two_open(), Waiter(1, needs_fresh=True), Waiter(2))
    assert openings.next_to_reuse(HERE) is None
    assert openings.must_make_room(HERE)
    openings.makes_room(HERE)
    assert not openings.must_make_room(HERE), "one is enough"
    assert openings.next_to_reuse(HERE) == Waiter(2), "the other connection is the next one's"
    openings.closed(HERE)
    assert openings.next_to_open(HERE) == Waiter(1, needs_fresh=True)


def test_below_the_ceiling_who_needs_a_fresh_one_costs_no_other_its_connection() -> None:
    openings = in_line(two_opening(), Waiter(1, needs_fresh=True), Waiter(2))
    assert not openings.must_make_room(HERE)
    assert openings.next_to_reuse(HERE) == Waiter(2)


def test_who_has_ended_meanwhile_is_passed_over() -> None:
    openings = in_line(two_open(), Waiter(1, is_over=True), Waiter(2))
    openings.closed(HERE)
    assert openings.next_to_open(HERE) == Waiter(2)
    in_line(openings, Waiter(3, is_over=True))
    assert openings.next_to_reuse(HERE) is None
    assert openings.in_line == 0


def test_those_to_whom_the_target_gave_nobody_a_connection_are_without_hope() -> None:
    early, late = Waiter(1), Waiter(time.monotonic() + 100)
    openings = in_line(two_opening(), early, late)
    assert openings.pop_hopeless(HERE, since_s=2) == [early]
    assert openings.in_line == 1


def test_a_connection_that_was_had_meanwhile_is_hope() -> None:
    openings = in_line(two_opening(), Waiter(1))
    openings.opened(HERE)
    assert openings.pop_hopeless(HERE, since_s=2) == []
    openings.closed(HERE)
    assert openings.pop_hopeless(HERE, since_s=2) == [], "it was had since then"


def test_those_whose_turn_has_not_come_can_be_told_from_those_who_had_it() -> None:
    again = Waiter(5, needs_fresh=True, resent=True)
    openings = in_line(two_open(), Waiter(1), again, Waiter(2, needs_fresh=True))
    assert openings.unbegun == 2
    assert openings.pop_unbegun() == [Waiter(2, needs_fresh=True), Waiter(1)]
    assert order(openings) == [again]


def test_an_origin_without_connections_and_line_is_forgotten() -> None:
    openings = two_open()
    for _ in range(2):
        openings.closed(HERE)
    assert openings._places == {}
