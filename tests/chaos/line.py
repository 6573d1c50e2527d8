"""The network between one process and the store: a TCP line that can be cut, silenced, slowed
down or reset."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.waiting import DEADLINE_S

# SO_LINGER with no time to linger: the close is an RST.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class TcpProxy:
    """Listens on a port of 127.0.0.1 and passes bytes on to `server`, a Unix socket or an address.

    `cut()` resets all connections and refuses new ones, `silence()` keeps everything back as a
    network that drops packets does, `slow(delay_s)` has every byte come later; `heal()` ends all of
    these, and the bytes kept back arrive. `reset()` sends an RST on all connections that there are
    at this moment, idle ones too. `accepted` counts connections; with `resets_at_once` none lasts.
    """

    def __init__(
        self, server: Path | tuple[str, int], *, tls: ssl.SSLContext | None = None
    ) -> None:
        self.server = server
        self.port = 0
        self.accepted = 0
        self.resets_at_once = False
        self._tls = tls
        self.delay_s = 0.0
        self.silent = False
        self._refuses = False
        self.loop = asyncio.new_event_loop()
        self.links: set[_Link] = set()
        self._listener: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._run, name="line", daemon=True)
        self._listening = threading.Event()

    def cut(self) -> None:
        self._refuses = True
        self._do(self._refuse)
        self.reset()

    def silence(self) -> None:
        self.silent = True

    def slow(self, delay_s: float) -> None:
        self.delay_s = delay_s

    def reset(self) -> None:
        self._do(self._reset)

    def heal(self) -> None:
        self.delay_s, self.silent = 0.0, False
        if self._refuses:
            self._refuses = False
            asyncio.run_coroutine_threadsafe(self._listen(), self.loop).result(DEADLINE_S)
        self._do(self._flush)

    def start(self) -> None:
        self._thread.start()
        assert self._listening.wait(DEADLINE_S)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(DEADLINE_S)

    def _do(self, act: Callable[[], object]) -> None:
        """In the loop's thread; returns once it is done."""
        done = threading.Event()

        def run() -> None:
            try:
                act()
            finally:
                done.set()

        self.loop.call_soon_threadsafe(run)
        assert done.wait(DEADLINE_S)

    def _reset(self) -> None:
        for link in list(self.links):
            link.reset()

    def _flush(self) -> None:
        for link in list(self.links):
            link.flush()

    def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _listen(self) -> None:
        # Written down, so that it is the same port after a cut.
        self._listener = await self.loop.create_server(
            lambda: _Link(self), "127.0.0.1", self.port, reuse_address=True, ssl=self._tls
        )
        self.port = self._listener.sockets[0].getsockname()[1]

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self._listen())
        self._listening.set()
        self.loop.run_forever()
        self._refuse()
        self._reset()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0.01))
        self.loop.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Way:
    """Bytes on their way in one direction, in their order, whatever the delay was meanwhile."""

    def __init__(self, line: TcpProxy) -> None:
        self._line = line
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.to: asyncio.Transport | None = None

    def add(self, data: bytes) -> None:
        self._waiting.append((self._line.loop.time() + self._line.delay_s, data))
        self.flush()

    def flush(self) -> None:
        if self._line.silent or self.to is None:
            return
        while self._waiting and self._waiting[0][0] <= self._line.loop.time():
            _, data = self._waiting.popleft()
            if not self.to.is_closing():
                self.to.write(data)
        if self._waiting and self._timer is None:
            self._timer = self._line.loop.call_at(self._waiting[0][0], self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.flush()


class _Link(asyncio.Protocol):
    """One connection of the process, and ours to the store for it."""

    def __init__(self, line: TcpProxy) -> None:
        self._line = line
        self.there, self.back = _Way(line), _Way(line)
        self._transports: list[asyncio.Transport] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transports.append(transport)
        self.back.to = transport
        self._line.links.add(self)
        self._line.accepted += 1
        if self._line.resets_at_once:
            self.reset()
            return
        self._connecting = self._line.loop.create_task(self._connect())

    async def _connect(self) -> None:
        server, loop = self._line.server, self._line.loop
        try:
            if isinstance(server, Path):
                transport, _ = await loop.create_unix_connection(lambda: _Far(self), str(server))
            else:
                transport, _ = await loop.create_connection(lambda: _Far(self), *server)
        except OSError:
            self.reset()
            return
        self._transports.append(transport)
        if self not in self._line.links:
            transport.abort()
            return
        self.there.to = transport
        self.there.flush()

    def data_received(self, data: bytes) -> None:
        self.there.add(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.reset()

    def flush(self) -> None:
        self.there.flush()
        self.back.flush()

    def reset(self) -> None:
        """Ends both sides, the process's with an RST."""
        self._line.links.discard(self)
        for transport in self._transports:
            if not transport.is_closing():
                _set_reset_on_close(transport)
                transport.abort()


class _Far(asyncio.Protocol):
    """The store's end of a link."""

    def __init__(self, link: _Link) -> None:
        self._link = link

    def data_received(self, data: bytes) -> None:
        self._link.back.add(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.reset()


def _set_reset_on_close(transport: asyncio.Transport) -> None:
    side = transport.get_extra_info("socket")
    if side is not None and side.family != socket.AF_UNIX:
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
