"""One API process by itself, and HTTP spoken to it by hand."""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from tests.support import forks
from tests.support.inside import Inside, inside
from tests.support.servers import DEADLINE_S, environment, free_port, until


class ApiProcess:
    """One process that runs `serve`; `settings` are fields of Settings, `most_files` its limit of
    open files."""

    def __init__(
        self,
        redis_url: str,
        *,
        parent_fd: int | None = None,
        port: int = 0,
        most_files: int = 0,
        **settings: object,
    ) -> None:
        self.port = port or free_port()
        fd = "" if parent_fd is None else str(parent_fd)
        # No pipe: an unread pipe fills up and then blocks its writer.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - until `remove`
        served = [sys.executable, "-P", "-m", "tests.api.served"]
        self.process = forks.Popen(
            [*served, redis_url, str(self.port), fd, str(most_files), json.dumps(settings)],
            env=environment(),
            stderr=self._said,
            pass_fds=[] if parent_fd is None else [parent_fd],
        )

    def wait_until_ready(self) -> None:
        until(lambda: self.process.poll() is not None or self._ready(), "the API to be ready")
        assert self.process.poll() is None, self.ended()

    def ended(self) -> tuple[int, str]:
        """Exit status, and all that it said."""
        return self.process.wait(timeout=DEADLINE_S), self.said()

    def said(self) -> str:
        """All that it wrote to its log by now."""
        fd = self._said.fileno()
        return os.pread(fd, os.fstat(fd).st_size, 0).decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._said.close()

    def connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def memory_bytes(self) -> int:
        """What it has in memory right now, without what files are mapped to. Linux only."""
        return self._status_bytes("RssAnon")

    def most_memory_bytes(self) -> int:
        """The most that it has had in memory, files among it. Linux only."""
        return self._status_bytes("VmHWM")

    def inside(self) -> Inside:
        return inside(self.process.pid)

    def ask(self, request: bytes) -> Reply:
        """The answer to a request on a connection of its own."""
        with closing(self.connect()) as connection:
            connection.sendall(request)
            return Reply(connection, request.partition(b" ")[0].decode("latin-1"))

    def answers(self, path: str) -> int:
        """The status of a GET."""
        return self.ask(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()).status

    def _status_bytes(self, name: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition(f"{name}:")[2].split()[0]) * 1024

    def _ready(self) -> bool:
        try:
            return self.answers("/readyz") == 200
        except ConnectionError:  # refused, or reset in the moment in which it begins to listen
            return False


@contextmanager
def serving(redis_url: str, **settings: Any) -> Iterator[ApiProcess]:
    """A process that is ready."""
    with ApiProcess(redis_url, **settings) as process:
        process.wait_until_ready()
        yield process


class Reply:
    """One answer, read to its end and not beyond."""

    def __init__(self, connection: socket.socket, method: str = "POST") -> None:
        with closing(http.client.HTTPResponse(connection, method=method)) as response:
            response.begin()
            self.status = response.status
            self.headers = response.headers
            self.body = response.read()

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)


def head(key: str, *lines: str, request: str = "POST /schedule") -> bytes:
    every = [f"{request} HTTP/1.1", "Host: api", f"x-api-key: {key}", *lines]
    return "\r\n".join(every).encode("latin-1") + b"\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
