"""The one breaker of TCP connections: a proxy before the store that delays, loses or cuts."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import socket
import ssl
import struct
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from typing import Self
from urllib.parse import quote

from tests.support.waiting import DEADLINE_S

# SO_LINGER with no time to linger: the close is an RST.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_MULTI = b"*1\r\n$5\r\nMULTI\r\n"
_TRANSACTION = (_MULTI, b"*1\r\n$4\r\nEXEC\r\n", b"*1\r\n$7\r\nDISCARD\r\n")


class DroppingProxy:
    """Stands before a Valkey, on a Unix socket (`url`) and on a port of 127.0.0.1.

    `drop_reply(needle)` lets the next command that contains the bytes through, waits until the
    server has done it, and cuts the connection instead of answering; `drop_command(needle)` cuts
    it before; `hold_reply(needle)` keeps the reply back until `let_go()`. A script is found by its
    SHA-1 in hex, a command by its name.

    `reset()` ends all connections of this moment, by TCP with an RST. `cut()` does so and refuses
    new ones, `silence()` keeps all bytes back as a network that drops packets does, and
    `slow(delay_s)` has them come later. `heal()` ends all of these and forgets the rules; the bytes
    kept back arrive. `accepted` counts connections.
    """

    def __init__(self, server: Path, *, tls: ssl.SSLContext | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="pd-proxy-"))
        self.socket = self.directory / "proxy.sock"
        self.url = "unix://" + quote(str(self.socket))
        self.server = server
        self.port = 0
        self.dropped = 0
        self.accepted = 0
        self.delay_s = 0.0
        self.silent = False
        self.loop = asyncio.new_event_loop()
        self.links: set[_Link] = set()
        self._tls = tls
        self._rules: list[_Rule] = []
        self._listeners: list[asyncio.Server] = []
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._listening = threading.Event()

    def drop_reply(self, needle: bytes, *, nth: int = 1, times: int = 1) -> None:
        """Loses the reply to the n-th command from now on that contains the bytes."""
        self._rules.append(_Rule(needle, nth, times, _Effect.LOSE_REPLY))

    def drop_command(self, needle: bytes, *, nth: int = 1, times: int = 1) -> None:
        """Loses the n-th such command itself: the server never sees it."""
        self._rules.append(_Rule(needle, nth, times, _Effect.LOSE_COMMAND))

    def hold_reply(self, needle: bytes, *, nth: int = 1) -> None:
        """Keeps back the reply to the n-th such command, and what follows on its connection."""
        self._rules.append(_Rule(needle, nth, 1, _Effect.HOLD_REPLY))

    @property
    def held(self) -> int:
        """How many replies have come and are kept back."""
        return sum(link.back.holds and bool(link.back.waiting) for link in list(self.links))

    def let_go(self) -> None:
        """Passes on the bytes kept back, and all that follow."""
        self._do(self._let_go)

    def forget_rules(self) -> None:
        self._rules.clear()

    def cut(self) -> None:
        self._do(self._refuse)
        self.reset()

    def silence(self) -> None:
        self.silent = True

    def slow(self, delay_s: float) -> None:
        self.delay_s = delay_s

    def reset(self) -> None:
        self._do(self._reset)

    def heal(self) -> None:
        self.forget_rules()
        self.delay_s, self.silent = 0.0, False
        if not self._listeners:
            asyncio.run_coroutine_threadsafe(self._listen(), self.loop).result(DEADLINE_S)
        self._do(self._flush)

    def start(self) -> None:
        self._thread.start()
        assert self._listening.wait(DEADLINE_S)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(DEADLINE_S)
        shutil.rmtree(self.directory, ignore_errors=True)

    def rule_for(self, command: bytes) -> _Rule | None:
        for rule in list(self._rules):
            if rule.matches(command):
                self.dropped += 1
                if rule.spent:
                    self._rules.remove(rule)
                return rule
        return None

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

    def _let_go(self) -> None:
        for link in list(self.links):
            link.back.holds = False
            link.back.flush()

    def _reset(self) -> None:
        for link in list(self.links):
            link.reset()

    def _flush(self) -> None:
        for link in list(self.links):
            link.there.flush()
            link.back.flush()

    def _refuse(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()

    async def _listen(self) -> None:
        by_name = await self.loop.create_unix_server(lambda: _Link(self), self.socket)
        # Written down, so that it is the same port after a cut.
        by_port = await self.loop.create_server(
            lambda: _Link(self), "127.0.0.1", self.port, reuse_address=True, ssl=self._tls
        )
        self.port = by_port.sockets[0].getsockname()[1]
        self._listeners += [by_name, by_port]

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


class _Effect(Enum):
    LOSE_REPLY = auto()
    LOSE_COMMAND = auto()
    HOLD_REPLY = auto()


class _Rule:
    """Meets matching command number `nth` and those after it, `times` in all."""

    def __init__(self, needle: bytes, nth: int, times: int, effect: _Effect) -> None:
        self.effect = effect
        self._needle = needle
        self._skip = nth - 1
        self._times = times

    @property
    def spent(self) -> bool:
        return self._times == 0

    def matches(self, command: bytes) -> bool:
        if self._needle not in command:
            return False
        if self._skip:
            self._skip -= 1
            return False
        self._times -= 1
        return True


class _Way:
    """Bytes on their way in one direction, in their order, whatever the delay was meanwhile."""

    def __init__(self, proxy: DroppingProxy) -> None:
        self._proxy = proxy
        self._timer: asyncio.TimerHandle | None = None
        self.waiting: deque[tuple[float, bytes]] = deque()
        self.holds = False
        self.to: asyncio.Transport | None = None

    def add(self, data: bytes) -> None:
        self.waiting.append((self._proxy.loop.time() + self._proxy.delay_s, data))
        self.flush()

    def flush(self) -> None:
        if self.holds or self._proxy.silent or self.to is None:
            return
        while self.waiting and self.waiting[0][0] <= self._proxy.loop.time():
            _, data = self.waiting.popleft()
            if not self.to.is_closing():
                self.to.write(data)
        if self.waiting and self._timer is None:
            self._timer = self._proxy.loop.call_at(self.waiting[0][0], self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.flush()


class _Link(asyncio.Protocol):
    """One client's connection, and ours to the server for it."""

    def __init__(self, proxy: DroppingProxy) -> None:
        self._proxy = proxy
        self._unread = b""
        self._last_word = b""
        self._swallowed = b""
        self._in_transaction = False
        self._transports: list[asyncio.Transport] = []
        self.there, self.back = _Way(proxy), _Way(proxy)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transports.append(transport)
        self.back.to = transport
        self._proxy.links.add(self)
        self._proxy.accepted += 1
        self._connecting = self._proxy.loop.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            transport, _ = await self._proxy.loop.create_unix_connection(
                lambda: _ServerSide(self), str(self._proxy.server)
            )
        except OSError:
            self.reset()
            return
        self._transports.append(transport)
        if self not in self._proxy.links:
            transport.abort()
            return
        self.there.to = transport
        self.there.flush()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while self in self._proxy.links and not self._last_word:
            end = command_end(self._unread)
            if end is None:
                return
            command, self._unread = self._unread[:end], self._unread[end:]
            self._pass_on(command)

    def _pass_on(self, command: bytes) -> None:
        rule = self._proxy.rule_for(command)
        if command in _TRANSACTION:
            self._in_transaction = command == _MULTI
        effect = rule.effect if rule else None
        if effect is _Effect.LOSE_REPLY and self._in_transaction:
            # Without EXEC nothing of a transaction is done.
            effect = _Effect.LOSE_COMMAND
        match effect:
            case _Effect.LOSE_COMMAND:
                self.reset()
                return
            case _Effect.LOSE_REPLY:
                # An echo after it: when that comes back, the command is done.
                self._last_word = secrets.token_hex(16).encode()
                command += b"*2\r\n$4\r\nECHO\r\n$32\r\n%s\r\n" % self._last_word
            case _Effect.HOLD_REPLY:
                self.back.holds = True
        self.there.add(command)

    def replied(self, data: bytes) -> None:
        if not self._last_word:
            self.back.add(data)
            return
        self._swallowed += data
        if self._last_word in self._swallowed:
            self.reset()

    def connection_lost(self, exc: Exception | None) -> None:
        self.reset()

    def reset(self) -> None:
        """Ends both sides."""
        self._proxy.links.discard(self)
        for transport in self._transports:
            if not transport.is_closing():
                _set_reset_on_close(transport)
                transport.abort()


class _ServerSide(asyncio.Protocol):
    """The server's end of a link."""

    def __init__(self, link: _Link) -> None:
        self._link = link

    def data_received(self, data: bytes) -> None:
        self._link.replied(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.reset()


def _set_reset_on_close(transport: asyncio.Transport) -> None:
    side = transport.get_extra_info("socket")
    if side is not None and side.family != socket.AF_UNIX:
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


def command_end(data: bytes) -> int | None:
    """Where the first command of a RESP stream ends; None if it is not there whole."""
    line_end = data.find(b"\r\n")
    if line_end < 0:
        return None
    if not data.startswith(b"*"):
        return line_end + 2
    position = line_end + 2
    for _ in range(int(data[1:line_end])):
        line_end = data.find(b"\r\n", position)
        if line_end < 0:
            return None
        position = line_end + 2 + int(data[position + 1 : line_end]) + 2
    return position if position <= len(data) else None
