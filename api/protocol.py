"""One connection: uvicorn's own, within limits that hold before anybody has shown a key."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Any

from uvicorn import Config
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from api.budget import Budget
from api.connections import Connections
from api.limits import MAX_HEAD_LINES, MAX_PIPELINED, UNCOUNTED_BYTES, Limits, address_of
from api.reading import FORGET
from api.rejection import (
    BODIES_FULL,
    BODY_TIMED_OUT,
    CONNECTIONS_FULL,
    HEAD_TIMED_OUT,
    HEAD_TOO_LARGE,
    NO_HTTP,
    Rejection,
)

# How long a client that was rejected may take to read why, and how much it may go on sending.
_LINGER_S = 2.0
_LINGER_BYTES = 1024 * 1024
# So much is parsed before what has come of it is looked at.
_PIECE_BYTES = 16 * 1024
# Bytes of framing that each byte of a body may have: chunks of one byte have six.
_FRAMING = 16
_HEALTH = (b"/healthz", b"/readyz")


class Guard:
    """What the connections of one process share."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.connections = Connections(limits)
        self.bodies = Budget(limits.bodies_bytes)
        self.rejected: dict[int, int] = {}  # by the status of the answer


class _Part(Enum):
    """What of a request is being read."""

    NONE = 0
    HEAD = 1
    BODY = 2


class _Rejected(Exception):
    """Raised in a callback: the parser stops, and uvicorn has the connection answer for it."""


