"""A line to one server: calls follow one another on one connection without waiting for replies.

redis-py wraps every command in a pool, locks, time limits and telemetry: 50 to 70 us of CPU, where
sending it and reading its reply takes 8.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any

import hiredis
from redis import exceptions
from redis.asyncio.connection import DefaultParser

from scheduler.errors import anew
from scheduler.store.server.failures import never_sent

REPLY_TIMEOUT_S = 5.0
# Most lines of their own at a time; further callers wait.
_MOST_OWN_LINES = 128
# How often one call may find that its line broke between being made and being used.
_OPENINGS = 3

Argument = str | bytes | int | float
Key = str | bytes


class Line(asyncio.Protocol):
    """One connection. Replies come in the order of the calls. If it breaks, or a reply takes more
    than 5 s, the line ends: calls without a reply raise ConnectionError or TimeoutError, and may
    have been done. Check `is_open` before each `call`, and await nothing in between."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None  # from the connection on
        self._reader = hiredis.Reader(
            protocolError=exceptions.InvalidResponse, replyError=DefaultParser.parse_error
        )
        self._waiting: deque[_Call] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def address(self) -> object:
        """Of the server, hashable."""
        return self._transport.get_extra_info("peername")

    def keep_alive(self, options: Any) -> None:
        end = self._transport.get_extra_info("socket")
        end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in options.items():
            end.setsockopt(socket.IPPROTO_TCP, option, value)

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    def call(self, commands: bytes, count: int) -> asyncio.Future[list[Any]]:
        """Sends packed commands; their replies, errors of the server among them as values."""
        self._transport.write(commands)
        call = _Call(self._loop.create_future(), count, self._loop.time())
        self._waiting.append(call)
        if self._timer is None:
            self._timer = self._loop.call_later(REPLY_TIMEOUT_S, self._judge)
        return call.future

    def close(self, error: Exception | None = None) -> None:
        """Ends the line. Safe to repeat."""
        self._transport.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, deque()
        error = error or exceptions.ConnectionError("Connection closed")
        for call in waiting:
            if not call.future.done():
                call.future.set_exception(anew(error))

    # What the event loop calls

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        # Writes at once, not after the loop's other callbacks: the server begins meanwhile.
        transport.set_write_buffer_limits(0)

    def data_received(self, data: bytes) -> None:
        reader, waiting = self._reader, self._waiting
        try:
            reader.feed(data)
            while waiting:
                reply = reader.gets()
                if reply is False:
                    return
                self._take(reply)
        except exceptions.InvalidResponse as error:
            self.close(exceptions.ConnectionError(f"Not a reply: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(exceptions.ConnectionError(str(exc or "Connection closed by server.")))

    def _take(self, reply: object) -> None:
        """Takes a reply to the oldest call."""
        call = self._waiting[0]
        call.replies.append(reply)
        if len(call.replies) == call.count:
            self._waiting.popleft()
            if not call.future.done():  # its caller may have given up
                call.future.set_result(call.replies)

    def _judge(self) -> None:
        """Has the oldest call waited for too long?"""
        self._timer = None
        if not self._waiting:
            return
        left_s = self._waiting[0].sent_s + REPLY_TIMEOUT_S - self._loop.time()
        if left_s <= 0:
            self.close(exceptions.TimeoutError("Timeout reading from the server"))
        else:
            self._timer = self._loop.call_later(left_s, self._judge)


class PackedCommands(list[tuple[Argument, ...]]):
    """Commands that are sent again and again: packed once."""

    @cached_property
    def packed(self) -> bytes:
        return packed(list(self))


def packed(commands: Iterable[Sequence[Argument]]) -> bytes:
    if isinstance(commands, PackedCommands):
        return commands.packed
    return b"".join([hiredis.pack_command(tuple(words)) for words in commands])  # type: ignore[arg-type]


class _Call:
    __slots__ = ("count", "future", "replies", "sent_s")

    def __init__(self, future: asyncio.Future[list[Any]], count: int, sent_s: float) -> None:
        self.future = future
        self.count = count
        self.sent_s = sent_s
        self.replies: list[Any] = []


class Lines:
    """The line that is open now; a new one when it broke. `make` opens one."""

    def __init__(self, make: Callable[[], Awaitable[Line]]) -> None:
        self._make = make
        self._line: Line | None = None
        self._opening: asyncio.Task[Exception | None] | None = None
        self._ended = False

    async def open(self) -> Line:
        """Raises what redis-py raises if no connection can be had; then nothing was sent."""
        for _ in range(_OPENINGS):
            if self._line is not None and self._line.is_open:
                return self._line
            if self._opening is None or self._opening.done():
                self._opening = asyncio.create_task(self._open())
            failure = await asyncio.shield(self._opening)
            if failure is not None:
                raise anew(failure)
        raise exceptions.ConnectionError("Connections are closed as soon as they are made")

    def renew(self) -> None:
        """Ends the line; the next one goes to wherever the server is then."""
        if self._line is not None:
            self._line.close()

    def close(self) -> None:
        """Closes for good, also an opening connection."""
        self._ended = True
        self.renew()

    async def _open(self) -> Exception | None:
        """Returns the failure: several callers wait for it, and each raises its own copy."""
        try:
            self._line = await self._make()
        except Exception as error:
            return anew(error)
        if self._ended:
            self._line.close()
        return None


class OwnLines:
    """Lines for one caller at a time: for commands that block a connection, and for calls that must
    all reach the same server. `one` never replaces a line that broke."""

    def __init__(self, make: Callable[[], Awaitable[Line]]) -> None:
        self._make = make
        self._idle: list[Line] = []
        self._taken: set[Line] = set()
        self._places = asyncio.Semaphore(_MOST_OWN_LINES)
        self._ended = False

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Line]:
        """Raises StoreUnavailable if no connection can be had."""
        async with self._places:
            with never_sent():
                line = await self._open()
            self._taken.add(line)
            try:
                yield line
            finally:
                self._taken.discard(line)
                self._idle.append(line)
                if self._ended:
                    self.close()

    def renew(self) -> None:
        """Ends all lines, also those in use; the next ones go to wherever the server is then."""
        for line in (*self._taken, *self._idle):
            line.close()
        self._idle.clear()

    def close(self) -> None:
        self._ended = True
        while self._idle:
            self._idle.pop().close()

    async def _open(self) -> Line:
        while self._idle:
            line = self._idle.pop()
            if line.is_open:
                return line
        return await self._make()
