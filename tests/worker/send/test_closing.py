"""How connections to targets end, and what happens where no local port is left for another one."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler.models import Delivery, Invocation
from scheduler.stages import Stage
from tests.worker.scripted import Line, Script, answer, answering, playing, until
from tests.worker.send.firing import OK, all_fired, fired, firer_for_tests, firing_at, invocation_of
from worker.send.addresses.happy_eyeballs import OutOfPorts
from worker.send.firer import Firer

CLOSE = answer(b"ok", "200 OK", "Connection: close")
RESET, FIN = "a reset", "a FIN"


def watching(ends: list[str], said: bytes = CLOSE) -> Script:
    """Answers a request, then waits for the other end to close, and notes how it did."""

    async def script(line: Line) -> None:
        if said:
            await line.request()
            await line.say(said)
        try:
            while await line.reader.read(65536):
                pass
            ends.append(FIN)
        except ConnectionResetError:
            ends.append(RESET)

    return script


def once(url: str, account_id: str = "acc_00_a") -> Invocation:
    return invocation_of(url, delivery=Delivery.AT_MOST_ONCE, account_id=account_id)


async def test_a_target_that_says_so_closes_first() -> None:
    """The end that does has a port busy for a minute, and a target has ports enough."""
    told = asyncio.Event()

    async def polite(line: Line) -> None:
        await line.request()
        await line.say(CLOSE)
        await told.wait()

    async with firing_at(polite) as (target, firer):
        assert (await fired(firer, invocation_of(target.url()))).brief == OK
        assert (firer.connector.sockets, firer.pool.idle_count) == (1, 0)
        assert (await fired(firer, invocation_of(target.url()))).brief == OK
        assert (firer.connector.sockets, target.accepted, target.ended) == (2, 2, 0)
        told.set()
        await until(lambda: firer.connector.sockets == 0)


async def test_a_closing_connection_gives_its_place_to_a_waiting_fire() -> None:
    ends: list[str] = []
    async with firing_at(watching(ends), ceiling=1) as (target, firer):
        results = await all_fired(firer, [once(target.url(), f"acc_00_{n}") for n in range(3)])
        assert {each.brief for each in results} == {OK}
        await until(lambda: ends == [RESET] * 2)
        assert firer.connector.sockets == 1


async def test_connections_that_are_closed_here_first_are_reset() -> None:
    ends: list[str] = []
    async with (
        playing(watching(ends, answer())) as kept,
        playing(watching(ends, b"")) as mute,
        firer_for_tests() as firer,
        firer_for_tests(limit_ms=200) as impatient,
    ):
        assert (await fired(firer, once(kept.url()))).brief == OK
        await until(lambda: ends == [RESET])
        for scheme in ("http", "https"):  # an answer, or a handshake, that does not come
            ends.clear()
            result = await fired(impatient, invocation_of(mute.url(scheme=scheme)))
            assert result.outcome.error_message.startswith("Timeout")
            await until(lambda: ends == [RESET])


class Ports:
    """How many local ports are left, and how many attempts there were at a connection."""

    def __init__(self) -> None:
        self.left = 0
        self.attempts = 0


@contextlib.contextmanager
def few_ports(monkeypatch: pytest.MonkeyPatch, firer: Firer) -> Iterator[Ports]:
    """As if the system had no local port for a connection, or as many as the test says."""
    ports, create_connection = Ports(), firer.loop.create_connection

    async def create(*args: Any, **options: Any) -> Any:
        ports.attempts += 1
        if not ports.left:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        ports.left -= 1
        return await create_connection(*args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(firer.loop, "create_connection", create)
        yield ports


async def test_fires_wait_for_ports_uncharged_and_go_as_ports_come_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a shortage of ports the next attempt comes soon."""
    monkeypatch.setattr("worker.send.firer.PORTS_PAUSE_S", 0.005)
    monkeypatch.setattr("worker.send.connector.PORTS_PAUSE_S", 0.005)
    async with firing_at(answering(*[answer()] * 9)) as (target, firer):
        with few_ports(monkeypatch, firer) as ports:
            fires = [asyncio.create_task(fired(firer, once(target.url()))) for _ in range(3)]
            await until(lambda: firer._slots.unbegun == 3 and len(firer._deadlines) == 0)
            for done in range(1, 4):
                ports.left = 1
                await until(lambda: sum(each.done() for each in fires) == done)  # noqa: B023
            assert firer.connector.shortages[OutOfPorts] > 3
        assert {each.result().brief for each in fires} == {OK}


async def test_an_address_without_a_port_is_left_alone_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[Any] = []
    async with firing_at(answering(answer())) as (target, firer):
        with few_ports(monkeypatch, firer) as ports:
            for scheme in ("http", "https"):
                invocations = [invocation_of(target.url(scheme=scheme)) for _ in range(50)]
                for each in invocations:
                    firer.fire(each, lambda *end: ended.append(end))
            await until(lambda: firer._slots.unbegun == 100)
            assert (ports.attempts, ended) == (1, [])
            assert {each.stage for each in invocations} == {Stage.QUEUED}
            firer.give_up_unbegun()
            assert firer.in_flight == 0
