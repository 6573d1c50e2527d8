"""A client at a steady rate, and how long its creates take beside what others do."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import msgspec

from benchmarks.support import stage
from benchmarks.support.payload import new_account
from scheduler.runtime.settings import Settings
from scheduler.store import Store


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


class GoodClient:
    """Posts at a steady rate on a few kept connections, whether answers come or not."""

    def __init__(self, url: str, key: str, rate: int) -> None:
        self._url, self._every_s = url, 1 / rate
        self._request = create_request(key, create_body())
        self._idle: list[Connection] = []

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

    async def stretch(self, api: stage.Running, until: Coroutine[Any, Any, None]) -> Stretch:
        """The same, and how long it took."""
        began_s, before_s = time.monotonic(), api.cpu_s()
        stretch = await self.run(asyncio.create_task(until))
        stretch.took_s = time.monotonic() - began_s
        stretch.cores = (api.cpu_s() - before_s) / stretch.took_s
        return stretch

    async def _post(self, due_s: float, latencies: list[float]) -> None:
        while self._idle and self._idle[-1].was_closed():  # it has been idle for long
            self._idle.pop().close()
        connection = self._idle.pop() if self._idle else await Connection.open(self._url)
        head = await connection.exchange(self._request)
        assert head.startswith(b"HTTP/1.1 201 "), head
        latencies.append((time.monotonic() - due_s) * 1000)
        self._idle.append(connection)


class Connection:
    """One kept connection; its answers have a Content-Length."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, url: str) -> Connection:
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    async def exchange(self, request: bytes) -> bytes:
        """The head of the answer."""
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


def create_request(key: str, body: bytes) -> bytes:
    head = f"POST /schedule HTTP/1.1\r\nHost: api\r\nx-api-key: {key}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def create_body() -> bytes:
    due = datetime.now(UTC) + timedelta(days=30)
    payload = {"targetUrl": "https://example.com/hook", "triggerAt": due.isoformat()}
    return json.dumps(payload).encode()


async def good_key(redis_url: str) -> str:
    """An API key of a new account."""
    store = await Store.open(Settings(redis_url=redis_url))
    try:
        account = await new_account(store, "good")
        return (await store.api_keys.create(account.account_id, "good"))[1]
    finally:
        await store.aclose()
