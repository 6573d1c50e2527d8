"""Who opens connections, and who waits."""

from __future__ import annotations

import time
from typing import NamedTuple

import pytest

from scheduler.target.targets import Origin
from worker.send.connection_slots import ConnectionSlots
from worker.send.origin_queue import PATIENCE_S, TURN_S

HERE = Origin("http", "here.example", 80)
THERE = Origin("http", "there.example", 80)


class Waiter(NamedTuple):
    started_s: float
    account_id: str = "a"
    needs_fresh: bool = False
    is_over: bool = False
    resent: bool = False
    limit_ms: int = 30_000


@pytest.fixture(autouse=True)
def two_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.send.connection_slots.MAX_OPENINGS", 2)


def two_opening(most: int = 100) -> ConnectionSlots:
    slots: ConnectionSlots = ConnectionSlots(most)
    assert slots.admit(HERE, Waiter(0))
    assert slots.admit(HERE, Waiter(0))
    return slots


def all_open(accounts: str = "aa") -> ConnectionSlots:
    """At the ceiling: all that there may be are open, one for each letter."""
    slots: ConnectionSlots = ConnectionSlots(len(accounts))
    for account_id in accounts:
        assert slots.admit(HERE, Waiter(0, account_id))
        slots.opened(HERE, account_id)
        slots.ended(HERE, account_id)
    return slots


def in_line(slots: ConnectionSlots, *waiters: Waiter) -> ConnectionSlots:
    for waiter in waiters:
        assert not slots.admit(HERE, waiter)
    return slots


def order(slots: ConnectionSlots) -> list[Waiter]:
    """Who goes, as the connection of one after the other is closed."""
    gone = [Waiter(0), Waiter(0)]
    for each in gone:
        slots.closed(HERE, each.account_id)
        following = slots.next_to_open(HERE)
        if following is not None:
            gone.append(following)
            slots.opened(HERE, following.account_id)
            slots.ended(HERE, following.account_id)
    assert slots.queued == 0
    return gone[2:]


def reuse(slots: ConnectionSlots, account_id: str = "a", age_s: float = 0.0) -> Waiter | None:
    """The fire that gets a freed connection of the account; None if it closes."""
    if slots.is_due(HERE, account_id, time.monotonic() - age_s):
        return None
    return slots.next_to_reuse(HERE, account_id)


def test_who_waits_goes_on_when_an_attempt_ends() -> None:
    slots = in_line(two_opening(), Waiter(1))
    slots.ended(HERE, "a")
    assert slots.next_to_open(HERE) == Waiter(1)
    in_line(slots, Waiter(2))  # that attempt counts
    for _ in range(2):
        slots.ended(HERE, "a")
    assert slots.next_to_open(HERE) == Waiter(2)


def test_what_waits_longest_goes_first_and_accounts_take_turns() -> None:
    flood = [Waiter(at, "flood", limit_ms=1000 * (at + 1)) for at in range(4)]
    late, fresh = Waiter(9, "neighbour"), Waiter(1.5, "flood", needs_fresh=True)
    slots = in_line(all_open(), *flood[:2], fresh, *flood[2:], late)
    assert order(slots) == [flood[0], late, flood[1], fresh, *flood[2:]]


def test_who_waits_is_given_a_connection_that_comes_free() -> None:
    slots = all_open()
    assert reuse(slots) is None
    in_line(slots, Waiter(1))
    assert slots.next_to_reuse(THERE, "a") is None
    assert reuse(slots) == Waiter(1)
    assert reuse(slots) is None
    assert slots.queued == 0


def test_an_account_whose_last_fire_got_a_freed_connection_has_no_turn_in_the_queue() -> None:
    slots = in_line(all_open("ab"), Waiter(1, "a"), Waiter(2, "b"))
    assert reuse(slots, "a") == Waiter(1, "a")
    slots.closed(HERE, "a")
    assert slots.next_to_open(HERE) == Waiter(2, "b")


def test_who_needs_a_fresh_one_is_given_no_used_one_but_room_for_it() -> None:
    slots = in_line(all_open(), Waiter(1, needs_fresh=True), Waiter(2))
    assert reuse(slots) is None
    assert slots.must_make_room(HERE)
    slots.makes_room(HERE)
    assert reuse(slots) == Waiter(2), "the other connection is the next one's"
    slots.closed(HERE, "a")
    assert slots.next_to_open(HERE) == Waiter(1, needs_fresh=True)


