"""How many schedules a second one API process accepts, against an empty handler in the same server.

    python -m benchmarks.accept [--rounds 5] [--seconds 4] [--connections 128]

Starts a Valkey of its own (every write on disk before it is answered), one API process over it,
and one process that serves an empty litestar handler through the same uvicorn configuration.
Loads them in turn, A B A B, with wrk if it is on PATH, else with a small asyncio client, and
prints the medians and their ratio. The ratio is what to compare between machines and hours.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
import uvloop
from litestar import Litestar, post

from api.serve import serve, uvicorn_config
from benchmarks.support.rounds import warn_of_noise
from cli.serving.embedded import ask, find_server, server_arguments
from scheduler.models import Plan
from scheduler.runtime.collector import spare_the_collector
from scheduler.runtime.settings import Settings
from scheduler.store import Store

TARGET_RATIO = 0.75
_PATIENCE_S = 20.0
_LUA = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["x-api-key"] = "{key}"
wrk.body = [==[{body}]==]
"""


class Served(msgspec.Struct):
    """One process under load."""

    name: str
    pid: int
    port: int


class Measured(NamedTuple):
    """What one round of load found."""

    rate: float
    cpu_us: float
    refused: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--connections", type=int, default=128)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pd-accept-")))
        redis_url = stack.enter_context(_valkey(directory))
        key = asyncio.run(_account(redis_url))
        accept = stack.enter_context(_process("accept", "--serve", redis_url))
        empty = stack.enter_context(_process("empty", "--serve-empty"))
        script = directory / "load.lua"
        script.write_text(_LUA.format(key=key, body=_body().decode()))
        load = _Load(key, script, arguments.connections, arguments.seconds)
        _report(load, accept, empty, arguments.rounds)


def _report(load: _Load, accept: Served, empty: Served, rounds: int) -> None:
    for served in (accept, empty):
        load.warm_up(served)
    found: dict[str, list[Measured]] = {accept.name: [], empty.name: []}
    for number in range(1, rounds + 1):
        for served in (accept, empty):
            measured = load.run(served)
            found[served.name].append(measured)
            print(f"round {number}  {served.name:7}{_line(measured)}", flush=True)
    medians = {name: statistics.median(m.rate for m in runs) for name, runs in found.items()}
    ratio = medians["accept"] / medians["empty"]
    print(f"\nload by {load.tool}, {load.connections} connections")
    for name, runs in found.items():
        cpu_us = statistics.median(m.cpu_us for m in runs)
        print(f"{name:7} median {medians[name]:9,.0f}/s  {cpu_us:6.1f} us CPU each")
        warn_of_noise([each._asdict() for each in runs], name)
    print(f"ratio   {ratio:.2f} (target: {TARGET_RATIO})")


def _line(measured: Measured) -> str:
    refused = f"  {measured.refused:,} not 2xx" if measured.refused else ""
    return f"{measured.rate:9,.0f}/s  {measured.cpu_us:6.1f} us CPU each{refused}"


class _Load:
    """The client: the same payload over and over on a few dozen kept connections."""

    def __init__(self, key: str, script: Path, connections: int, seconds: int) -> None:
        self.connections = connections
        self.tool = "wrk" if shutil.which("wrk") else "asyncio"
        self._key, self._script, self._seconds = key, script, seconds

    def warm_up(self, served: Served) -> None:
        self._send(served, 1)

    def run(self, served: Served) -> Measured:
        before_s, began_s = _cpu_s(served.pid), time.monotonic()
        done, refused = self._send(served, self._seconds)
        spent_s, took_s = _cpu_s(served.pid) - before_s, time.monotonic() - began_s
        return Measured(done / took_s, spent_s / max(done, 1) * 1e6, refused)

    def _send(self, served: Served, seconds: int) -> tuple[int, int]:
        """How many answers came, and how many of them were not 2xx."""
        if self.tool == "wrk":
            return self._wrk(served, seconds)
        return uvloop.run(_flood(served.port, self._key, self.connections, seconds))

    def _wrk(self, served: Served, seconds: int) -> tuple[int, int]:
        url = f"http://127.0.0.1:{served.port}/schedule"
        connections = f"-c{self.connections}"
        done = subprocess.run(
            ["wrk", "-t1", connections, f"-d{seconds}", "-s", str(self._script), url],
            capture_output=True,
            text=True,
            check=True,
        )
        requests = re.search(r"(\d+) requests in", done.stdout)
        refused = re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout)
        assert requests, done.stdout
        return int(requests[1]), int(refused[1]) if refused else 0


