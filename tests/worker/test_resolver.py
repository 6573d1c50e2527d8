"""The resolver, with a name server of the test's own."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import struct
from collections.abc import AsyncIterator
from typing import Any

import aiodns
import pytest

from tests.attack.names import question, room_of
from tests.servers import until_async
from worker.resolver import SystemResolver

A, AAAA = 1, 28


class NameServer(asyncio.DatagramProtocol):
    """Answers for the names that it has, says that there is no other, and is silent to some. It
    sends as much as the query has room for, and says so if there is more. `lost` of the next
    queries it does not see."""

    lost = 0

    def __init__(self, records: dict[str, list[str]], silent: str = "") -> None:
        self._records = records
        self._silent = silent
        self.asked: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def datagram_received(self, data: bytes, address: Any) -> None:
        name, end = question(data)
        self.asked.append(name)
        if self.lost:
            self.lost -= 1
            return
        if name == self._silent:
            return
        kind = struct.unpack_from("!H", data, end)[0]
        found = [ipaddress.ip_address(text) for text in self._records.get(name, [])]
        fitting = [each.packed for each in found if each.version == (4 if kind == A else 6)]
        flags = 0x8180 if name in self._records else 0x8183  # 3: no such name
        room = (room_of(data) - end - 4) // (12 + (4 if kind == A else 16))
        if len(fitting) > room:
            flags |= 0x0200  # truncated
            fitting = fitting[:room]
        answer = data[:2] + struct.pack("!5H", flags, 1, len(fitting), 0, 0) + data[12 : end + 4]
        for packed in fitting:
            answer += struct.pack("!HHHIH", 0xC00C, kind, 1, 60, len(packed)) + packed
        self._transport.sendto(answer, address)


@contextlib.asynccontextmanager
async def resolving(
    records: dict[str, list[str]], silent: str = ""
) -> AsyncIterator[tuple[SystemResolver, NameServer]]:
    loop = asyncio.get_running_loop()
    server = NameServer(records, silent)
    transport, _ = await loop.create_datagram_endpoint(lambda: server, local_addr=("127.0.0.1", 0))
    resolver = SystemResolver([f"127.0.0.1:{transport.get_extra_info('sockname')[1]}"])
    try:
        yield resolver, server
    finally:
        await resolver.aclose()
        transport.close()


async def test_it_finds_addresses_of_both_families_and_each_once() -> None:
    records = {"hooks.example": ["8.8.8.8", "8.8.4.4", "2606:4700::1", "8.8.8.8"]}
    async with resolving(records) as (resolver, _):
        found = await resolver("hooks.example")
        assert sorted(found) == ["2606:4700::1", "8.8.4.4", "8.8.8.8"]


async def test_a_family_that_this_machine_has_no_way_to_comes_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = {"hooks.example": ["8.8.8.8", "::1", "8.8.4.4"]}
    async with resolving(records) as (resolver, _):
        monkeypatch.setattr("worker.resolver.has_way", lambda address: False)
        assert (await resolver("hooks.example"))[2] == "::1"
        monkeypatch.setattr("worker.resolver.has_way", lambda address: True)
        assert (await resolver("hooks.example"))[0] == "::1"


async def test_addresses_stay_in_the_name_servers_order() -> None:
    """c-ares would sort them, and connect a socket to each for that."""
    many = [f"{n}.8.0.8" for n in (9, 127, 8, 10, 1)]
    async with resolving({"many.example": many}) as (resolver, _):
        assert await resolver("many.example") == many


async def test_a_name_that_does_not_exist_and_one_without_addresses_are_errors() -> None:
    async with resolving({"empty.example": []}) as (resolver, _):
        for name in ("nowhere.example", "empty.example", "a..b"):
            with pytest.raises(OSError, match=name):
                await resolver(name)


async def test_answers_are_kept_for_some_look_ups(monkeypatch: pytest.MonkeyPatch) -> None:
    """c-ares' own cache has no bound. One that a new one takes the place of still answers."""
    monkeypatch.setattr("worker.resolver._LOOK_UPS_EACH", 2)
    async with resolving({"hooks.example": ["8.8.8.8"]}, silent="slow.example") as (
        resolver,
        server,
    ):
        slow = asyncio.ensure_future(resolver("slow.example"))
        await until_async(lambda: "slow.example" in server.asked, "the question")
        for _ in range(5):
            assert await resolver("hooks.example") == ["8.8.8.8"]
        assert server.asked.count("hooks.example") == 2 * 3  # both families, of each cache
        assert not slow.done()
        slow.cancel()


async def test_each_resolver_is_closed_while_the_loop_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were replaced too, by their last look-up, or by the end of all."""
    monkeypatch.setattr("worker.resolver._LOOK_UPS_EACH", 1)
    closed: list[aiodns.DNSResolver] = []
    close = aiodns.DNSResolver.close

    async def noted(resolver: aiodns.DNSResolver) -> None:
        closed.append(resolver)
        await close(resolver)

    monkeypatch.setattr(aiodns.DNSResolver, "close", noted)
    async with resolving({"hooks.example": ["8.8.8.8"]}, silent="slow.example") as (
        resolver,
        server,
    ):
        slow = [asyncio.ensure_future(resolver("slow.example")) for _ in range(2)]
        await until_async(lambda: server.asked.count("slow.example") >= 4, "the questions")
        await resolver("hooks.example")
        assert closed == []
        slow[0].cancel()
        await until_async(lambda: len(closed) == 1, "the end of the first one")
    assert len(set(closed)) == len(closed) == 3
    slow[1].cancel()


async def test_of_an_answer_that_is_too_long_there_is_what_fits_into_a_datagram() -> None:
    """The rest is not asked for by TCP: here that would be refused."""
    many = [f"8.8.{n // 250}.{n % 250}" for n in range(4000)]
    async with resolving({"many.example": many}) as (resolver, _):
        found = await resolver("many.example")
        assert 64 <= len(found) <= 128
        assert found == many[: len(found)]


async def test_the_hosts_file_is_honoured() -> None:
    async with resolving({}) as (resolver, server):
        assert "127.0.0.1" in await resolver("localhost")
        assert server.asked == []


async def test_a_name_that_gets_no_answer_holds_up_no_other_and_may_be_given_up() -> None:
    records = {"hooks.example": ["8.8.8.8"]}
    async with resolving(records, silent="slow.example") as (resolver, _):
        slow = [asyncio.ensure_future(resolver("slow.example")) for _ in range(50)]
        assert await asyncio.wait_for(resolver("hooks.example"), 1) == ["8.8.8.8"]
        assert not any(each.done() for each in slow)
        for each in slow:
            each.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


async def test_a_server_that_was_quick_is_given_the_time_to_look_around() -> None:
    """c-ares waits the less for a server the quicker it has been, down to 0.25 s at first."""
    records = {f"{n}.example": ["8.8.8.8"] for n in range(50)}
    async with resolving(records) as (resolver, server):
        for name in list(records)[1:]:
            await resolver(name)
        server.lost = 4  # both families, twice
        assert await resolver("0.example") == ["8.8.8.8"]
