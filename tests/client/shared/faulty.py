"""A proxy before a real API, which loses requests and answers by a script."""

from __future__ import annotations

import http.client
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, Self
from urllib.parse import urlsplit

from tests.client.line import answer

_NO_HTTP = b"SSH-2.0-OpenSSH_9.2\r\n"
_SOON = "Retry-After: 1\r\n"
# Of what these answer, the API never hears.
_REFUSALS = {
    "429": answer(429, {"error": "Too many requests", "reason": "rate_limited"}, _SOON),
    "503": answer(503, {"error": "Too busy", "reason": "overloaded"}, _SOON),
}
_PARTS: dict[str, Callable[[bytes], bytes]] = {
    "lost": lambda _: b"",
    "killed after": lambda _: b"",
    "half a head": lambda whole: whole[:20],
    "half a body": lambda whole: whole[:-10],
    "no HTTP": lambda _: _NO_HTTP,
    "502": lambda _: answer(502, b"<html>Bad gateway"),
    "504": lambda _: answer(504, b"<html>Gateway timeout"),
}


class Faulty(socketserver.ThreadingTCPServer):
    """Plays one step for each request, and passes all later ones on. `kill` ends the API and starts
    it again."""

    daemon_threads = True

    def __init__(self, api_url: str, steps: list[str], kill: Callable[[], None]) -> None:
        self.steps, self.kill = list(steps), kill
        self.api = urlsplit(api_url).netloc
        self.ending = threading.Event()
        self.lock = threading.Lock()
        self.open: list[socket.socket] = []
        super().__init__(("127.0.0.1", 0), _Connection)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ending.set()
        self.shutdown()
        self.server_close()
        for each in self.open:
            with suppress(OSError):  # it has ended before
                each.shutdown(socket.SHUT_RDWR)

    def passed_on(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        """The API's whole answer."""
        with closing(http.client.HTTPConnection(self.api, timeout=30)) as connection:
            connection.request(method, path, body, headers)
            got = connection.getresponse()
            content = got.read()
        kept = (line for line in got.getheaders() if line[0].lower() != "content-length")
        return answer(got.status, content, "".join(f"{n}: {v}\r\n" for n, v in kept))


class _Connection(socketserver.StreamRequestHandler):
    server: Faulty

    def handle(self) -> None:
        self.server.open.append(self.request)
        try:
            while self._play():
                pass
        except OSError:
            return  # the client went away

    def _play(self) -> bool:
        """Whether the connection goes on."""
        first = self.rfile.readline().decode()
        if not first:
            return False
        parsed = http.client.parse_headers(self.rfile)
        headers = {name.lower(): value for name, value in parsed.items()}
        body = self.rfile.read(int(headers.get("content-length", 0)))
        with self.server.lock:
            step = self.server.steps.pop(0) if self.server.steps else ""
        request: Any = (*first.split()[:2], body, headers)
        if step == "cut":
            return False
        if step == "killed before":
            self.server.kill()
            return False
        if step in _REFUSALS:
            self.wfile.write(_REFUSALS[step])
            return True
        whole = self.server.passed_on(*request)
        if step == "killed after":
            self.server.kill()
        if step == "silence":
            self.server.ending.wait()
            return False
        self.wfile.write(_PARTS[step](whole) if step else whole)
        return not step
