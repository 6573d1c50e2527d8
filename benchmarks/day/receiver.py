"""The target of a day: it knows the store's clock, and sums up what came since it was last asked.

    python -m benchmarks.day.receiver --clock FILE

The first part of a path says what the request is: `/flaky/…` is answered with 503 at its first
attempt, `/failing/…` each time, all others with 200. `GET /report` answers with a `Report` and
begins a new one. Prints `Listening on http://127.0.0.1:PORT` once it does.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
from collections import Counter
from datetime import datetime
from pathlib import Path

import httptools
import msgspec
import uvloop

from benchmarks.day.clock import SteppedClock
from benchmarks.target import ANSWER

_REFUSED = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
_TIMED = {"plain", "called"}


class Report(msgspec.Struct):
    """Requests by the first part of their path, those among them that were a second attempt or a
    later one, and refusals. How late (ms) first attempts of `/plain` and `/called` were."""

    came: dict[str, int] = {}
    again: int = 0
    refused: int = 0
    least_ms: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0


class Received:
    """What came since the last report."""

    def __init__(self) -> None:
        self.came: Counter[str] = Counter()
        self.again = self.refused = 0
        self.late_ms: list[float] = []

    def report(self) -> Report:
        found = Report(dict(self.came), self.again, self.refused)
        if len(self.late_ms) > 1:
            cuts = statistics.quantiles(self.late_ms, n=100, method="inclusive")
            found.least_ms, found.p50_ms, found.p99_ms = min(self.late_ms), cuts[49], cuts[98]
        return found


class Listener:
    """What all connections share."""

    def __init__(self, clock: SteppedClock) -> None:
        self.clock = clock
        self.received = Received()

    def answer(self, kind: str, attempt: int, due: str) -> bytes:
        if kind == "report":
            body = msgspec.json.encode(self.received.report())
            self.received = Received()
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        received = self.received
        received.came[kind] += 1
        received.again += attempt > 1
        if attempt == 1 and kind in _TIMED:
            due_ms = datetime.fromisoformat(due).timestamp() * 1000
            received.late_ms.append(self.clock.now_us() / 1000 - due_ms)
        if kind == "failing" or (kind == "flaky" and attempt == 1):
            received.refused += 1
            return _REFUSED
        return ANSWER


class Connection(asyncio.Protocol):
    """One of a client."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._parser = httptools.HttpRequestParser(self)
        self._kind, self._attempt, self._due = "", 1, ""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._kind = url.split(b"/", 2)[1].decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        if name == b"Postdate-Attempt":
            self._attempt = int(value)
        elif name == b"Postdate-Trigger-At":
            self._due = value.decode()

    def on_message_complete(self) -> None:
        self._transport.write(self._listener.answer(self._kind, self._attempt, self._due))


async def serve(clock: SteppedClock) -> None:
    loop, listener, stop = asyncio.get_running_loop(), Listener(clock), asyncio.Event()
    server = await loop.create_server(lambda: Connection(listener), "127.0.0.1", 0, backlog=4096)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    print(f"Listening on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await stop.wait()
    server.close()


def main() -> None:
    options = argparse.ArgumentParser(description="The target of a simulated day.")
    options.add_argument("--clock", type=Path, required=True, help="file with the clock's step")
    uvloop.run(serve(SteppedClock(options.parse_args().clock)))


if __name__ == "__main__":
    main()