def test_a_connection_goes_to_no_other_account() -> None:
    slots = in_line(all_open("ab"), Waiter(1, "c"), Waiter(2, "b"))
    assert reuse(slots, "a") is None
    assert reuse(slots, "b") == Waiter(2, "b")
    assert slots.must_make_room(HERE)


def test_more_accounts_than_connections_take_turns() -> None:
    slots = in_line(all_open("ab"), Waiter(1, "a"), Waiter(2, "b"), Waiter(3, "c"))
    assert reuse(slots, "a", TURN_S / 2) == Waiter(1, "a")
    in_line(slots, Waiter(4, "a"))
    assert reuse(slots, "a", TURN_S) is None
    slots.makes_room(HERE)
    assert reuse(slots, "b", TURN_S) == Waiter(2, "b"), "one is enough"
    slots.closed(HERE, "a")
    assert slots.next_to_open(HERE) == Waiter(3, "c")


def test_a_place_goes_to_the_account_with_the_fewest_connections_and_among_equals_in_turn() -> None:
    slots = all_open("aab")
    in_line(slots, *(Waiter(at, who) for at, who in enumerate("aabccd")))
    assert [each.account_id for each in order(slots)] == [*"cdacab"]


@pytest.mark.parametrize(
    ("has_connection", "has_place", "needs_fresh", "waits_s", "expected"),
    [
        (False, False, False, 0.0, True),
        (False, True, False, 0.0, False),
        (True, False, False, 0.0, False),
        (True, False, True, 0.0, True),
        (True, False, False, PATIENCE_S, True),
        (False, True, False, PATIENCE_S, True),
    ],
)
def test_room_is_made_at_once_for_what_no_connection_of_its_account_can_serve(
    has_connection: bool, has_place: bool, needs_fresh: bool, waits_s: float, expected: bool
) -> None:
    slots = all_open("aab" if has_connection else "aaa")
    entry = Waiter(time.monotonic() - waits_s, "b", needs_fresh=needs_fresh)
    in_line(slots, entry, entry)
    if has_place:
        slots.makes_room(HERE)
    assert slots.must_make_room(HERE)
    assert slots.is_urgent(HERE) is expected


def test_who_has_ended_meanwhile_is_passed_over() -> None:
    slots = in_line(all_open(), Waiter(1, is_over=True), Waiter(2))
    slots.closed(HERE, "a")
    assert slots.next_to_open(HERE) == Waiter(2)
    in_line(slots, Waiter(3, is_over=True))
    assert reuse(slots) is None
    assert slots.queued == 0


def test_an_entry_without_a_local_port_waits_ahead_of_its_account_until_the_release() -> None:
    slots = two_opening()
    in_line(slots, Waiter(1))
    assert slots.hold(HERE, Waiter(0))
    assert not slots.hold(HERE, Waiter(0.5)), "it is held already"
    for _ in range(2):
        slots.ended(HERE, "a")
    assert slots.next_to_open(HERE) is None
    in_line(slots, Waiter(2))
    assert not slots.must_make_room(HERE)
    assert slots.unbegun == 4
    slots.release(HERE)
    gone = [slots.next_to_open(HERE) for _ in range(2)]
    assert gone == [Waiter(0.5), Waiter(0)]
    slots.release(THERE)


def test_those_to_whom_the_target_gave_nobody_a_connection_are_without_hope() -> None:
    early, hasty, late = Waiter(1), Waiter(20, limit_ms=5000), Waiter(21)
    slots = in_line(two_opening(), early, hasty, late)
    assert slots.pop_hopeless(HERE, now_s=24) == []
    assert slots.pop_hopeless(HERE, now_s=25) == [hasty]
    assert slots.pop_hopeless(HERE, now_s=31) == [early]
    assert slots.queued == 1


def test_a_connection_that_was_made_meanwhile_is_hope_for_a_time_limit() -> None:
    early = Waiter(1)
    slots = in_line(two_opening(), early)
    slots.opened(HERE, "a")
    assert slots.pop_hopeless(HERE, now_s=time.monotonic() + 100) == []
    slots.closed(HERE, "a")
    assert slots.pop_hopeless(HERE, now_s=time.monotonic() + 29) == []
    assert slots.pop_hopeless(HERE, now_s=time.monotonic() + 31) == [early]


def test_those_whose_turn_has_not_come_can_be_told_from_those_who_had_it() -> None:
    again = Waiter(5, needs_fresh=True, resent=True)
    slots = in_line(all_open(), Waiter(1), again, Waiter(2, needs_fresh=True))
    assert slots.unbegun == 2
    assert slots.pop_unbegun() == [Waiter(2, needs_fresh=True), Waiter(1)]
    assert order(slots) == [again]
