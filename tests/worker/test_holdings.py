"""What a worker holds, and who holds more of it than is fair."""

from __future__ import annotations

from msgspec.structs import replace

from scheduler.callbacks import Callback
from tests.worker.desk import Invocations
from worker.holdings import Holdings


def test_what_is_held_takes_room_until_it_is_removed_once() -> None:
    holdings = Holdings(10, 1000)
    first, second = held = Invocations().many(2)
    holdings.add(held)
    assert (len(holdings), holdings.slots.free) == (2, 8)
    holdings.remove([first])
    holdings.remove([first])
    assert (len(holdings), holdings.slots.free) == (1, 9)
    assert holdings.of(0) == [second]


def test_an_account_is_crowding_above_four_times_what_is_free() -> None:
    holdings, make = Holdings(100, 1000), Invocations()
    holdings.add(make.many(80, 0, "flood"))
    assert holdings.crowding() == []
    [last] = make.many(1, 0, "flood")
    holdings.add([last])
    assert holdings.crowding() == ["acc_00_flood"]
    holdings.remove([last])
    assert holdings.crowding() == []


def test_the_fullest_is_named_first_and_none_that_has_its_share_or_less() -> None:
    holdings, make = Holdings(100, 1000), Invocations()
    for account, count in {"b": 42, "a": 46, "at its share": 8, "small": 2}.items():
        holdings.add(make.many(count, 0, account))
    assert holdings.crowding() == ["acc_00_a", "acc_00_b"]


def test_what_is_held_takes_room_in_bytes_as_well_and_a_heavy_account_is_crowding() -> None:
    holdings, make = Holdings(100, 1000), Invocations()
    heavy = [make.one(0, "heavy", size_bytes=300) for _ in range(3)]
    holdings.add([*heavy, make.one(0, "light", size_bytes=1)])
    assert holdings.bytes.free == 99
    assert holdings.crowding() == ["acc_00_heavy"]
    holdings.remove(heavy[:1])
    holdings.remove(heavy[:1])
    assert holdings.bytes.free == 399
    assert holdings.crowding() == []


def test_an_answer_that_a_callback_is_to_have_takes_room_before_it_comes() -> None:
    holdings, make = Holdings(100, 1000, response_bytes=250), Invocations()
    asks, plain, other = held = [make.one(0, size_bytes=10) for _ in range(3)]
    url = "https://example.com/ended"
    asks.request = replace(asks.request, callback=Callback(url, with_response=True))
    other.request = replace(other.request, callback=Callback(url))
    holdings.add(held)
    assert holdings.bytes.free == 1000 - 250 - 3 * 10
    holdings.remove([asks, plain])
    assert holdings.bytes.free == 990
