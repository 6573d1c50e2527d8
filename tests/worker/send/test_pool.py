"""Which kept connection is used again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from scheduler.target.targets import Origin
from tests.worker.scripted import until
from worker.send.pool import IDLE_LIMIT_S, Pool
from worker.send.wire import Route, Wire

ORIGIN = Origin("http", "e.example", 80)
FIRST, SECOND = "8.8.8.8", "9.9.9.9"


class KeptWire:
    """A connection that a test closes without a word to the pool, as one that is just closing."""

    def __init__(
        self, address: str = FIRST, account_id: str = "a", *, closes_first: bool = False
    ) -> None:
        self.route = Route(ORIGIN, address, account_id)
        self.is_open = True
        self.idle_since_s = 0.0
        self.closes_first = closes_first
        self.ended_by = ""

    def abort(self) -> None:
        self.ended_by = self.ended_by or "a reset"
        self.is_open = False

    def hang_up(self) -> None:
        self.ended_by = "a FIN"
        self.is_open = False


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    pool = Pool(asyncio.get_running_loop())
    yield pool
    pool.close()


def keep(pool: Pool, *wires: KeptWire) -> None:
    for each in wires:
        pool.keep(cast("Wire", each))


def take(pool: Pool, *addresses: str, account_id: str = "a") -> Any:
    return pool.take(ORIGIN, addresses, account_id)


async def test_what_was_used_last_is_taken_first_and_once(pool: Pool) -> None:
    first, second = KeptWire(), KeptWire()
    keep(pool, first, second)
    assert [take(pool, FIRST) for _ in range(3)] == [second, first, None]
    assert pool.idle_count == 0


async def test_a_connection_that_has_died_is_passed_over(pool: Pool) -> None:
    alive, *dead = wires = [KeptWire() for _ in range(4)]
    keep(pool, *wires)
    for each in dead:
        each.is_open = False
    assert take(pool, FIRST) is alive
    assert pool.idle_count == 0


async def test_only_an_address_that_was_judged_is_gone_to(pool: Pool) -> None:
    keep(pool, kept := KeptWire(SECOND))
    assert take(pool, FIRST) is None
    assert pool.take(Origin("https", "e.example", 443), (SECOND,), "a") is None
    assert take(pool, FIRST, SECOND) is kept


async def test_a_connection_stays_with_its_account(pool: Pool) -> None:
    keep(pool, kept := KeptWire(account_id="b"))
    assert take(pool, FIRST, account_id="a") is None
    assert take(pool, FIRST, account_id="b") is kept


async def test_the_account_with_the_most_connections_makes_room_with_its_oldest(pool: Pool) -> None:
    neighbours, dying, oldest, other = wires = [
        KeptWire(account_id="neighbour"),
        *(KeptWire() for _ in range(3)),
    ]
    keep(pool, *wires)
    dying.is_open = False
    connections = {"neighbour": 1, "a": 3}.__getitem__
    assert not pool.drop_idle(Origin("https", "e.example", 443), connections)
    assert pool.drop_idle(ORIGIN, connections)
    assert [each.is_open for each in (neighbours, oldest, other)] == [True, False, True]
    assert [pool.drop_idle(ORIGIN, connections) for _ in range(3)] == [True, True, False]
    assert (pool.idle_count, pool._idle) == (0, {})


async def test_over_the_cap_the_one_that_was_kept_longest_is_closed(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.send.pool.MAX_IDLE", 2)
    accounts = [KeptWire(account_id=str(n)) for n in range(4)]
    keep(pool, *accounts)
    assert [each.is_open for each in accounts] == [False, False, True, True]
    assert pool.idle_count == 2


async def test_a_connection_that_the_target_is_to_close_is_not_used_and_goes_for_others(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.send.pool.MAX_IDLE", 2)
    first, kept, late = wires = [KeptWire(closes_first=each) for each in (True, False, True)]
    keep(pool, *wires)
    assert (first.is_open, kept.is_open, late.is_open) == (True, True, False)
    assert pool.idle_count == 1
    assert pool.drop_idle(ORIGIN, {"a": 2}.__getitem__)
    assert (first.is_open, take(pool, FIRST)) == (False, kept)
    assert (pool.idle_count, pool._kept, pool._idle) == (0, {}, {})


async def test_what_was_idle_too_long_is_closed_though_nothing_happens(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.send.pool.SWEEP_S", 0.0)
    monkeypatch.setattr("worker.send.pool.IDLE_LIMIT_S", 0.0)
    for each in (KeptWire(), KeptWire()):
        keep(pool, each)
        await until(lambda wire=each: not wire.is_open)
    assert pool.idle_count == 0


async def test_only_some_of_those_that_were_idle_too_long_leave_a_port_busy(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.send.pool._MOST_FINS", 2)
    keep(pool, *(idle := [KeptWire() for _ in range(4)]), young := KeptWire())
    for each in idle:
        each.idle_since_s -= IDLE_LIMIT_S
    pool._sweep()
    assert [each.ended_by for each in idle] == ["a FIN", "a FIN", "a reset", "a reset"]
    assert young.ended_by == ""


async def test_ports_to_one_target_are_freed_by_those_kept_there(pool: Pool) -> None:
    keep(pool, there := KeptWire(), elsewhere := KeptWire(SECOND))
    route = Route(Origin("https", "other.example", 80), FIRST, "b")
    assert pool.drop_all(route)
    assert (there.is_open, elsewhere.is_open) == (False, True)
    assert not pool.drop_all(route)
