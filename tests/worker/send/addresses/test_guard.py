"""The guard, with a resolver of the tests' own and a clock that they move."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable

import pytest

from scheduler.target.destinations import Destinations, read_denied
from scheduler.target.targets import Target, parse_target
from tests.support.waiting import DEADLINE_S
from tests.worker.scripted import until
from worker.send.addresses.guard import FAILURE_S, FRESH_S, USABLE_S, Guard, Resolve
from worker.send.outcome import ConnectFailed, Failure

NAME = parse_target("http://hooks.example/")
CROWD = 40
UNKNOWN = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


class Resolver:
    """Gives the last set answer, and counts the look-ups."""

    def __init__(self, *addresses: str) -> None:
        self.answer: list[str] | Exception = list(addresses)
        self.asked: list[str] = []

    async def __call__(self, name: str) -> list[str]:
        self.asked.append(name)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class MovedLoop:
    """The running loop, with a clock that tests move."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.now = 1000.0
        self.create_future = self.loop.create_future
        self.create_task = self.loop.create_task
        self.call_soon = self.loop.call_soon

    def time(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The addresses of this machine."""
    own: set[str] = set()
    monkeypatch.setattr("worker.send.addresses.guard.is_own_address", own.__contains__)
    return own


def guard_with(
    resolver: Resolve, destinations: Destinations | None = None
) -> tuple[Guard, MovedLoop]:
    clock = MovedLoop()
    return Guard(clock, destinations or Destinations(), resolver), clock  # type: ignore[arg-type]


async def blocked_by(guard: Guard, target: Target) -> Failure:
    with pytest.raises(ConnectFailed) as blocked:
        await guard.addresses(target, "a")
    return blocked.value.failure


@pytest.mark.parametrize(
    ("addresses", "failure"),
    [
        (["8.8.8.8"], None),
        (["2606:4700::1", "8.8.8.8"], None),
        (["8.8.8.8", "fe80::1%eth0"], Failure.NOT_ALLOWED),
        (["::ffff:8.8.8.8"], Failure.NOT_ALLOWED),
        ([], Failure.UNRESOLVED),
        # The last one would not be tried.
        ([*(f"8.8.8.{n}" for n in range(60)), "10.0.0.1"], Failure.NOT_ALLOWED),
    ],
)
async def test_every_address_of_a_name_must_be_allowed(
    addresses: list[str], failure: Failure | None
) -> None:
    guard, _ = guard_with(Resolver(*addresses))
    if failure is None:
        assert await guard.addresses(NAME, "a") == tuple(addresses)
    else:
        assert await blocked_by(guard, NAME) is failure


async def test_of_many_addresses_eight_are_tried_of_both_families_by_turns() -> None:
    four, six = [f"8.8.8.{n}" for n in range(60)], [f"2606:4700::{n}" for n in range(1, 61)]
    guard, _ = guard_with(Resolver(*six, *four))
    chosen = await guard.addresses(NAME, "a")
    assert chosen == tuple(each for pair in zip(six[:4], four[:4], strict=True) for each in pair)


async def test_an_address_of_this_machine_is_not_gone_to(own: set[str]) -> None:
    """Public as it may be: what goes there goes over loopback, past the firewall."""
    own.add("8.8.4.4")
    guard, _ = guard_with(Resolver("8.8.8.8", "8.8.4.4"))
    assert await blocked_by(guard, NAME) is Failure.NOT_ALLOWED
    assert await blocked_by(guard, parse_target("http://8.8.4.4/")) is Failure.NOT_ALLOWED
    assert guard.known(parse_target("http://8.8.8.8/")) == ("8.8.8.8",)


async def test_nothing_is_gone_to_of_which_the_system_cannot_say_whose_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def cannot_say(_: str) -> bool:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("worker.send.addresses.guard.is_own_address", cannot_say)
    guard, _ = guard_with(Resolver("8.8.8.8"))
    assert await blocked_by(guard, NAME) is Failure.UNRESOLVED
    assert await blocked_by(guard, parse_target("http://8.8.8.8/")) is Failure.UNRESOLVED


async def test_a_denied_name_is_not_even_looked_up() -> None:
    resolver = Resolver("8.8.8.8")
    guard, _ = guard_with(resolver, Destinations(denied=read_denied("*.example")))
    assert await blocked_by(guard, NAME) is Failure.NOT_ALLOWED
    assert resolver.asked == []


async def test_a_port_is_judged_each_time_though_the_host_is_known() -> None:
    guard, _ = guard_with(Resolver("8.8.8.8"))
    assert await guard.addresses(NAME, "a") == ("8.8.8.8",)
    assert await blocked_by(guard, parse_target("http://hooks.example:25/")) is Failure.NOT_ALLOWED


async def test_a_literal_is_judged_without_asking_anybody() -> None:
    resolver = Resolver()
    guard, clock = guard_with(resolver)
    assert guard.known(parse_target("http://8.8.8.8/")) == ("8.8.8.8",)
    assert guard.known(parse_target("http://[2606:4700::1]/")) == ("2606:4700::1",)
    with pytest.raises(ConnectFailed):
        guard.known(parse_target("http://127.0.0.1/"))
    clock.now += USABLE_S + 1
    assert guard.known(parse_target("http://8.8.8.8/")) == ("8.8.8.8",)
    assert resolver.asked == []


async def test_a_name_that_turned_private_is_blocked_as_soon_as_it_is_known() -> None:
    resolver = Resolver("8.8.8.8")
    guard, clock = guard_with(resolver)
    await guard.addresses(NAME, "a")
    resolver.answer = ["127.0.0.1"]
    clock.now += FRESH_S
    guard.known(NAME)
    await until(lambda: len(resolver.asked) == 2)
    for _ in range(5):  # until the answer is judged
        await asyncio.sleep(0)
    with pytest.raises(ConnectFailed):
        guard.known(NAME)


async def test_a_resolver_that_stumbles_takes_nothing_back_for_a_while() -> None:
    resolver = Resolver("8.8.8.8")
    guard, clock = guard_with(resolver)
    await guard.addresses(NAME, "a")
    resolver.answer = UNKNOWN
    clock.now += FRESH_S

    def asked_again() -> bool:
        """Only once it has heard of the first stumble, and a second has passed since."""
        clock.now += FAILURE_S / 50
        assert guard.known(NAME) == ("8.8.8.8",)
        return len(resolver.asked) == 3

    await until(asked_again)
    clock.now = 1000 + USABLE_S
    assert await blocked_by(guard, NAME) is Failure.UNRESOLVED


async def test_a_failure_is_remembered_for_a_second() -> None:
    resolver = Resolver()
    resolver.answer = UNKNOWN
    guard, clock = guard_with(resolver)
    assert await blocked_by(guard, NAME) is Failure.UNRESOLVED
    assert await blocked_by(guard, NAME) is Failure.UNRESOLVED
    assert len(resolver.asked) == 1
    resolver.answer = ["8.8.8.8"]
    clock.now += FAILURE_S
    assert await guard.addresses(NAME, "a") == ("8.8.8.8",)


async def test_one_accounts_names_and_literals_take_no_place_of_a_neighbours_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("worker.send.addresses.guard.MAX_NAMES", 20)
    monkeypatch.setattr("worker.send.addresses.guard.MAX_LITERALS", 20)
    guard, _ = guard_with(Resolver("8.8.8.8"))
    await guard.addresses(NAME, "neighbour")
    for number in range(100):
        target = parse_target(f"http://n{number}.example/")
        await guard.addresses(target, "flood")
        assert guard.known(target) == ("8.8.8.8",)
        literal = f"8.8.8.{number}"
        assert guard.known(parse_target(f"http://{literal}/")) == (literal,)
    assert guard.known(NAME) == ("8.8.8.8",)
    assert len(guard._literals) == 20


async def test_a_crowd_of_names_is_asked_for_and_judged_a_few_in_a_round_of_the_loop() -> None:
    """So that others are heard in between."""
    asked, answered = list[str](), asyncio.Event()

    async def resolve(name: str) -> list[str]:
        asked.append(name)
        await answered.wait()
        return ["8.8.8.8"]

    async def most_in_a_round(count: Callable[[], int]) -> int:
        most = 0
        async with asyncio.timeout(DEADLINE_S):
            while (before := count()) < CROWD:
                await asyncio.sleep(0)
                most = max(most, count() - before)
        return most

    guard, _ = guard_with(resolve)
    targets = [parse_target(f"http://n{number}.example/") for number in range(CROWD)]
    waiting = [asyncio.create_task(guard.addresses(each, "a")) for each in targets]
    assert await most_in_a_round(lambda: len(asked)) == 8
    answered.set()
    assert await most_in_a_round(lambda: sum(each.done() for each in waiting)) == 8


async def test_a_look_up_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(name: str) -> list[str]:
        await asyncio.Event().wait()
        return ["8.8.8.8"]

    monkeypatch.setattr("worker.send.addresses.guard.LOOKUP_LIMIT_S", 0.05)
    guard, _ = guard_with(resolve)
    assert await blocked_by(guard, NAME) is Failure.UNRESOLVED
