"""What a flood of bad API keys does to a good client: its latency without and with the flood.

    python -m benchmarks.flood [--rounds 3] [--requests 20000] [--connections 128] [--fresh]

Starts a Valkey of its own and one API process. A good client posts schedules at a steady rate;
each of its latencies counts from the moment at which the request was to be sent, so that a queue
cannot hide. In turn with quiet stretches, another process sends requests with as many different
bad keys as fast as they are refused, on kept connections, or with `--fresh` each on its own. The
ratio of the good client's p99s is what to compare between machines and hours.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import msgspec
import uvloop

from benchmarks import stage
from benchmarks.payload import new_account
from benchmarks.rounds import warn_of_noise
from scheduler.ids import new_api_key
from scheduler.settings import Settings
from scheduler.store import Store

TARGET_RATIO = 2.0
_REFUSED = b"HTTP/1.1 401 "


class Stretch(msgspec.Struct):
    """What the good client met with, and which part of a core the API needed meanwhile."""

    latencies_ms: list[float]
    took_s: float = 0.0
    cores: float = 0.0

    def __str__(self) -> str:
        p50, p99 = self.percentiles()
        text = f"{len(self.latencies_ms):6,} requests  p50 {p50:6.2f} ms  p99 {p99:6.2f} ms"
        return text + (f"  {self.took_s:4.0f} s  {self.cores:.0%} of a core" if self.took_s else "")

    def percentiles(self) -> tuple[float, float]:
        cuts = statistics.quantiles(self.latencies_ms, n=100, method="inclusive")
        return cuts[49], cuts[98]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--connections", type=int, default=128)
    parser.add_argument("--rate", type=int, default=100, help="of the good client, each second")
    parser.add_argument("--seconds", type=int, default=10, help="of a quiet stretch")
    parser.add_argument("--fresh", action="store_true", help="a connection for each bad request")
    parser.add_argument("--flood", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.flood:
        uvloop.run(_flood(options))
    else:
        with stage.valkey() as store, stage.api(store.url) as api:
            uvloop.run(_compare(options, store.url, api))


async def _compare(options: argparse.Namespace, redis_url: str, api: stage.Running) -> None:
    good = _GoodClient(api.url, await _key(redis_url), options.rate)
    await good.run(asyncio.create_task(asyncio.sleep(2)))  # warms up
    ratios = []
    for number in range(1, options.rounds + 1):
        quiet = await _stretch(good, api, asyncio.sleep(options.seconds))
        print(f"round {number}  quiet  {quiet}", flush=True)
        flood = await _Flood.start(options, api.url)
        flooded = await _stretch(good, api, flood.run())
        ratios.append(flooded.percentiles()[1] / quiet.percentiles()[1])
        print(f"round {number}  flood  {flooded}  ratio {ratios[-1]:.2f}", flush=True)
    median = statistics.median(ratios)
    print(f"\nmedian of the ratios of the p99s  {median:.2f} (at most {TARGET_RATIO})")
    warn_of_noise([{"ratio": ratio} for ratio in ratios])


async def _stretch(
    good: _GoodClient, api: stage.Running, until: Coroutine[Any, Any, None]
) -> Stretch:
    began_s, before_s = time.monotonic(), api.cpu_s()
    stretch = await good.run(asyncio.create_task(until))
    stretch.took_s = time.monotonic() - began_s
    stretch.cores = (api.cpu_s() - before_s) / stretch.took_s
    return stretch


class _GoodClient:
    """Posts at a steady rate on a few kept connections, whether answers come or not."""

    def __init__(self, url: str, key: str, rate: int) -> None:
        self._url, self._every_s = url, 1 / rate
        self._request = _request(key, _body())
        self._idle: list[_Connection] = []

    async def run(self, until: asyncio.Task[None]) -> Stretch:
        """Its latencies until the task is done."""
        latencies: list[float] = []
        waiting = []
        due_s = time.monotonic()
        while not until.done():
            waiting.append(asyncio.create_task(self._post(due_s, latencies)))
            due_s += self._every_s
            await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        await asyncio.gather(until, *waiting)
        return Stretch(latencies)

    async def _post(self, due_s: float, latencies: list[float]) -> None:
        while self._idle and self._idle[-1].was_closed():  # it has been idle for long
            self._idle.pop().close()
        connection = self._idle.pop() if self._idle else await _Connection.open(self._url)
        head = await connection.exchange(self._request)
        assert head.startswith(b"HTTP/1.1 201 "), head
        latencies.append((time.monotonic() - due_s) * 1000)
        self._idle.append(connection)


class _Connection:
    """One kept connection; its answers have a Content-Length."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, url: str) -> _Connection:
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    async def exchange(self, request: bytes) -> bytes:
        """The head of the answer, in lower case from its second line on."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        lower = head.lower()
        length = lower.partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await self._reader.readexactly(int(length))
        return head

    def was_closed(self) -> bool:
        return self._reader.at_eof()

    def close(self) -> None:
        self._writer.close()


class _Flood:
    """A process that sends the bad requests; what it costs to start it is not measured."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, options: argparse.Namespace, url: str) -> _Flood:
        command = [sys.executable, "-m", "benchmarks.flood", "--flood", url]
        command += ["--requests", str(options.requests), "--connections", str(options.connections)]
        command += ["--fresh"] if options.fresh else []
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        assert process.stdout is not None
        await process.stdout.readline()
        return cls(process)

    async def run(self) -> None:
        await self._process.communicate(b"go\n")
        assert self._process.returncode == 0, "the flood broke off"


async def _flood(options: argparse.Namespace) -> None:
    """Every one of the bad requests is refused, on as many connections at once as asked for."""
    requests = iter([_request(new_api_key(n % 16), _body()) for n in range(options.requests)])
    print("ready", flush=True)
    sys.stdin.readline()
    floods = (_refused(options.flood, requests, options.fresh) for _ in range(options.connections))
    await asyncio.gather(*floods)


async def _refused(url: str, requests: Iterator[bytes], fresh: bool) -> None:
    connection: _Connection | None = None
    for request in requests:
        connection = connection or await _Connection.open(url)
        head = await connection.exchange(request)
        assert head.startswith(_REFUSED), head
        if fresh or b"connection: close" in head.lower():
            connection.close()
            connection = None


def _request(key: str, body: bytes) -> bytes:
    head = f"POST /schedule HTTP/1.1\r\nHost: api\r\nx-api-key: {key}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _body() -> bytes:
    due = datetime.now(UTC) + timedelta(days=30)
    payload = {"targetUrl": "https://example.com/hook", "triggerAt": due.isoformat()}
    return json.dumps(payload).encode()


async def _key(redis_url: str) -> str:
    store = await Store.open(Settings(redis_url=redis_url))
    try:
        account = await new_account(store, "good")
        return (await store.api_keys.create(account.account_id, "good"))[1]
    finally:
        await store.aclose()


if __name__ == "__main__":
    main()
