"""One connection: uvicorn's own, within limits that hold before anybody has shown a key."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

from uvicorn import Config
from uvicorn.server import ServerState

from api.door.connections import ConnectionLimits
from api.door.http11 import Http11, ReadState
from api.door.proxies import address_of
from api.door.refusals import (
    BODIES_FULL,
    BODY_TIMED_OUT,
    CONNECTIONS_FULL,
    HEAD_TIMED_OUT,
    HEAD_TOO_LARGE,
    PIPELINE_FULL,
    TARGET_TOO_LONG,
    Rejection,
)
from api.limits import (
    MAX_HEAD_LINES,
    MAX_PIPELINED,
    MAX_TARGET_BYTES,
    UNCOUNTED_BYTES,
)
from api.reading import BUDGET, CONNECTION

# If a request is not read to its end: how long its client may take to read the answer, and how much
# it may go on sending.
_LINGER_S = 2.0
_LINGER_BYTES = 1024 * 1024
# So much is parsed before the limits are looked at.
_PIECE_BYTES = 16 * 1024
# Bytes of framing that each byte of a body may have: chunks of one byte have six.
_FRAMING = 16
_HEALTH = (b"/healthz", b"/readyz")


class Protocol(Http11):
    """Counts bytes and lines as they come. One timer a connection looks at how far the client got
    and sets itself anew, so that requests set none."""

    # How paths begin that may be as long as a head.
    long_paths: tuple[bytes, ...] = ()

    def __init__(
        self,
        guard: ConnectionLimits,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.recent = False  # whether a request was answered since `Connections` last looked
        self.is_first = True  # whether its first request has not come yet
        self._guard, self._settings = guard, guard.settings
        self._look_s = min(guard.head_s, guard.body_grace_s, guard.idle_s)
        self._address = ""
        self._for_health = False
        # When the present part began; 0 until the clock is looked at.
        self._began_s = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._piece_bytes = self._fed_bytes = self._body_bytes = self._held_bytes = 0
        self._framing_bytes = 0
        self._forgotten: object = None
        self._is_lost = False
        self._lingers = False
        self._lingering_bytes = 0
        self._unsent_bytes, self._unsent_s = 0, 0.0

    # Counters

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = address_of(self.client[0]) if self.client else ""
        self._for_health = not self._guard.connections.add(self, self._address)
        self._timer = self.loop.call_later(self._look_s, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._guard.connections.remove(self, self._address)
        self._is_lost = True
        if self._served is None or self._served.response_complete:
            self._give_back()
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Feeds in pieces, so that limits trip early."""
        if len(data) <= _PIECE_BYTES:
            self._feed(data)
            return
        self._rest()
        for start in range(0, len(data), _PIECE_BYTES):
            self._feed(data[start : start + _PIECE_BYTES])

    def _rest(self) -> None:
        """Until the next round of the loop: libuv would read up to 32 times in a row, 8 MB, from a
        client that sends so fast, and everybody else would wait."""
        if not self.flow.read_paused:
            self.transport.pause_reading()
            self.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if not self.flow.read_paused and not self.transport.is_closing():
            self.transport.resume_reading()

    def _feed(self, piece: bytes) -> None:
        """Nearly all requests come whole in one piece: those are judged where their headers are
        complete, and nothing more is counted."""
        if self.rejection is not None or self._lingers:
            # Drops it, for a while: closing with unread bytes could cost the client its answer.
            self._lingering_bytes += len(piece)
            if self._lingering_bytes > _LINGER_BYTES:
                self.flow.pause_reading()
            return
        self._piece_bytes = len(piece)
        self.parse(piece)
        if self.part is not ReadState.NONE and self.rejection is None:
            self._count()

    def _count(self) -> None:
        """Of a request that has not come whole yet."""
        self._began_s = self._began_s or self.loop.time()
        self._fed_bytes += self._piece_bytes
        self._framing_bytes += self._piece_bytes
        if self.part is ReadState.HEAD and (fault := self._head_fault()) is not None:
            self.reject(fault)
        elif self._is_framing_too_large():
            self.reject(HEAD_TOO_LARGE)

    def _head_fault(self) -> Rejection | None:
        if len(self.url) > MAX_TARGET_BYTES and not self.url.startswith(self.long_paths):
            return TARGET_TOO_LONG
        if len(self.headers) > MAX_HEAD_LINES:
            return HEAD_TOO_LARGE
        return None

    def _is_framing_too_large(self) -> bool:
        """The first piece of a request, and the one in which its head ends, may partly belong to
        something else. Of a body, the framing of chunks is bounded by its size, and at once by
        what a head may have, since the parser keeps it."""
        most_bytes = self._settings.max_head_bytes + _PIECE_BYTES
        if self._framing_bytes > most_bytes:
            return True
        if self.part is ReadState.BODY:
            most_bytes += _PIECE_BYTES + _FRAMING * self._body_bytes
        return self._fed_bytes > most_bytes

    def on_message_begin(self) -> None:
        if self.part is not ReadState.BODY:
            if len(self.pipeline) >= MAX_PIPELINED:
                raise self.rejected(PIPELINE_FULL)
            self._fed_bytes = self._framing_bytes = 0
            if not self.is_first:  # of the first one, the clock began with the connection
                self._began_s = 0.0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if self.part is ReadState.BODY:
            return
        rejection = self._head_fault()
        if rejection is None and self._is_head_too_large():
            rejection = HEAD_TOO_LARGE
        if rejection is None and self._for_health and self.url.partition(b"?")[0] not in _HEALTH:
            rejection = CONNECTIONS_FULL
        if rejection is not None:
            raise self.rejected(rejection)
        super().on_headers_complete()
        self.is_first = False
        if self._for_health:
            self.cycle.keep_alive = False
        self.scope[CONNECTION] = weakref.ref(self)  # type: ignore[literal-required]
        self.scope[BUDGET] = self._guard.made  # type: ignore[literal-required]
        self._body_bytes = self._framing_bytes = 0
        self._began_s = 0.0

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._framing_bytes = 0
        if self.cycle is self._forgotten:
            return
        if self._body_bytes > UNCOUNTED_BYTES and not self.cycle.response_complete:
            counted = min(len(body), self._body_bytes - UNCOUNTED_BYTES)
            if not self._guard.bodies.take(counted):
                raise self.rejected(BODIES_FULL)
            self._held_bytes += counted
        super().on_body(body)

    def on_response_complete(self) -> None:
        self.recent = True
        self._began_s = 0.0 if self.part is ReadState.NONE else self.loop.time()
        if not self.pipeline:
            self._give_back()
        super().on_response_complete()
        if self._is_much_left() and not self._lingers:
            self.linger()

    def _is_head_too_large(self) -> bool:
        most_bytes = self._settings.max_head_bytes
        if self._fed_bytes + self._piece_bytes <= most_bytes:
            return False
        line_bytes = len(self.parser.get_method()) + len(self.url) + len("  HTTP/1.1\r\n\r\n")
        lines_bytes = sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
        return line_bytes + lines_bytes > most_bytes

    def request_ended(self) -> None:
        """A request whose client has left keeps its body until it is carried out."""
        if self._is_lost:
            self._give_back()

    def forget_body(self) -> None:
        if not self.pipeline:
            self._forgotten = self.cycle
            self.cycle.body = bytearray()
            self._give_back()
            if self._is_much_left():
                # Anybody could keep the loop busy with it, without a key.
                self.flow.pause_reading()
                self.cycle.keep_alive = False
                self.cycle.transport = _Unread(self)  # type: ignore[assignment]
            else:
                self.flow.resume_reading()

    def _is_much_left(self) -> bool:
        """Whether the client has more to send than we read after an answer. A body in chunks counts
        as one: its length is unknown."""
        if self.part is not ReadState.BODY:
            return False
        length = next((value for name, value in self.headers if name == b"content-length"), None)
        return length is None or int(length) - self._body_bytes > _LINGER_BYTES

    def linger(self) -> None:
        """The client may read its answer, for a while, though it goes on sending."""
        self._lingers = True
        self.transport.write_eof()
        self.flow.resume_reading()
        self._abort_soon()

    def _give_back(self) -> None:
        if self._held_bytes:
            self._guard.bodies.give_back(self._held_bytes)
            self._held_bytes = 0

    # Whose turn it is

    @property
    def waits(self) -> bool:
        """For its client to send, or to read."""
        return self.flow.write_paused or not self.is_served

    def give_way(self) -> None:
        self._guard.connections.remove(self, self._address)
        self.transport.abort()

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
        """When this part of a request has to be over. The time starts anew while we do not read
        from the client, or owe it an answer."""
        if self.is_served or self.flow.read_paused or self.transport.is_closing():
            self._began_s = now_s
            return now_s + self._look_s
        self._began_s = self._began_s or now_s
        if self.part is ReadState.HEAD or self.is_first:
            return self._began_s + self._guard.head_s
        if self.part is ReadState.NONE:
            return self._began_s + self._guard.idle_s
        if self.cycle.response_complete:  # the rest of a body after the answer
            return self._began_s + self._guard.body_grace_s
        bytes_per_s = self._settings.body_bytes_per_s
        return self._began_s + self._guard.body_grace_s + self._body_bytes / bytes_per_s

    def _is_stuck(self, now_s: float) -> bool:
        """Whether the client has read nothing of an answer for as long as it may."""
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes != self._unsent_bytes:
            self._unsent_bytes, self._unsent_s = unsent_bytes, now_s
        return unsent_bytes > 0 and now_s - self._unsent_s >= self._guard.body_grace_s

    def _time_out(self) -> None:
        match self.part:
            case ReadState.HEAD:
                self.reject(HEAD_TIMED_OUT)
            case ReadState.BODY:
                self.reject(BODY_TIMED_OUT)
            case ReadState.NONE:
                self.transport.close()
                self._abort_soon()

    # Rejecting

    def reject(self, rejection: Rejection) -> None:
        self._guard.rejected[rejection.status] += 1
        super().reject(rejection)

    def end(self, rejection: Rejection) -> None:
        super().end(rejection)
        self._give_back()
        self._abort_soon()

    def _abort_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(_LINGER_S, self.transport.abort)


class _Unread:
    """The transport of an answer whose request is not read to its end. Closing leaves the client
    time to read it."""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol

    def __getattr__(self, name: str) -> Any:
        return getattr(self._protocol.transport, name)

    def close(self) -> None:
        self._protocol.linger()
