"""Who receives the requests: nginx with a log of its own, else a logging target of ours.

A line of the log is the receiver's clock and the number that the request's path ends in. nginx's
clock has milliseconds; that of the target of ours, microseconds. Lateness is measured with ours,
whatever is installed: 500 requests a second are nothing to it, and a millisecond would be coarse.

    python -m benchmarks.peers.receiver LOG     # the target of ours
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httptools
import uvloop

from benchmarks.support.stage import Running, free_port, until

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_FLUSH_S = 0.25
_NGINX = """
master_process off; daemon off; pid {home}/nginx.pid; error_log {home}/error.log;
events {{ worker_connections 16384; multi_accept on; }}
http {{
  log_format received '$msec $uri'; access_log {home}/received received buffer=256k flush=250ms;
  keepalive_requests 1000000000; keepalive_timeout 75s;
  client_body_temp_path {home}/b; proxy_temp_path {home}/p; fastcgi_temp_path {home}/f;
  uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;
  server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 200 "ok"; }} }}
}}
"""


class Arrival(NamedTuple):
    at_ms: float
    number: int


class Receiver:
    """A receiver at work: where it listens, and what it has logged."""

    def __init__(self, running: Running, log: Path) -> None:
        self.running = running
        self.url = running.url
        self._log = log

    def count(self) -> int:
        """How many requests its log has; up to a quarter of a second behind."""
        return self._log.read_bytes().count(b"\n") if self._log.exists() else 0

    def arrivals(self, after: int = 0) -> list[Arrival]:
        """What came, in order of time, without the first `after` lines of the log."""
        lines = self._log.read_text().splitlines()[after:]
        split = (line.rsplit(" ", 1) for line in lines)
        return sorted(Arrival(float(at) * 1000, int(path[-8:])) for at, path in split)


@contextlib.contextmanager
def nginx() -> Iterator[Receiver]:
    """nginx, one process; the target of ours where it is not installed."""
    program, port = shutil.which("nginx"), free_port()
    if program is None:
        with ours() as receiver:
            yield receiver
        return
    with tempfile.TemporaryDirectory(prefix="pd-peers-") as home:
        Path(home).chmod(0o755)
        config = Path(home) / "nginx.conf"
        config.write_text(_NGINX.format(home=home, port=port))
        command = [program, "-p", home, "-c", str(config), "-e", f"{home}/error.log"]
        with _process(command) as process:
            until(lambda: (Path(home) / "nginx.pid").exists(), "nginx")
            yield Receiver(
                Running(process, f"http://127.0.0.1:{port}/hook/"), Path(home) / "received"
            )


@contextlib.contextmanager
def ours() -> Iterator[Receiver]:
    """The target of ours."""
    with tempfile.TemporaryDirectory(prefix="pd-peers-") as home:
        log = Path(home) / "received"
        with _process([sys.executable, "-m", "benchmarks.peers.receiver", str(log)]) as process:
            assert process.stdout is not None
            match = re.search(r"Listening on (\S+)", process.stdout.readline())
            assert match, "the receiver did not start"
            yield Receiver(Running(process, f"http://{match[1]}/hook/"), log)


@contextlib.contextmanager
def _process(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


class _Answerer(asyncio.Protocol):
    """One connection: notes the clock when a request is whole, and answers."""

    def __init__(self, lines: list[bytes]) -> None:
        self.lines = lines
        self.parser = httptools.HttpRequestParser(self)
        self.path = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_begin(self) -> None:
        self.path = b""

    def on_url(self, url: bytes) -> None:
        self.path += url

    def on_message_complete(self) -> None:
        self.lines.append(b"%.6f %s\n" % (time.time_ns() / 1e9, self.path))
        self.transport.write(_ANSWER)


async def _serve(log: Path) -> None:
    loop, lines, stop = asyncio.get_running_loop(), list[bytes](), asyncio.Event()
    server = await loop.create_server(lambda: _Answerer(lines), "127.0.0.1", 0, backlog=4096)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    print(f"Listening on 127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    with log.open("wb", buffering=0) as out:
        while not stop.is_set():
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(stop.wait(), _FLUSH_S)
            out.write(b"".join(lines))
            lines.clear()
    server.close()


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1])))
