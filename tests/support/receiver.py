"""The target that tests fire at: it remembers requests, and answers as the test chooses."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from http.client import responses
from typing import Any, Self, cast

import httptools
import msgspec
import uvloop

from tests.support.waiting import DEADLINE_S


class Answer(msgspec.Struct, frozen=True):
    """What a receiver does with a request. It goes out after `delay_s`; `never` reads the request
    and stays silent; `reset` cuts it off; one that is `held` goes out at `let_go`."""

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    delay_s: float = 0.0
    never: bool = False
    held: bool = False
    reset: bool = False


class Received(msgspec.Struct, frozen=True):
    """One request as it arrived; `at_ns` is `time.time_ns` at its first byte."""

    at_ns: int
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def at_ms(self) -> float:
        return self.at_ns / 1e6

    @property
    def schedule_id(self) -> str:
        return self.headers.get("postdate-schedule-id", "")


class Receiver:
    """A fast HTTP server on 127.0.0.1, in a thread of its own, that remembers every request.

    Header names are lower case. `answer(path, ...)` programs a path; others get an empty 200.
    """

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.port = 0
        self._at: defaultdict[str, list[Received]] = defaultdict(list)
        self._answers: dict[str, Answer] = {}
        self._held: list[Callable[[], None]] = []
        self._connections: set[_Exchange] = set()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="receiver", daemon=True)
        self._listening = threading.Event()
        self._arrival = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, path: str, answer: Answer | None = None, **fields: Any) -> str:
        """Programs a path, without its query, and returns its URL."""
        self._answers[path] = answer or Answer(**fields)
        return self.url + path

    def at(self, path: str) -> list[Received]:
        """The requests to a path, whatever their query."""
        return list(self._at[path])

    def wait_for(
        self, count: int, path: str | None = None, deadline_s: float = DEADLINE_S
    ) -> list[Received]:
        """Returns once at least `count` requests have arrived. Blocks."""
        with self._arrival:
            found = self.requests if path is None else self._at[path]
            enough = self._arrival.wait_for(lambda: len(found) >= count, deadline_s)
        assert enough, f"{len(found)} of {count} requests to {path or 'any path'} arrived"
        return list(found)

    def let_go(self) -> None:
        """Sends every answer that is held, and holds none from now on."""
        self._loop.call_soon_threadsafe(self._send_held)

    def clear(self) -> None:
        self.requests.clear()
        self._at.clear()
        self._answers.clear()

    def start(self) -> None:
        self._thread.start()
        assert self._listening.wait(DEADLINE_S)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        server = self._loop.run_until_complete(
            self._loop.create_server(lambda: _Exchange(self), sock=listener, backlog=4096)
        )
        self.port = listener.getsockname()[1]
        self._listening.set()
        self._loop.run_forever()
        server.close()
        self._abort_all()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def _abort_all(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    def _send_held(self) -> None:
        for path, answer in self._answers.items():
            self._answers[path] = msgspec.structs.replace(answer, held=False)
        held, self._held = self._held, []
        for send in held:
            send()

    def _record(self, received: Received) -> Answer:
        path = received.path.partition("?")[0]
        with self._arrival:
            self.requests.append(received)
            self._at[path].append(received)
            self._arrival.notify_all()
        return self._answers.get(path, _EMPTY_200)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


_EMPTY_200 = Answer()


class _Exchange(asyncio.Protocol):
    """One connection to a receiver."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._parser = httptools.HttpRequestParser(self)
        self._loop = asyncio.get_running_loop()
        self._begin()

    def _begin(self) -> None:
        self._path = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._at_ns = 0

    def abort(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass
        self._receiver._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._at_ns = self._at_ns or time.time_ns()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()

    def on_url(self, url: bytes) -> None:
        self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        method = self._parser.get_method().decode()
        received = Received(
            self._at_ns, method, self._path.decode(), self._headers, b"".join(self._body)
        )
        self._begin()
        answer = self._receiver._record(received)
        if answer.reset:
            self._transport.abort()
        elif not answer.never:
            if answer.held:
                self._receiver._held.append(lambda: self._send(answer, method))
            elif answer.delay_s:
                self._loop.call_later(answer.delay_s, self._send, answer, method)
            else:
                self._send(answer, method)

    def _send(self, answer: Answer, method: str) -> None:
        if not self._transport.is_closing():
            body = b"" if method == "HEAD" else answer.body
            self._transport.write(_head(answer) + body)


def _head(answer: Answer) -> bytes:
    lines = [f"HTTP/1.1 {answer.status} {responses.get(answer.status, 'Whatever')}"]
    lines += [f"{name}: {value}" for name, value in answer.headers]
    if answer.status >= 200 and answer.status != 204:
        lines.append(f"Content-Length: {len(answer.body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
