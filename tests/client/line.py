"""A server on a real socket that plays a script, down to answers that break off."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Self

_TLS_HELLO = b"\x16"


class Fault(Enum):
    """What becomes of a request instead of an answer."""

    CUT = auto()  # it is read, and the connection ends
    SILENT = auto()  # it is read, and nothing comes


Step = bytes | Fault | Callable[[], bytes]


class Line:
    """Plays one step for each request, the last one over and over. `requests` has each one's
    first line, `bodies` the JSON in it, and `carried_by` the number of its connection;
    `connections` counts those that were opened; `delay_s` is before each answer."""

    def __init__(
        self, *script: Step, tls: ssl.SSLContext | None = None, delay_s: float = 0
    ) -> None:
        self.requests: list[str] = []
        self.bodies: list[Any] = []
        self.carried_by: list[int] = []
        self.connections = 0
        self._script = list(script)
        self._tls = tls
        self._delay_s = delay_s
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for each in self._open:
                _end(each)
        for thread in self._threads:
            thread.join()

    def _start(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._open.append(accepted)
                number = self.connections
            self._start(self._serve, accepted, number)

    def _serve(self, accepted: socket.socket, number: int) -> None:
        try:
            with (
                accepted,
                self._secured(accepted) as connection,
                connection.makefile("rb") as lines,
            ):
                if lines.peek(1)[:1] == _TLS_HELLO:
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                    return
                while (first := lines.readline()) and self._play(connection, number, first, lines):
                    pass
        except OSError:  # the client went away, or takes us for a stranger
            return

    def _secured(self, accepted: socket.socket) -> socket.socket:
        if self._tls is None:
            return accepted
        connection = self._tls.wrap_socket(accepted, server_side=True)
        with self._lock:
            self._open.append(connection)
        return connection

    def _play(self, connection: socket.socket, number: int, first: bytes, lines: Any) -> bool:
        """Whether the connection goes on."""
        length = 0
        while (line := lines.readline().lower()) not in (b"\r\n", b""):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        body = lines.read(length)
        with self._lock:
            self.requests.append(first.decode().strip())
            self.bodies.append(json.loads(body or b"null"))
            self.carried_by.append(number)
            step = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        time.sleep(self._delay_s)
        if callable(step):
            step = step()
        if isinstance(step, Fault):
            return step is Fault.SILENT
        connection.sendall(step)
        declared = step.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return len(step.partition(b"\r\n\r\n")[2]) == int(declared or 0)


def answer(status: int, body: Any, headers: str = "") -> bytes:
    """As it goes over the wire; `headers` are whole lines."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Reason\r\nContent-Length: {len(content)}\r\n{headers}\r\n"
    return head.encode() + content


CREDITS = answer(200, {"creditsRemaining": 7})


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it has ended before
