"""The addresses of a name, with attempts that do what the test says."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.worker.scripted import until
from worker.fair_share import FairShare
from worker.send.addresses.happy_eyeballs import HappyEyeballs, OutOfSockets
from worker.send.outcome import ConnectFailed, Failure
from worker.send.wire import Wire


class FakeWire:
    def __init__(self, address: str) -> None:
        self.address = address
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


class Network:
    """Addresses that hang until the test decides their result."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.running: dict[str, asyncio.Future[Wire]] = {}
        self.most = 0

    async def attempt(self, address: str) -> Wire:
        self.tried.append(address)
        self.running[address] = asyncio.get_running_loop().create_future()
        self.most = max(self.most, len(self.running))
        try:
            return await self.running[address]
        finally:
            del self.running[address]

    def connect(self, address: str) -> FakeWire:
        wire = FakeWire(address)
        self.running[address].set_result(wire)  # type: ignore[arg-type]
        return wire

    def fail(self, address: str, error: Exception) -> None:
        self.running[address].set_exception(error)


@pytest.fixture
def network() -> Network:
    return Network()


def race(
    network: Network, addresses: str, limit_s: float = 30, spares: FairShare | None = None
) -> Coroutine[Any, Any, Wire]:
    shared = (FairShare(10) if spares is None else spares, "a", [])
    return HappyEyeballs(network.attempt, tuple(addresses), limit_s, *shared).run()  # type: ignore[arg-type]


async def test_two_at_once_and_each_has_its_turn_within_the_limit(network: Network) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(race(network, "abcdefgh", limit_s=2), 2)
    assert network.tried == list("abcdefgh")
    assert network.most == 2
    assert network.running == {}


async def test_a_refusal_makes_it_the_next_ones_turn_at_once(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.send.addresses.happy_eyeballs.NEXT_ADDRESS_AFTER_S", 100)
    racing = asyncio.ensure_future(race(network, "abc", limit_s=1000))
    await until(lambda: network.tried == ["a"])
    network.fail("a", ConnectFailed(Failure.UNREACHABLE))
    await until(lambda: network.tried == ["a", "b"])
    network.fail("b", ConnectFailed(Failure.REFUSED))
    await until(lambda: network.tried == ["a", "b", "c"])
    network.fail("c", ConnectFailed(Failure.UNREACHABLE))
    with pytest.raises(ConnectFailed, match="Connection refused"):
        await racing


# Each tells more than those before it.
TELLING = [
    Failure.UNREACHABLE, Failure.CONNECT_TIMEOUT, Failure.NO_CONNECTION, Failure.REFUSED,
    Failure.RESET, Failure.BAD_HANDSHAKE, Failure.BAD_CERTIFICATE,
]  # fmt: skip


@pytest.mark.parametrize(("less", "more"), [*itertools.combinations(TELLING, 2)])
@pytest.mark.parametrize("first", "ab")
async def test_of_two_faults_the_one_that_came_later_on_the_way_is_told(
    network: Network, less: Failure, more: Failure, first: str
) -> None:
    racing = asyncio.ensure_future(race(network, "ab"))
    await until(lambda: network.tried == ["a", "b"])
    second = "b" if first == "a" else "a"
    network.fail(first, ConnectFailed(less))
    await until(lambda: first not in network.running)
    network.fail(second, ConnectFailed(more, "why"))
    with pytest.raises(ConnectFailed) as told:
        await racing
    assert (told.value.failure, told.value.detail) == (more, "why")


@pytest.mark.parametrize("failure", [Failure.BAD_CERTIFICATE, Failure.BAD_HANDSHAKE, Failure.RESET])
async def test_a_failed_handshake_does_not_wait_for_an_address_that_hangs(
    network: Network, failure: Failure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.send.addresses.happy_eyeballs._MOST_BEHIND_TLS_S", 0.05)
    racing = asyncio.ensure_future(race(network, "abcd", limit_s=100_000))
    await until(lambda: network.tried == ["a", "b"])
    network.fail("a", ConnectFailed(failure))
    with pytest.raises(ConnectFailed, match=failure.value):
        await racing
    assert (network.tried, network.running) == (list("abcd"), {})


async def test_an_address_that_works_wins_after_another_ones_failed_handshake(
    network: Network,
) -> None:
    racing = asyncio.ensure_future(race(network, "ab"))
    await until(lambda: network.tried == ["a", "b"])
    network.fail("a", ConnectFailed(Failure.BAD_CERTIFICATE))
    await until(lambda: "a" not in network.running)
    wire = network.connect("b")
    assert await racing is wire  # type: ignore[comparison-overlap]


async def test_of_two_winners_one_is_closed(network: Network) -> None:
    racing = asyncio.ensure_future(race(network, "ab"))
    await until(lambda: network.tried == ["a", "b"])
    wires = [network.connect("a"), network.connect("b")]
    won = await racing
    await until(lambda: any(wire.aborted for wire in wires))
    assert [wire.aborted for wire in wires].count(True) == 1
    assert not won.aborted  # type: ignore[attr-defined]


async def test_without_a_spare_socket_the_next_waits_for_the_first_to_be_given_up(
    network: Network,
) -> None:
    racing = asyncio.ensure_future(race(network, "ab", limit_s=1, spares=FairShare(0)))
    await until(lambda: network.tried == ["a", "b"])
    assert network.most == 1
    network.connect("b")
    await racing


async def test_an_address_for_which_there_was_no_socket_was_not_tried(network: Network) -> None:
    racing = asyncio.ensure_future(race(network, "ab"))
    await until(lambda: network.tried == ["a"])
    network.fail("a", OutOfSockets())
    await until(lambda: network.tried == ["a", "b"])
    network.fail("b", ConnectFailed(Failure.REFUSED))
    with pytest.raises(OutOfSockets):
        await racing


async def test_a_race_that_is_given_up_leaves_nothing_running(network: Network) -> None:
    spares = FairShare(1)
    racing = asyncio.ensure_future(race(network, "abc", spares=spares))
    await until(lambda: network.tried == ["a", "b"])
    assert not spares.take("b")
    racing.cancel()
    await until(lambda: racing.done() and not network.running)
    assert spares.take("b")
