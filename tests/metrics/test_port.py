"""The metrics port, as clients see it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
import structlog

from metrics import common, port
from metrics.common import LoopLag
from metrics.families import Metric, gauge
from metrics.port import MetricsPort
from tests.support.servers import free_port, until_async
from tests.support.waiting import DEADLINE_S

HOST = "127.0.0.1"


class ScriptedSource:
    """Serves given samples; `looks` counts the reads."""

    def __init__(self) -> None:
        self.looks = 0
        self.reason: str | None = None
        self.error: Exception | None = None
        self.going = asyncio.Event()
        self.going.set()

    async def look(self) -> None:
        self.looks += 1
        await self.going.wait()

    def families(self) -> Iterator[Metric]:
        if self.error:
            raise self.error
        yield gauge("first", "told", 1)
        yield gauge("second", "told", 2)

    async def unready(self) -> str | None:
        return self.reason


class Ported:
    """A port with its source, and requests to it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.source = ScriptedSource()
        self.pulse = LoopLag()
        self.port = MetricsPort(HOST, number, self.source, self.pulse)
        self.serving = asyncio.create_task(self.port.run())

    async def aclose(self) -> None:
        self.serving.cancel()
        await asyncio.gather(self.serving, return_exceptions=True)
        self.pulse.close()

    async def send(self, head: str) -> str:
        reader, writer = await asyncio.open_connection(HOST, self.number)
        try:
            writer.write(head.encode())
            return (await reader.read()).decode()
        finally:
            writer.close()

    async def get(self, path: str, method: str = "GET") -> str:
        return await self.send(f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n")

    async def status(self, path: str) -> int:
        return int((await self.get(path)).split()[1])


@pytest.fixture
async def ported() -> AsyncIterator[Ported]:
    made = Ported(free_port())
    await asyncio.sleep(0)  # it listens
    yield made
    await made.aclose()


async def test_metrics_are_told_whole(ported: Ported) -> None:
    answer = await ported.get("/metrics?name[]=x")
    head, _, body = answer.partition("\r\n\r\n")
    assert head.startswith("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
    assert f"Content-Length: {len(body)}" in head
    assert body.startswith("# HELP first told\n# TYPE first gauge\nfirst 1.0\n")
    assert body.endswith("\nsecond 2.0\n")
    assert (await ported.get("/metrics", "HEAD")) == head + "\r\n\r\n"


async def test_one_answer_is_made_for_all_who_ask_within_a_second(
    ported: Ported, monkeypatch: pytest.MonkeyPatch
) -> None:
    ported.source.going.clear()
    asked = [asyncio.create_task(ported.get("/metrics")) for _ in range(10)]
    await until_async(lambda: ported.source.looks)
    ported.source.going.set()
    assert len(set(await asyncio.gather(*asked))) == 1
    assert ported.source.looks == 1
    monkeypatch.setattr(port, "_KEPT_S", -1.0)
    await ported.get("/metrics")
    assert ported.source.looks == 2


async def test_readiness_is_the_sources_and_health_the_loops(
    ported: Ported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port, "_KEPT_S", -1.0)
    assert await ported.status("/readyz") == 200
    ported.source.reason, ported.source.error = "Not yet.", RuntimeError("broken")
    answer = await ported.get("/readyz")
    assert answer.startswith("HTTP/1.1 503 ")
    assert answer.endswith("\r\n\r\nNot yet.\n")
    assert await ported.status("/healthz") == 200
    assert ported.source.looks == 0
    monkeypatch.setattr(common, "HUNG_AFTER_S", 0.0)  # so that it has stood still
    assert await ported.status("/healthz") == 503


async def test_what_fails_is_a_500_that_tells_nothing(ported: Ported) -> None:
    ported.source.error = RuntimeError("secret")
    with structlog.testing.capture_logs() as logs:
        answer = await ported.get("/metrics")
    assert answer.startswith("HTTP/1.1 500 ")
    assert "secret" not in answer
    assert [each["event"] for each in logs] == ["metrics cannot be read"]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        ("GET / HTTP/1.1\r\n\r\n", 404),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 400),
        ("GET /metrics HTTP/1.1\r\nX: " + "x" * 70_000, 400),
        ("nonsense\r\n\r\n", 400),
        ("GET /healthz HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n", 200),
    ],
)
async def test_odd_requests(ported: Ported, head: str, status: int) -> None:
    answer = await ported.send(head)
    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert answer.count("HTTP/1.1") == 1
    assert ported.source.looks == 0


async def test_idle_connections_are_cut_off_and_many_keep_no_other_out(
    ported: Ported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(port, "LIMIT_S", 0.05)
    assert await ported.send("GET /met") == ""
    monkeypatch.setattr(port, "_MOST_AT_ONCE", 3)
    monkeypatch.setattr(port, "LIMIT_S", 300.0)
    held = [await asyncio.open_connection(HOST, ported.number) for _ in range(4)]
    assert await asyncio.wait_for(held[0][0].read(), DEADLINE_S) == b"", "the oldest"
    assert len(ported.port._serving) == 3
    assert await ported.status("/healthz") == 200
    for _, writer in held:
        writer.close()


async def test_a_taken_port_is_told_once_and_had_later(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, create_server = list[object](), socket.create_server

    def create(*given: Any, **options: Any) -> socket.socket:
        tried.append(given)
        return create_server(*given, **options)

    monkeypatch.setattr(port, "_TRY_AGAIN_S", 0.01)
    monkeypatch.setattr(socket, "create_server", create)
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        with structlog.testing.capture_logs() as logs:
            ported = Ported(other.getsockname()[1])
            await until_async(lambda: len(tried) >= 3)
    [told] = logs
    assert f"port {ported.number} on 127.0.0.1 cannot be listened on" in told["event"]

    async def serves() -> bool:
        with suppress(ConnectionError):
            return await ported.status("/healthz") == 200
        return False

    await until_async(serves)
    await ported.aclose()
