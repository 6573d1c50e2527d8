"""The wire: one connection to a target, one HTTP/1.1 exchange at a time.

Less than a client, on purpose: the answer's body is counted by the parser and dropped, but for the
beginning of one that failed. Callbacks only; nothing here creates a task or a future.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

import httptools
import structlog

from scheduler.models import Answer
from scheduler.targets import Origin
from worker.answer import answer_of, most_raw_bytes
from worker.head import ASKING, MAX_HEAD_BYTES, SMALL_BYTES, retry_after, weigh
from worker.outcome import Failure
from worker.ration import Ration
from worker.sockets import reset

# A longer request goes out in slices, as the target takes them: TLS encrypts what it is given
# at once, and a whole body per connection would be held twice.
SLICE_BYTES = 64 * 1024
# An answer may come in so many pieces; then the connection is only looked at every so often, for
# each piece a millisecond later: dripping for 30 s, it costs some 250 readings.
PIECES = 64
_PAUSE_S = 0.001
# Small chunks cost more than their bytes: so many line ends in what follows the head's piece.
MAX_LINES = 2 * 16_384
# So many 1xx may come before an answer.
MAX_INTERIMS = 32


_log = structlog.get_logger(__name__)
_NO_PARSER = httptools.HttpResponseParser(None)


class Route(NamedTuple):
    """What makes two connections alike: where the bytes go, for which name and which account.

    A target may take the rest of one request for the beginning of the next one. So a connection
    carries requests of one account only.
    """

    origin: Origin
    address: str
    account_id: str


class Exchange(Protocol):
    """Whoever is waiting for the answer. Exactly one of the two is called, once."""

    @property
    def account_id(self) -> str: ...

    def answered(self, wire: Wire, status_code: int, reason: str, reusable: bool) -> None:
        """The whole answer is here; the wire is free. Unless reusable, it must be aborted."""

    def broke(self, wire: Wire, failure: Failure, silent: bool) -> None:
        """No whole answer will come; the wire is gone. `silent`: not one byte of it had come."""


class Wire(asyncio.Protocol):
    """One connection. `send` starts an exchange, which ends in a call to its `Exchange`.

    `exchanges` counts those that were started here; `idle_since_s` belongs to the pool, and
    `on_idle_close` is called when the connection ends, or says something, between exchanges.
    `retry_after` is what a 429 or 503 said so, `answer` what is kept of one that failed, both until
    the next exchange; so is `heard_s`, when an answer in several pieces began, by the monotonic
    clock.
    """

    __slots__ = (
        "_below",
        "_body_bytes",
        "_body_lines",
        "_done",
        "_exchange",
        "_extra",
        "_framed",
        "_head",
        "_head_only",
        "_headers_done",
        "_heard",
        "_interims",
        "_is_clear",
        "_keep_alive",
        "_keep_bytes",
        "_known",
        "_known_reason",
        "_known_status",
        "_max_body_bytes",
        "_most_raw_bytes",
        "_parser",
        "_paused",
        "_pieces",
        "_ration",
        "_raw",
        "_reason",
        "_rest",
        "_saw_end",
        "_status",
        "_transport",
        "_was_early",
        "answer",
        "closes_first",
        "exchanges",
        "heard_s",
        "idle_since_s",
        "on_idle_close",
        "opened_s",
        "retry_after",
        "route",
    )

    _status: int
    _reason: bytes
    _head: bytearray | None
    _interims: int
    _body_bytes: int
    _body_lines: int
    _pieces: int
    _heard: bool
    _headers_done: bool
    _framed: bool
    _keep_alive: bool
    _extra: bool
    _done: bool
    _is_clear: bool  # nothing of an answer has come
    _was_early: bool  # it began before the request had gone out whole
    _raw: bytearray | None  # what has come of an answer that failed, up to a bound
    _most_raw_bytes: int
    retry_after: str
    answer: Answer | None
    heard_s: float | None
    closes_first: bool  # the target said that it closes the connection after this answer
    opened_s: float  # when the connection was made, by the monotonic clock

    def __init__(
        self,
        route: Route,
        max_body_bytes: int,
        ration: Ration,
        on_idle_close: Callable[[Wire], None],
        keep_bytes: int = 0,
    ) -> None:
        self.route = route
        self.exchanges = 0
        self.idle_since_s = 0.0
        self.on_idle_close = on_idle_close
        self._max_body_bytes = max_body_bytes
        self._keep_bytes = keep_bytes
        self._ration = ration
        self._exchange: Exchange | None = None
        self._transport: asyncio.Transport  # from connection_made on, and nobody calls before
        self._below: asyncio.Transport | None = None
        self._parser = _NO_PARSER
        # The last answer that came whole and left the parser as it was. Targets mostly say the same
        # again, and what is the same byte for byte need not be parsed again.
        self._known = b""
        self._known_status = 0
        self._known_reason = ""
        self._rest: memoryview | None = None
        self._paused = False
        self._saw_end = False
        self._head_only = False
        self._clear_answer()

    # What its owner calls

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    @property
    def has_sent_all(self) -> bool:
        """Whether the request has left this process."""
        return (
            self._rest is None
            and self._transport.get_write_buffer_size() == 0
            and (self._below is None or self._below.get_write_buffer_size() == 0)
        )

    def goes_over(self, below: asyncio.Transport) -> None:
        """With TLS: the transport below, whose buffer the connection's own does not count."""
        self._below = below

    def send(self, exchange: Exchange, request: bytes, head_only: bool) -> None:
        """Write a request; `head_only` says that its answer has no body (HEAD).

        May call `exchange.broke` before it returns.
        """
        transport = self._transport
        self._exchange = exchange
        self._head_only = head_only
        if not self._is_clear:
            self._clear_answer()
        self.exchanges += 1
        if transport.is_closing():
            self._break(Failure.CLOSED_EARLY)
        elif len(request) <= SLICE_BYTES:
            transport.write(request)
        else:
            self._rest = memoryview(request)
            self._write_rest()

    def abort(self) -> None:
        """Cut the connection, and forget the exchange on it, if there is one: nobody is called."""
        self._exchange = None
        self._rest = None
        if self._saw_end:
            self._transport.abort()
        else:
            reset(self._transport)

    def hang_up(self) -> None:
        """Close a connection between two exchanges with a FIN, which keeps a local port busy."""
        self._transport.abort()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        # Not before: it refers to us, and where there is no connection none ends that ring.
        self._parser = httptools.HttpResponseParser(self)
        self.opened_s = time.monotonic()

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            # An answer to nothing: a 408, a TLS alert, a target that lost count.
            self._lose()
            return
        if data == self._known and self._is_clear and not self._head_only and self.has_sent_all:
            self._exchange = None
            exchange.answered(self, self._known_status, self._known_reason, True)
            return
        if self._is_clear:
            self._is_clear = False
            self._was_early = not self.has_sent_all
        if len(data) > SMALL_BYTES and not self._ration.take(len(data)):
            self._note_heard()
            self._transport.pause_reading()
            self._ration.wait(exchange.account_id, partial(self._hear_late, data))
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # Once the answer is done, it is what follows that cannot be parsed.
            if not self._done:
                self._note_heard()
                too_many = self._interims > MAX_INTERIMS
                self._break(Failure.HEADERS_TOO_LARGE if too_many else _failure_of(error))
                return
            self._extra = True
        try:
            if self._done and len(data) <= SMALL_BYTES and not self._heard:
                self._finish(data)
            else:
                self._note_heard()
                self._weigh(data)
        except Exception:
            self._break(Failure.INTERNAL)
            raise

    def eof_received(self) -> None:
        self._saw_end = True
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc)
        self._parser = _NO_PARSER  # ours refers to us: break the ring

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._rest is not None:
            self._write_rest()

    # What the parser calls, while it is fed

    def on_message_begin(self) -> None:
        if self._done:
            raise _Enough  # what follows an answer is not parsed: see data_received

    def on_status(self, text: bytes) -> None:
        if not self._done:
            self._reason += text

    def on_headers_complete(self) -> None:
        if self._done:
            return
        parser = self._parser
        self._status = status = parser.get_status_code()
        if status < 200 and status != 101:
            return
        self._headers_done = True
        self._keep_alive = parser.should_keep_alive()
        if self._head_only or status == 101:
            self._done = True

    def on_message_complete(self) -> None:
        if self._headers_done:
            self._done = True
        else:  # 1xx: passed over
            self._interims += 1
            self._reason = b""
            if self._interims > MAX_INTERIMS:
                raise _Enough

    # How an exchange ends

    def _finish(self, data: bytes) -> None:
        """The answer is whole. The wire may be used again only if both sides are surely in step."""
        exchange = self._exchange
        self._exchange = None
        reusable = (
            self._keep_alive
            and not self._extra
            and not self._was_early
            and self._pieces <= PIECES
            and self._status != 101
            and (not self._head_only or data.endswith(b"\r\n\r\n"))
        )
        self.closes_first = self._done and not (self._keep_alive or self._extra or self._was_early)
        reason = self._reason.decode("latin-1")
        says_no_more = 200 <= self._status < 300 or not self._leaves_something(data)
        if says_no_more and reusable and not self._heard and not self._head_only:
            self._known, self._known_status, self._known_reason = data, self._status, reason
        if self._head_only:
            self._parser = httptools.HttpResponseParser(self)  # this one now expects a body
        if exchange is not None:
            exchange.answered(self, self._status, reason, reusable)

    def _note_heard(self) -> None:
        """Something came that is not all of a small answer."""
        if not self._heard:
            self._heard = True
            self.heard_s = time.monotonic()

    def _leaves_something(self, data: bytes) -> bool:
        """Whether there is more to an answer that failed than its status: then it is read each
        time, however well known."""
        asks = self._status in ASKING
        if asks and not self._heard:
            self.retry_after = retry_after(data, self._interims)
        if self._keep_bytes and not self._head_only:
            self.answer = answer_of(self._raw or data, self._interims, self._keep_bytes)
            self._raw = None  # the connection may be kept, and a head may be long
        return asks or self.answer is not None

    def _weigh(self, data: bytes) -> None:
        """Hold an answer that is not both whole and small to its caps, in bytes as they came.

        Chunk framing and trailers count as body: the parser would gather a trailer without
        an end as it would a body.
        """
        self._pieces += 1
        if self._pieces > PIECES:
            self._transport.pause_reading()
            self._ration.pause(_PAUSE_S * self._pieces, self._hear_on)
        if self._head is not None:
            self._head += data
            if not self._weigh_head(self._head):
                return
        else:
            self._body_bytes += len(data)
            self._body_lines += data.count(b"\n")
            if self._raw is not None:
                self._raw += data[: self._most_raw_bytes - len(self._raw)]
        if self._done:
            self._finish(data)
        elif self._body_bytes > self._max_body_bytes or self._body_lines > MAX_LINES:
            self._keep_alive = False
            self._finish(b"")

    def _hear_late(self, data: bytes) -> None:
        """Its turn has come, if it is still waited for."""
        if self._exchange is not None:
            self._transport.resume_reading()
            self.data_received(data)

    def _hear_on(self) -> None:
        if self.is_open:
            self._transport.resume_reading()

    def _weigh_head(self, received: bytearray) -> bool:
        """Whether the head is here, and within its caps."""
        if not self._headers_done:
            if len(received) > MAX_HEAD_BYTES:
                self._break(Failure.HEADERS_TOO_LARGE)
            return False
        head = weigh(received, self._interims)
        if head.too_large:
            self._break(Failure.HEADERS_TOO_LARGE)
            return False
        self._framed = head.framed
        if self._status in ASKING:
            self.retry_after = retry_after(received, self._interims)
        self._body_bytes = len(received) - head.end
        if self._keep_bytes and not 200 <= self._status < 300:
            self._most_raw_bytes = head.end + most_raw_bytes(self._keep_bytes)
            self._raw = received[: self._most_raw_bytes]
        self._head = None
        return True

    def _end(self, error: Exception | None) -> None:
        """The connection ended: so does a body that said neither its length nor its end."""
        if self._exchange is None:
            self._lose()
        elif error is not None:
            self._break(Failure.RESET)
        elif self._headers_done and not self._framed:
            self._keep_alive = False
            self._finish(b"")
        else:
            self._break(Failure.CLOSED_MIDWAY if self._heard else Failure.CLOSED_EARLY)

    def _break(self, failure: Failure) -> None:
        exchange = self._exchange
        silent = not self._heard
        self.abort()
        if exchange is not None:
            exchange.broke(self, failure, silent)

    def _lose(self) -> None:
        """The connection is of no more use between two exchanges."""
        self.abort()
        self.on_idle_close(self)

    def _write_rest(self) -> None:
        transport = self._transport
        while self._rest is not None and not self._paused:
            piece, rest = self._rest[:SLICE_BYTES], self._rest[SLICE_BYTES:]
            self._rest = rest if rest else None
            transport.write(piece)

    def _clear_answer(self) -> None:
        self._is_clear = True
        self._was_early = False
        self.closes_first = False
        self.retry_after = ""
        self.answer = None
        self.heard_s = None
        self._raw = None
        self._status = 0
        self._reason = b""
        self._head = bytearray()
        self._interims = 0
        self._body_bytes = 0
        self._body_lines = 0
        self._pieces = 0
        self._heard = False
        self._headers_done = False
        self._framed = False
        self._keep_alive = False
        self._extra = False
        self._done = False


class _Enough(Exception):
    """No more of this is parsed."""


def _failure_of(error: Exception) -> Failure:
    """What the parser stumbled over: the answer, or (never) our own callback."""
    if isinstance(error, httptools.HttpParserCallbackError):
        _log.error("Internal error", exc_info=error)
        return Failure.INTERNAL
    return Failure.NOT_HTTP
