"""The resolver, with the attack's name server."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import aiodns
import pytest

from tests.attack.names import NameServer, addresses
from tests.support.waiting import until_async
from worker.send.addresses.resolver import _LOOK_UPS_EACH, SystemResolver, _preferred

Opened = tuple[list[aiodns.DNSResolver], list[aiodns.DNSResolver]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """The c-ares channels that were made, and those that were closed."""
    made, closed = opened = ([], [])

    class Noted(aiodns.DNSResolver):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options)  # type: ignore[arg-type]
            made.append(self)

        async def close(self) -> None:
            closed.append(self)
            await super().close()

    monkeypatch.setattr(aiodns, "DNSResolver", Noted)
    return opened


@pytest.fixture
async def resolver(opened: Opened) -> AsyncIterator[SystemResolver]:
    with NameServer() as names:
        resolver = SystemResolver([names.server])
        yield resolver
        await resolver.aclose()


async def test_it_finds_a_names_addresses_or_raises(resolver: SystemResolver) -> None:
    assert await resolver("two.test") == ["127.0.0.2", "127.0.0.1"]
    for name in ("none.test", "a..b"):
        with pytest.raises(OSError, match=name):
            await resolver(name)


@pytest.mark.parametrize(
    ("has_way", "preferred"),
    [(True, ["::1", "8.8.8.8", "8.8.4.4"]), (False, ["8.8.8.8", "8.8.4.4", "::1"])],
)
def test_a_family_that_this_machine_has_no_way_to_comes_last(
    monkeypatch: pytest.MonkeyPatch, has_way: bool, preferred: list[str]
) -> None:
    monkeypatch.setattr("worker.send.addresses.resolver.has_way", lambda address: has_way)
    assert _preferred(["8.8.8.8", "::1", "8.8.4.4"]) == preferred


async def test_of_an_answer_that_is_too_long_there_is_what_fits_into_a_datagram(
    resolver: SystemResolver,
) -> None:
    """In the name server's order. The rest is not asked for by TCP."""
    assert await resolver("black.test") == addresses("black.test")
    host, port = (resolver._servers or [""])[0].split(":")
    with socket.create_server((host, int(port))) as by_tcp:
        by_tcp.setblocking(False)
        with pytest.raises(OSError, match=r"many\.test"):
            await resolver("many.test")
        with pytest.raises(BlockingIOError):
            by_tcp.accept()


async def test_answers_are_kept_for_some_look_ups_and_each_resolver_is_closed(
    resolver: SystemResolver, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """c-ares' own cache has no bound. Those that were replaced are closed by their last look-up, or
    by the end of all."""
    monkeypatch.setattr("worker.send.addresses.resolver._LOOK_UPS_EACH", 2)
    made, closed = opened
    slow = [asyncio.ensure_future(resolver("dead.test")) for _ in range(3)]
    await asyncio.sleep(0)
    for _ in range(3):
        assert await resolver("one.test") == ["127.0.0.1"]
    assert (len(made), closed) == (3, [])
    for each in slow[:2]:
        each.cancel()
    await until_async(lambda: closed == made[:1])
    await resolver.aclose()
    assert closed == made
    slow[2].cancel()


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("at_a_time", [1, 2, 16])
async def test_no_replaced_resolver_stays_open(
    resolver: SystemResolver, opened: Opened, at_a_time: int
) -> None:
    """Neither its descriptors nor its object, after twenty replacements."""
    left = 20 * _LOOK_UPS_EACH + 1

    async def look_up() -> None:
        nonlocal left
        while left:
            left -= 1
            await resolver("one.test")

    await resolver("one.test")
    descriptors = _descriptors()
    await asyncio.gather(*(look_up() for _ in range(at_a_time)))
    made, closed = opened
    assert len(made) == 21
    assert set(closed) == set(made[:-1])
    assert list(resolver._waiting) == made[-1:]
    # c-ares closes what it has in a thread of its own.
    await until_async(lambda: _descriptors() <= descriptors)
    made.clear()
    closed.clear()
    gc.collect()
    assert sum(isinstance(each, aiodns.DNSResolver) for each in gc.get_objects()) == 1
