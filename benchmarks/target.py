"""A target to fire at: answers every request with 200 `ok`, counts, and can log what it received.

    python -m benchmarks.target --port 9000 --log received.txt

Prints `Listening on http://127.0.0.1:PORT` once it does. At SIGTERM it prints how many requests
came, and with --log writes a line for each: receive time (ns since the Unix epoch) and the
Postdate-Schedule-Id; with --answer-after-ms then also when it was answered. uvloop and httptools,
a few microseconds a request.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import ssl
import time
from pathlib import Path

import httptools
import uvloop

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LAST = ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")


class Received:
    """The requests that came in: a count, and with `keep` the time and schedule id of each;
    `answered` has the answer's time (ns) of those that were not answered at once."""

    def __init__(self, keep: bool) -> None:
        self.keep = keep
        self.count = 0
        self.lines: list[tuple[int, bytes]] = []
        self.answered: dict[int, int] = {}

    def write(self, path: Path) -> None:
        with path.open("wb") as out:
            for number, line in enumerate(self.lines):
                answered_ns = self.answered.get(number)
                out.write(b"%d %s" % line + (b" %d" % answered_ns if answered_ns else b"") + b"\n")


class Answerer(asyncio.Protocol):
    """One connection of a client."""

    def __init__(
        self, received: Received, *, closes: bool = False, answer_after_s: float = 0.0
    ) -> None:
        self.received = received
        self.closes = closes
        self.answer_after_s = answer_after_s
        self.parser = httptools.HttpRequestParser(self)
        self.schedule_id = b"-"
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(name) == 20 and name.lower() == b"postdate-schedule-id":
            self.schedule_id = value

    def on_message_complete(self) -> None:
        self.received.count += 1
        if self.received.keep:
            self.received.lines.append((time.time_ns(), self.schedule_id))
        if self.answer_after_s:
            number = len(self.received.lines) - 1
            loop = asyncio.get_running_loop()
            loop.call_later(self.answer_after_s, self.answer_late, number)
        else:
            self.answer()

    def answer_late(self, number: int) -> None:
        if self.received.keep:
            self.received.answered[number] = time.time_ns()
        if not self.transport.is_closing():  # a caller that waited too long has gone
            self.answer()

    def answer(self) -> None:
        self.transport.write(LAST if self.closes else ANSWER)
        if self.closes:
            self.transport.close()


async def serve(options: argparse.Namespace) -> None:
    loop, host, log = asyncio.get_running_loop(), options.host, options.log
    received, tls = Received(keep=log is not None), None
    if options.certificate:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(options.certificate)
    server = await loop.create_server(
        lambda: Answerer(
            received, closes=options.close, answer_after_s=options.answer_after_ms / 1000
        ),
        host,
        options.port,
        backlog=4096,
        ssl=tls,
    )
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    scheme = "https" if tls else "http"
    print(f"Listening on {scheme}://{host}:{server.sockets[0].getsockname()[1]}", flush=True)
    await stop.wait()
    server.close()
    if log is not None:
        received.write(log)
    print(f"Received {received.count}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description="A target that answers 200 to everything.")
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=0)
    options.add_argument("--log", type=Path, help="write receive times and schedule ids here")
    options.add_argument("--certificate", help="PEM file with a key and a chain: speak TLS")
    options.add_argument("--answer-after-ms", type=float, default=0.0)
    options.add_argument("--close", action="store_true", help="close after each answer")
    uvloop.run(serve(options.parse_args()))


if __name__ == "__main__":
    main()
