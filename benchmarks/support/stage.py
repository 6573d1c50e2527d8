"""What the benchmarks run against: servers and workers of their own, each stopped at the end."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from cli.serving.embedded import (
    ask,
    find_allocator,
    find_server,
    server_arguments,
    server_environment,
)

_PATIENCE_S = 300.0  # below Valgrind on a busy machine a process takes minutes to start
_NGINX = """
worker_processes 1; daemon off; pid {home}/nginx.pid; error_log {home}/error.log;
events {{ worker_connections 16384; multi_accept on; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 75s;
  client_body_temp_path {home}/b; proxy_temp_path {home}/p; fastcgi_temp_path {home}/f;
  uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;
  server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 200 "ok"; }} }}
}}
"""


class Running:
    """A process of the stage, and the CPU time that it has used."""

    def __init__(self, process: subprocess.Popen[str], url: str = "") -> None:
        self.process = process
        self.url = url

    def cpu_s(self) -> float:
        """User and system time so far. Linux only; 0 elsewhere."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def main_thread_ns(self) -> int:
        """The same of the main thread alone, to the nanosecond."""
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[0])

    def waited_ms(self) -> float:
        """How long its main thread waited for a core."""
        return int(Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[1]) / 1e6


def until(condition: Callable[[], object], what: str) -> None:
    """Waits for a condition; ends the benchmark if it does not come about."""
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"The benchmark waited in vain for {what}.")
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextlib.contextmanager
def valkey(
    *,
    rewrites: bool = True,
    server: Path | None = None,
    preload: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """A store as `postdate up` would have it: every write on disk before it is answered. Without
    `rewrites` of that file, which take a core for a second whenever it has doubled. `server` is the
    binary of another store. `preload`: LD_PRELOAD of a library that is loaded beside the allocator,
    and variables that it reads."""
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as home:
        listen, log = Path(home) / "valkey.sock", Path(home) / "valkey.log"
        server = server or find_server()
        command = [str(server), *map(str, server_arguments(Path(home), listen, log))]
        command += () if rewrites else ("--auto-aof-rewrite-percentage", "0")
        environment = server_environment(find_allocator(server))
        if preload is not None:
            libraries = f"{preload['LD_PRELOAD']} {environment.get('LD_PRELOAD', '')}".strip()
            environment |= {**preload, "LD_PRELOAD": libraries}
        with _process(command, environment=environment, stop_with=signal.SIGKILL) as process:
            until(lambda: ask(listen, "PING") == "+PONG", "Valkey")
            yield Running(process, f"unix://{listen}")


@contextlib.contextmanager
def target() -> Iterator[Running]:
    """Something to fire at: nginx if it is installed, else `benchmarks.target`."""
    nginx = shutil.which("nginx")
    if nginx is None:
        with logging_target(None) as running:
            yield running
        return
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="pd-bench-") as home:
        config = Path(home) / "nginx.conf"
        config.write_text(_NGINX.format(home=home, port=port))
        with _process([nginx, "-p", home, "-c", str(config), "-e", f"{home}/error.log"]) as process:
            until(lambda: _accepts(port), "nginx")
            yield Running(process, f"http://127.0.0.1:{port}/hook")


@contextlib.contextmanager
def logging_target(log: Path | None) -> Iterator[Running]:
    """`benchmarks.target`; with `log` it writes there, when it is stopped, what came and when."""
    with own_target(*(("--log", str(log)) if log else ())) as running:
        yield running


@contextlib.contextmanager
def own_target(*options: str) -> Iterator[Running]:
    """`benchmarks.target`, with options of its command line."""
    with listening("benchmarks.target", *options) as running:
        yield Running(running.process, f"{running.url}/hook")


@contextlib.contextmanager
def listening(module: str, *options: str) -> Iterator[Running]:
    """A program of the benchmarks that says where it listens."""
    with _process([sys.executable, "-m", module, *options]) as process:
        assert process.stdout is not None
        match = re.search(r"Listening on (\S+)", process.stdout.readline())
        assert match, f"{module} did not start"
        yield Running(process, match[1])


@contextlib.contextmanager
def worker(redis_url: str, *, below: Sequence[str] = (), **settings: object) -> Iterator[Running]:
    """A `postdate worker` that may fire at this machine; `below`: the command that runs it."""
    given = {"redis_url": redis_url, "allow_targets": "127.0.0.0/8", **settings}
    environment = {f"POSTDATE_{name.upper()}": str(value) for name, value in given.items()}
    command = [*below, sys.executable, "-m", "cli.main", "worker"]
    with _process(command, environment=environment) as process:
        assert process.stdout is not None
        assert "ready" in process.stdout.readline(), "the worker did not start"
        yield Running(process)


@contextlib.contextmanager
def api(redis_url: str, *, below: Sequence[str] = (), **settings: object) -> Iterator[Running]:
    """A `postdate api`, ready to serve; `below`: the command that runs it."""
    port = free_port()
    given = {"redis_url": redis_url, "port": port, "metrics_port": 0, **settings}
    environment = {f"POSTDATE_{name.upper()}": str(value) for name, value in given.items()}
    command = [*below, sys.executable, "-m", "cli.main", "api"]
    with _process(command, environment=environment) as process:
        until(lambda: _accepts(port), "the API")
        yield Running(process, f"http://127.0.0.1:{port}")


@contextlib.contextmanager
def _process(
    command: list[str],
    *,
    environment: dict[str, str] | None = None,
    stop_with: signal.Signals = signal.SIGTERM,
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(stop_with)
        process.communicate(timeout=_PATIENCE_S)


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
