"""The wire: one connection to a target, one HTTP/1.1 exchange at a time.

Drops the answer's body, but for the beginning of one that failed, or that a callback is to have.
Creates no task and no future.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import httptools
import msgspec

from scheduler.target.targets import Origin
from worker.loop_budget import LoopBudget
from worker.send.answer import (
    BODILESS,
    LAST_CHUNK_BYTES,
    MAX_HEAD_BYTES,
    NOTHING,
    SMALL_BYTES,
    Received,
    ends_with_last_chunk,
    heeded_in,
    note_head,
    note_stray_body,
    oddity,
    text_of,
)
from worker.send.answer_reader import NO_PARSER, AnswerReader, Refused
from worker.send.loose_http import HeadTooLong, NotHttp
from worker.send.outcome import Failure
from worker.send.sockets import reset

if TYPE_CHECKING:
    from worker.send.fire import Fire

# A longer request goes out in slices, as the target takes them, or TLS would hold it twice.
SLICE_BYTES = 64 * 1024
# After so many pieces of an answer the next ones are read a millisecond later each: one that drips
# for 30 s costs some 250 readings.
PIECES = 64
_PAUSE_S = 0.001
# Small chunks cost more than their bytes: so many line ends in what follows the head's piece.
MAX_LINES = 2 * 16_384
# How long after the last chunk the empty line behind it may come.
_LAST_LINE_S = 1.0
_RESET_MIDWAY = "Connection reset before the answer was complete"


class Route(msgspec.Struct, frozen=True):
    """The key of alike connections. A connection carries requests of one account only, because a
    target may take the rest of one request for the beginning of the next one."""

    origin: Origin
    address: str
    account_id: str


class WireEvents(NamedTuple):
    """What becomes of exchanges. `answered`: all of the answer is here (status, reason, reusable;
    unless reusable, the wire is to be aborted). `broke`: none will come and the wire is gone (why,
    and whether not one byte of it had come). `idle_closed`: the connection ended, or said
    something, between exchanges."""

    answered: Callable[[Fire, Wire, int, str, bool], None]
    broke: Callable[[Fire, Wire, Failure, bool], None]
    idle_closed: Callable[[Wire], None]


class Wire(AnswerReader, asyncio.Protocol):
    """One connection. `send` starts an exchange, which ends in one of the `events`.

    `exchanges` counts those that were started here. `idle_since_s` and `kept_for` belong to the
    pool: since when, and for which account at which address, or for the target, to close it.
    `received` is of the last one. `opened_s` is when the connection was made, by the monotonic
    clock. `closes_first`: the target said that it closes the connection after this answer.
    """

    def __init__(
        self,
        route: Route,
        max_body_bytes: int,
        loop_budget: LoopBudget,
        events: WireEvents,
        keep_bytes: int = 0,
    ) -> None:
        super().__init__(keep_bytes)
        self.route = route
        self.exchanges = 0
        self.idle_since_s = 0.0
        self.kept_for = ("", "")
        self._events = events
        self._max_body_bytes = max_body_bytes
        self._loop_budget = loop_budget
        self._exchange: Fire | None = None
        self._transport: asyncio.Transport  # set by connection_made, before any call
        self.below: asyncio.Transport | None = None  # of TLS, with a buffer of its own
        # The last whole answer: targets mostly repeat it, and then it need not be parsed again.
        self._known = b""
        self._known_status = 0
        self._known_reason = ""
        self._rest: memoryview | None = None
        self._paused = False
        self._saw_end = False
        self.closes_first = False

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
            and (self.below is None or self.below.get_write_buffer_size() == 0)
        )

    def send(self, exchange: Fire, request: bytes, head_only: bool) -> None:
        """Write a request; `head_only` says that its answer has no body (HEAD).

        The exchange may break before this returns.
        """
        transport = self._transport
        self._exchange = exchange
        self._is_to_head = head_only
        self.received = NOTHING
        if exchange.response_bytes is not None:
            self._known = b""  # the answer is read, however well known
        self.exchanges += 1
        if transport.is_closing():
            self._break(Failure.CLOSED_EARLY)
        elif len(request) <= SLICE_BYTES:
            transport.write(request)
        else:
            self._rest = memoryview(request)
            self._write_rest()

    def end_as_heard(self) -> bool:
        """The time is over: whether that ends an answer whose status is known, and whose end may
        not come because of what is odd about it."""
        received = self.received
        if not (received.headers_done and received.odd):
            return False
        self._give_up_body(is_cut=True)
        return True

    def abort(self) -> None:
        """Cut the connection and forget the exchange on it, if there is one, without a callback."""
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
        # Not before: it refers to us, and only connection_lost breaks that ring.
        self._parser = httptools.HttpResponseParser(self)
        self.opened_s = time.monotonic()

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            # An answer to nothing: a 408, a TLS alert, a target that lost count.
            self._lose()
            return
        received = self.received
        is_new = received is NOTHING
        if is_new and data == self._known and not self._is_to_head and self.has_sent_all:
            self._exchange = None
            self._events.answered(exchange, self, self._known_status, self._known_reason, True)
            return
        if is_new:
            received = self.received = Received(was_early=not self.has_sent_all)
        if len(data) > SMALL_BYTES and not self._loop_budget.take(len(data)):
            self._note_heard()
            self._transport.pause_reading()
            self._loop_budget.wait(exchange.account_id, partial(self._hear_late, data))
            return
        try:
            self._parser.feed_data(data)
        except Refused as error:
            if not self._note_refusal(error):
                self._break(Failure.INTERNAL)
                return
        try:
            if received.done and len(data) <= SMALL_BYTES and received.heard_s is None:
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
        self._parser = NO_PARSER  # ours refers to us: break the ring

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._rest is not None:
            self._write_rest()

    # How an exchange ends

    def _finish(self, data: bytes) -> None:
        """The answer is whole. The wire may be used again only if both sides are surely in step."""
        exchange, received = self._exchange, self.received
        self._exchange = None
        status = received.status
        if (self._is_to_head or status in BODILESS) and received.heard_s is None:
            note_stray_body(received, data, self._is_to_head)
        reusable = (
            received.keep_alive
            and not received.extra
            and not received.was_early
            and received.pieces <= PIECES
            and status != 101
        )
        self.closes_first = received.done and not (
            received.keep_alive or received.extra or received.was_early or received.odd
        )
        reason = text_of(received.reason)
        if exchange is not None and exchange.response_bytes is not None:
            self._note_response(data, exchange.response_bytes)
        says_no_more = 200 <= status < 300 or not self._leaves_something(
            data, exchange is not None and exchange.is_of_message
        )
        if says_no_more and reusable and received.heard_s is None and not self._is_to_head:
            self._known, self._known_status, self._known_reason = data, status, reason
        if self._is_to_head:
            self._parser = httptools.HttpResponseParser(self)  # this one now expects a body
        if exchange is not None:
            self._events.answered(exchange, self, status, reason, reusable)

    def _note_heard(self) -> None:
        """Something came that is not all of a small answer."""
        if self.received.heard_s is None:
            self.received.heard_s = time.monotonic()

    def _weigh(self, data: bytes) -> None:
        """Hold an answer that is not both whole and small to its caps, in bytes as they came: chunk
        framing and trailers count as body."""
        received = self.received
        received.pieces += 1
        if received.pieces > PIECES:
            self._transport.pause_reading()
            self._loop_budget.loop.call_later(_PAUSE_S * received.pieces, self._hear_on)
        if received.head is not None:
            received.head += data
            if not self._weigh_head(received.head):
                return
        else:
            received.body_bytes += len(data)
            received.body_lines += data.count(b"\n")
            if received.raw is not None:
                received.raw += data[: received.most_raw_bytes - len(received.raw)]
        if received.done:
            self._finish(data)
        elif received.stumbled:
            received.odd = received.odd or oddity(received.stumbled)
            self._give_up_body(is_cut=True)
        elif received.body_bytes > self._max_body_bytes or received.body_lines > MAX_LINES:
            self._give_up_body(is_cut=True)
        elif received.chunked:
            self._watch_last_chunk(data)

    def _give_up_body(self, *, is_cut: bool = False) -> None:
        """The status counts without the rest of the body, and the connection is closed."""
        self.received.keep_alive, self.received.is_cut = False, is_cut
        self._finish(b"")

    def _watch_last_chunk(self, data: bytes) -> None:
        """Some targets leave out the empty line behind their last chunk, and wait. One with bare
        line ends is not seen by the parser."""
        received = self.received
        received.tail = tail = (received.tail + data)[-LAST_CHUNK_BYTES:]
        if not ends_with_last_chunk(tail):
            return
        if received.odd and tail.endswith((b"\n\n", b"\n\r\n")):
            self._give_up_body()
        elif not received.awaits_end:
            received.awaits_end = True
            end = partial(self._end_after_last_chunk, received)
            self._loop_budget.loop.call_later(_LAST_LINE_S, end)

    def _end_after_last_chunk(self, received: Received) -> None:
        received.awaits_end = False
        is_over = self._exchange is None or self.received is not received
        if not is_over and ends_with_last_chunk(received.tail):
            received.odd = received.odd or oddity("no end behind the last chunk")
            self._give_up_body()

    def _hear_late(self, data: bytes) -> None:
        """The budget has room for this piece, if an exchange still waits for it."""
        if self._exchange is not None:
            self._transport.resume_reading()
            self.data_received(data)

    def _hear_on(self) -> None:
        if self.is_open:
            self._transport.resume_reading()

    def _weigh_head(self, head: bytearray) -> bool:
        """Whether the head is here, and within its caps."""
        received = self.received
        if not received.headers_done:
            if received.stumbled:
                return self._is_mended(head) and self._weigh_head(head)
            if len(head) > MAX_HEAD_BYTES:
                self._break(Failure.HEADERS_TOO_LARGE)
            return False
        wanted = self._exchange.response_bytes if self._exchange else None
        if not note_head(received, head, self._keep_bytes, self._is_to_head, wanted):
            self._break(Failure.HEADERS_TOO_LARGE)
            return False
        exchange, failed = self._exchange, not 200 <= received.status < 300
        if failed and exchange is not None and exchange.is_of_message:
            received.retry_after = heeded_in(head, received.interims)
        return True

    def _is_mended(self, head: bytearray) -> bool:
        """Whether a head that the parser refused is here, and could be read all the same."""
        try:
            return self._mend_head(head)
        except NotHttp as why:
            self.received.odd = str(why)
            self._break(Failure.NOT_HTTP)
        except HeadTooLong:
            self._break(Failure.HEADERS_TOO_LARGE)
        return False

    def _end(self, error: Exception | None) -> None:
        """The connection ended: so does a body that said neither its length nor its end."""
        received = self.received
        if self._exchange is None:
            self._lose()
        elif received.headers_done:
            if error is not None or received.framed:
                received.odd = received.odd or (
                    _RESET_MIDWAY if error else Failure.CLOSED_MIDWAY.value
                )
            self._give_up_body(is_cut=error is not None or received.framed)
        elif error is not None:
            self._break(Failure.RESET)
        else:
            is_silent = received.heard_s is None
            self._break(Failure.CLOSED_EARLY if is_silent else Failure.CLOSED_MIDWAY)

    def _break(self, failure: Failure) -> None:
        exchange = self._exchange
        silent = self.received.heard_s is None
        self.abort()
        if exchange is not None:
            self._events.broke(exchange, self, failure, silent)

    def _lose(self) -> None:
        """The connection is of no more use between two exchanges."""
        self.abort()
        self._events.idle_closed(self)

    def _write_rest(self) -> None:
        transport = self._transport
        while self._rest is not None and not self._paused:
            piece, rest = self._rest[:SLICE_BYTES], self._rest[SLICE_BYTES:]
            self._rest = rest if rest else None
            transport.write(piece)