class _Client(asyncio.Protocol):
    """One connection that sends the next request when an answer has come."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.done = 0
        self.refused = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """An answer is short and comes in two writes, head and body: the body ends it."""
        self.refused += data.startswith(b"HTTP/1.1") and not data.startswith(b"HTTP/1.1 2")
        if data.endswith(b"}"):
            self.done += 1
            self.transport.write(self._request)


async def _flood(port: int, key: str, connections: int, seconds: int) -> tuple[int, int]:
    body = _body()
    head = (
        f"POST /schedule HTTP/1.1\r\nHost: api\r\nx-api-key: {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    loop = asyncio.get_running_loop()
    request = head.encode() + body
    clients = []
    for _ in range(connections):
        _, client = await loop.create_connection(lambda: _Client(request), "127.0.0.1", port)
        clients.append(client)
    await asyncio.sleep(seconds)
    for client in clients:
        client.transport.abort()
    return sum(client.done for client in clients), sum(client.refused for client in clients)


def _body() -> bytes:
    """The payload of DESIGN.md's figures: about 190 bytes of request, due far away."""
    due = datetime.now(UTC) + timedelta(days=30)
    return msgspec.json.encode(
        {
            "targetUrl": "https://example.com/webhooks/orders",
            "targetMethod": "POST",
            "targetHeaders": {"X-Order": "ord_8412", "Authorization": "Bearer abcdef0123456789"},
            "targetBody": {"order": "ord_8412", "action": "remind", "attempt": 1},
            "triggerAt": due.isoformat(),
        }
    )


async def _account(redis_url: str) -> str:
    """A key of an account whose credits last for any number of rounds."""
    store = await Store.open(Settings(redis_url=redis_url))
    try:
        account = await store.accounts.create("load", credits=10**9, plan=Plan.UNLIMITED)
        return (await store.api_keys.create(account.account_id, "load"))[1]
    finally:
        await store.aclose()


@contextlib.contextmanager
def _valkey(directory: Path) -> Iterator[str]:
    listen, log = directory / "valkey.sock", directory / "valkey.log"
    arguments = [str(find_server()), *map(str, server_arguments(directory, listen, log))]
    process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        _until(lambda: ask(listen, "PING") == "+PONG")
        yield f"unix://{listen}"
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _process(name: str, mode: str, *more: str) -> Iterator[Served]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.accept", mode, str(port), *more])
    try:
        _until(lambda: _answers(f"http://127.0.0.1:{port}/readyz"))
        yield Served(name, process.pid, port)
    finally:
        process.terminate()
        process.wait()


def _until(condition: object) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise SystemExit("A process of the benchmark did not start.")
        time.sleep(0.05)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _cpu_s(pid: int) -> float:
    """User and system time of a process. Linux only; 0 elsewhere."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@post("/schedule")
async def nothing() -> dict[str, str]:
    """The least that a litestar handler can do."""
    return {}


def _serve_empty(port: int) -> None:
    import uvicorn
    from litestar import get

    @get("/readyz")
    async def readyz() -> dict[str, str]:
        return {}

    app = Litestar([nothing, readyz], openapi_config=None, logging_config=None)
    config = uvicorn_config(app)
    config.port = port
    spare_the_collector()
    uvicorn.Server(config).run()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--serve", port, url]:
            serve(Settings(redis_url=url), [socket.create_server(("127.0.0.1", int(port)))])
        case ["--serve-empty", port]:
            _serve_empty(int(port))
        case _:
            main()
