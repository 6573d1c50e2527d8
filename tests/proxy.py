"""A proxy before the store that loses a reply, or a command, on demand."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
import threading
from enum import Enum, auto
from pathlib import Path
from typing import Self
from urllib.parse import quote

from tests.waiting import DEADLINE_S


class DroppingProxy:
    """Stands before a Valkey and loses replies (or commands) on request.

    `drop_reply(needle)` lets the next command that contains the bytes through, waits until the
    server has done it, and cuts the connection instead of answering; `drop_command(needle)` cuts
    it before; `hold_reply(needle)` keeps the reply back until `let_go()`. `cut()` is a store that
    is away: all connections end and new ones are refused, until `restore()`. A script is found by
    its SHA-1 in hex, a command by its name.
    """

    def __init__(self, server: Path) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="pd-proxy-"))
        self.socket = self.directory / "proxy.sock"
        self.url = "unix://" + quote(str(self.socket))
        self.dropped = 0
        self._server_socket = server
        self._rules: list[_Rule] = []
        self._held: list[_Upstream] = []
        self._away = False
        self._links: set[_Link] = set()
        self._loop = asyncio.new_event_loop()
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
        return sum(upstream.has_held for upstream in list(self._held))

    def let_go(self) -> None:
        """Passes on the bytes kept back, and all that follow."""
        held, self._held = self._held, []
        for upstream in held:
            self._loop.call_soon_threadsafe(upstream.let_go)

    def forget_rules(self) -> None:
        self._rules.clear()

    def cut(self) -> None:
        self._away = True
        self._loop.call_soon_threadsafe(self._close_links)

    def restore(self) -> None:
        self._away = False

    def start(self) -> None:
        self._thread.start()
        assert self._listening.wait(DEADLINE_S)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            self._loop.create_unix_server(lambda: _Link(self), self.socket)
        )
        self._listening.set()
        self._loop.run_forever()
        server.close()
        self._close_links()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    def _close_links(self) -> None:
        for link in list(self._links):
            link.close()

    def _rule_for(self, command: bytes) -> _Rule | None:
        for rule in list(self._rules):
            if rule.matches(command):
                self.dropped += 1
                if rule.spent:
                    self._rules.remove(rule)
                return rule
        return None

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


class _Link(asyncio.Protocol):
    """One client's connection and ours to the server behind it."""

    def __init__(self, proxy: DroppingProxy) -> None:
        self._proxy = proxy
        self._upstream: _Upstream | None = None
        self._unread = b""
        self._dropping = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._proxy._links.add(self)
        if self._proxy._away:
            self.close()
            return
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            _, self._upstream = await loop.create_unix_connection(
                lambda: _Upstream(self), str(self._proxy._server_socket)
            )
        except OSError:
            self.close()
            return
        self.data_received(b"")

    def data_received(self, data: bytes) -> None:
        self._unread += data
        while self._upstream is not None and not self._dropping:
            end = command_end(self._unread)
            if end is None:
                return
            command, self._unread = self._unread[:end], self._unread[end:]
            self._pass_on(self._upstream, command)

    def connection_lost(self, exc: Exception | None) -> None:
        self.close()

    def close(self) -> None:
        self._proxy._links.discard(self)
        self.transport.abort()
        if self._upstream is not None:
            self._upstream.transport.abort()

    def _pass_on(self, upstream: _Upstream, command: bytes) -> None:
        rule = self._proxy._rule_for(command)
        if rule is None:
            upstream.transport.write(command)
            return
        match rule.effect:
            case _Effect.HOLD_REPLY:
                upstream.hold_after(command)
                self._proxy._held.append(upstream)
            case _Effect.LOSE_REPLY:
                self._dropping = True
                upstream.swallow_after(command)
            case _Effect.LOSE_COMMAND:
                self._dropping = True
                self.close()


class _Upstream(asyncio.Protocol):
    """Our connection to the server, for one client."""

    def __init__(self, link: _Link) -> None:
        self._link = link
        self._last_word = b""
        self._swallowed = b""
        self._holding = False
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def swallow_after(self, command: bytes) -> None:
        """Sends the command and an echo after it: when that comes back, the command is done."""
        self._last_word = secrets.token_hex(16).encode()
        self.transport.write(command + b"*2\r\n$4\r\nECHO\r\n$32\r\n%s\r\n" % self._last_word)

    @property
    def has_held(self) -> bool:
        return bool(self._held)

    def hold_after(self, command: bytes) -> None:
        """Sends the command; from its reply on, all is kept back."""
        self._holding = True
        self.transport.write(command)

    def let_go(self) -> None:
        self._holding = False
        self._link.transport.write(self._held)
        self._held = b""

    def data_received(self, data: bytes) -> None:
        if self._holding:
            self._held += data
            return
        if not self._last_word:
            self._link.transport.write(data)
            return
        self._swallowed += data
        if self._last_word in self._swallowed:
            self._link.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.close()


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