class Protocol(HttpToolsProtocol):
    """Bytes and lines are counted as they come. Of time there is one timer a connection, which
    looks at how far the client got and sets itself anew, so that requests set none."""

    def __init__(
        self,
        guard: Guard,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.recent = False
        self._guard, self._limits = guard, guard.limits
        self._look_s = min(guard.limits.head_s, guard.limits.body_grace_s, guard.limits.idle_s)
        self._address = ""
        self._for_health = False
        self._part = _Part.NONE
        # When the present part began; 0 where nobody has looked at the clock yet.
        self._began_s = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._piece_bytes = self._fed_bytes = self._body_bytes = self._held_bytes = 0
        self._forgotten: object = None
        # Of requests that wait for each other uvicorn's own `cycle` is the last one.
        self._served: RequestResponseCycle | None = None
        self._rejection: Rejection | None = None
        self._lingering_bytes = 0
        self._unsent_bytes, self._unsent_s = 0, 0.0

    # What is counted

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = address_of(self.client[0]) if self.client else ""
        self._for_health = not self._guard.connections.add(self, self._address)
        self._timer = self.loop.call_later(self._look_s, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._tell_gone()
        super().connection_lost(exc)
        self._guard.connections.remove(self, self._address)
        self._give_back()
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """In pieces, so that what is too much is found out before it is much too much."""
        if len(data) <= _PIECE_BYTES:
            self._feed(data)
            return
        for start in range(0, len(data), _PIECE_BYTES):
            self._feed(data[start : start + _PIECE_BYTES])

    def _feed(self, piece: bytes) -> None:
        """A request that comes whole in one piece, as nearly all do, is judged where its headers
        are complete, and else has nothing counted of it."""
        if self._rejection is not None:
            self._linger(len(piece))
            return
        self._piece_bytes = len(piece)
        super().data_received(piece)
        if self._part is not _Part.NONE and self._rejection is None:
            self._count()

    def _count(self) -> None:
        """Of a request that has not come whole: when it began, and whether it can still be one."""
        self._began_s = self._began_s or self.loop.time()
        self._fed_bytes += self._piece_bytes
        # A piece at its beginning, and one at its head's end, may be something else in part; of
        # a body, so much may go into the framing of its chunks.
        most_bytes = self._limits.head_bytes + _PIECE_BYTES
        if self._part is _Part.BODY:
            most_bytes += _PIECE_BYTES + _FRAMING * self._body_bytes
        if self._fed_bytes > most_bytes or len(self.headers) > MAX_HEAD_LINES:
            self._reject(HEAD_TOO_LARGE)

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            raise self._rejected(NO_HTTP)
        super().on_message_begin()
        self._part = _Part.HEAD
        self._fed_bytes = 0
        if self.cycle is not None:  # of the first one, the clock began with the connection
            self._began_s = 0.0

    def on_headers_complete(self) -> None:
        if len(self.headers) > MAX_HEAD_LINES or (
            self._fed_bytes + self._piece_bytes > self._limits.head_bytes
            and self._head_bytes() > self._limits.head_bytes
        ):
            raise self._rejected(HEAD_TOO_LARGE)
        if self._for_health and self.url.partition(b"?")[0] not in _HEALTH:
            raise self._rejected(CONNECTIONS_FULL)
        super().on_headers_complete()
        if self._for_health:
            self.cycle.keep_alive = False
        self.scope[FORGET] = self._forget  # type: ignore[literal-required]
        self._part = _Part.BODY
        self._body_bytes = 0
        self._began_s = 0.0

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self.cycle is self._forgotten:
            return
        if self._body_bytes > UNCOUNTED_BYTES and not self.cycle.response_complete:
            counted = min(len(body), self._body_bytes - UNCOUNTED_BYTES)
            if not self._guard.bodies.take(counted):
                raise self._rejected(BODIES_FULL)
            self._held_bytes += counted
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._part = _Part.NONE

    def on_response_complete(self) -> None:
        """As uvicorn has it, but for its timer, which every request would set and clear."""
        self.recent = True
        self._began_s = 0.0 if self._part is _Part.NONE else self.loop.time()
        self.server_state.total_requests += 1
        if not self.pipeline:
            self._give_back()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

    def _tell_gone(self) -> None:
        """Nobody reads what is still to be answered. Uvicorn tells only the last request that has
        arrived; the one that is being answered would write on, and fill the log with it."""
        self.pipeline.clear()
        for cycle in (self._served, self.cycle):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def _head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _forget(self) -> None:
        """The body of the request that is being answered is of no use to anybody."""
        if not self.pipeline:
            self._forgotten = self.cycle
            self.cycle.body = bytearray()
            self._give_back()
            self.flow.resume_reading()

    def _give_back(self) -> None:
        if self._held_bytes:
            self._guard.bodies.give_back(self._held_bytes)
            self._held_bytes = 0

    # Whose turn it is

    @property
    def waits(self) -> bool:
        """For its client to send, or to read what we said."""
        return self._rejection is not None or self.flow.write_paused or not self._is_served

    def give_way(self) -> None:
        self._guard.connections.remove(self, self._address)
        self.transport.abort()

    @property
    def _is_served(self) -> bool:
        """A request has arrived whole and has no answer yet."""
        if self.pipeline:
            return True
        return self.cycle is not None and not (self.cycle.response_complete or self.cycle.more_body)

    # What takes too long

    def _look(self) -> None:
        now_s = self.loop.time()
        if self._is_stuck(now_s):
            self.transport.abort()
            return
        deadline_s = self._deadline_s(now_s)
        if deadline_s <= now_s and not self.transport.is_closing():
            self._time_out()
            return
        wait_s = min(max(deadline_s - now_s, 0.001), self._look_s)
        self._timer = self.loop.call_later(wait_s, self._look)

    def _deadline_s(self, now_s: float) -> float:
        """When this part of a request has to be over. A client that is not read from, or is owed
        an answer, is given its time anew."""
        if self._is_served or self.flow.read_paused or self.transport.is_closing():
            self._began_s = now_s
            return now_s + self._look_s
        self._began_s = self._began_s or now_s
        if self._part is _Part.HEAD or self.cycle is None:
            return self._began_s + self._limits.head_s
        if self._part is _Part.NONE:
            return self._began_s + self._limits.idle_s
        if self.cycle.response_complete:  # a body that nobody asked for any more
            return self._began_s + self._limits.body_grace_s
        return self._limits.body_deadline_s(self._began_s, self._body_bytes)

    def _is_stuck(self, now_s: float) -> bool:
        """Whether the client has read nothing of what we said, for as long as it may."""
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes != self._unsent_bytes:
            self._unsent_bytes, self._unsent_s = unsent_bytes, now_s
        return unsent_bytes > 0 and now_s - self._unsent_s >= self._limits.body_grace_s

    def _time_out(self) -> None:
        match self._part:
            case _Part.HEAD:
                self._reject(HEAD_TIMED_OUT)
            case _Part.BODY:
                self._reject(BODY_TIMED_OUT)
            case _Part.NONE:
                self.transport.close()
                self._abort_soon()

    # How it is said

    def send_400_response(self, msg: str) -> None:
        """What uvicorn calls when the parser has stopped."""
        self._reject(self._rejection or NO_HTTP)

    def _rejected(self, rejection: Rejection) -> _Rejected:
        self._rejection = rejection
        return _Rejected()

    def _reject(self, rejection: Rejection) -> None:
        """Says why and closes; or only closes, where an answer to something else is under way."""
        self._rejection = rejection
        rejected = self._guard.rejected
        rejected[rejection.status] = rejected.get(rejection.status, 0) + 1
        if self._may_speak():
            self.transport.write(rejection.response)
            self.transport.write_eof()
        else:
            self.transport.close()
        self._tell_gone()
        self._give_back()
        self._abort_soon()

    def _may_speak(self) -> bool:
        cycle = self.cycle
        if self.pipeline or self.transport.is_closing():
            return False
        if cycle is None or (cycle.response_complete and self._part is not _Part.BODY):
            return True
        return self._part is _Part.BODY and not cycle.response_started

    def _linger(self, size: int) -> None:
        """What is still sent is read and dropped for a while: to close upon it would take the
        answer from a client that has not read it yet."""
        self._lingering_bytes += size
        if self._lingering_bytes > _LINGER_BYTES:
            self.flow.pause_reading()

    def _abort_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(_LINGER_S, self.transport.abort)
