"""The wire fed with anything at all, in pieces of any size: it always ends, once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.target.targets import Origin
from worker.loop_budget import ROUND_BYTES, LoopBudget
from worker.send.answer import MAX_INTERIMS
from worker.send.outcome import Failure
from worker.send.wire import MAX_LINES, PIECES, SLICE_BYTES, Route, Wire, WireEvents


class DeafTransport:
    """Takes everything, sends nothing."""

    def __init__(self) -> None:
        self.closing = False
        self.reading = True
        self.written = 0
        self.buffered = 0

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        assert not self.closing
        self.written += len(data)

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.closing
        self.reading = True

    def get_extra_info(self, name: str) -> None:
        return None

    def abort(self) -> None:
        self.closing = True


class SteppedLoop:
    """Notes callbacks for the next round, and delayed ones."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.later: list[tuple[float, Callable[[], None]]] = []

    def call_soon(self, callback: Callable[[], None]) -> object:
        self.soon.append(callback)
        return callback

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        self.later.append((delay_s, callback))

    def next_round(self) -> None:
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


class Ends:
    """An exchange that notes how it ended. A callback is to have so much of the answer."""

    is_of_message = False

    def __init__(self, account_id: str = "acc_00_a", response_bytes: int | None = None) -> None:
        self.account_id = account_id
        self.response_bytes = response_bytes
        self.noted: list[tuple[object, ...]] = []

    def answered(self, wire: Wire, status_code: int, reason: str, reusable: bool) -> None:
        self.noted.append((status_code, reason, reusable))

    def broke(self, wire: Wire, failure: Failure, silent: bool) -> None:
        assert wire.is_open is False
        self.noted.append((failure, silent))


NOTED = WireEvents(
    lambda fire, wire, *answer: cast("Ends", fire).answered(wire, *answer),
    lambda fire, wire, *fault: cast("Ends", fire).broke(wire, *fault),
    lambda wire: None,
)


def wired(
    loop: SteppedLoop | None = None, loop_budget: LoopBudget | None = None, cap: int = 100
) -> tuple[Wire, DeafTransport]:
    budget = loop_budget or LoopBudget(cast("Any", loop or SteppedLoop()))
    route = Route(Origin("http", "e.example", 80), "8.8.8.8", "acc_00_a")
    wire, transport = Wire(route, cap, budget, NOTED), DeafTransport()
    wire.connection_made(cast("asyncio.Transport", transport))
    return wire, transport


def play(said: bytes, size: int, head_only: bool) -> list[tuple[object, ...]]:
    """How the exchange ends when the target says this, `size` bytes at a time, and hangs up."""
    wire, _ = wired()
    ends = Ends()
    wire.send(ends, b"request", head_only)
    for at in range(0, len(said), size):
        if not ends.noted:
            wire.data_received(said[at : at + size])
    wire.eof_received()
    wire.connection_lost(None)
    return ends.noted


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_pieces_make_no_difference(size: int) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n"
    interim = b"HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\n"
    until_close = b"HTTP/1.1 500 Oh\r\n\r\nabc"
    kept = len(chunked) // size <= PIECES
    assert play(chunked, size, False) == [(200, "OK", kept)]
    kept = len(interim + interim + chunked) // size <= PIECES
    assert play(interim + interim + chunked, size, False) == [(200, "OK", kept)]
    assert play(interim + until_close, size, False) == [(500, "Oh", False)]
    assert play(chunked[:-1], size, False) == [(200, "OK", False)]
    assert play(until_close[:17], size, False) == [(Failure.CLOSED_MIDWAY, False)]
    assert play(b"", size, False) == [(Failure.CLOSED_EARLY, True)]


TOKENS = st.sampled_from(
    [
        *(b"HTTP/1.1 200 OK\r\n", b"http/1.0 503 No\n", b"HTTP/1.1 100 C\r\n\r\n"),
        *(b"HTTP/1.1 204 N\n", b"Content-Length: 2\r\n", b"Content-Length: 3\n", b"A: b\r\n"),
        *(b"Content-Length: 2, 2\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n"),
        *(b" folded\r\n", b"no colon\r\n", b"\r\n", b"\n", b"\r", b"\0", b"ok", b"2\r\nok\r\n"),
        *(b"0\r\n\r\n", b"HTTP/1.1 ", b" ", b":"),
    ]
)


@given(st.lists(TOKENS, min_size=1, max_size=14).map(b"".join))
@example(b"HTTP/1.1 100 C\r\n\r\nhttp/1.0 503 No\n\n")
def test_pieces_make_no_difference_to_an_answer_of_any_kind(said: bytes) -> None:
    (how, *_), *others = (play(said, size, False)[0] for size in (1, 3, 7, len(said)))
    assert how is not Failure.INTERNAL
    assert [other for other, *_ in others] == [how] * 3


REQUEST = b"x" * (3 * SLICE_BYTES)
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class FullTransport(DeafTransport):
    """Takes a slice, and asks to wait with the next."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire

    def write(self, data: bytes) -> None:
        super().write(data)
        self._wire.pause_writing()


def full() -> tuple[Wire, FullTransport, Ends]:
    wire, _ = wired()
    transport = FullTransport(wire)
    wire.connection_made(cast("asyncio.Transport", transport))
    return wire, transport, Ends()


def test_a_wire_with_an_unsent_rest_is_not_used_again_though_its_answer_is_whole() -> None:
    wire, transport, ends = full()
    wire.send(ends, b"request", False)
    wire.data_received(WHOLE)  # by now it is known what this means
    wire.resume_writing()
    wire.send(ends, REQUEST, False)
    assert (transport.written, wire.has_sent_all) == (len(b"request") + SLICE_BYTES, False)
    wire.data_received(WHOLE)
    assert ends.noted == [(200, "OK", True), (200, "OK", False)]


@pytest.mark.parametrize("is_tls", [False, True])
def test_a_wire_whose_bytes_lie_in_a_transport_is_not_used_again(is_tls: bool) -> None:
    wire, transport = wired()
    if is_tls:
        transport = DeafTransport()
        wire.below = cast("asyncio.Transport", transport)
    ends = Ends()
    wire.send(ends, b"request", False)
    wire.data_received(WHOLE)  # by now it is known what this means
    wire.send(ends, b"request", False)
    transport.buffered = 1
    assert not wire.has_sent_all
    wire.data_received(WHOLE)
    assert ends.noted == [(200, "OK", True), (200, "OK", False)]


def test_a_wire_whose_answer_began_before_the_request_was_out_is_not_used_again() -> None:
    wire, transport = wired()
    ends = Ends()
    transport.buffered = 1
    wire.send(ends, b"request", False)
    wire.data_received(WHOLE[:9])
    transport.buffered = 0
    wire.data_received(WHOLE[9:])
    wire.send(ends, b"request", False)
    wire.data_received(WHOLE)
    assert ends.noted == [(200, "OK", False), (200, "OK", True)]


def test_what_is_known_of_a_whole_answer_is_not_taken_for_a_part_of_one() -> None:
    wire, _ = wired()
    ends = Ends()
    wire.send(ends, b"request", False)
    wire.data_received(WHOLE)
    assert ends.noted.pop() == (200, "OK", True)
    # The body of an answer may look like one, and so does the answer to a HEAD.
    wire.send(ends, b"request", False)
    wire.data_received(b"HTTP/1.1 500 Oh\r\nContent-Length: %d\r\n\r\n" % len(WHOLE))
    assert ends.noted == []
    wire.data_received(WHOLE)
    assert ends.noted.pop() == (500, "Oh", True)
    body_less = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
    wire.send(ends, b"request", True)
    wire.data_received(body_less)
    assert ends.noted.pop() == (200, "OK", True)
    wire.send(ends, b"request", False)
    wire.data_received(body_less)
    assert ends.noted == []


def test_the_rest_goes_out_as_the_transport_takes_it_and_then_the_wire_is_used_again() -> None:
    wire, transport, ends = full()
    wire.send(ends, REQUEST, False)
    wire.resume_writing()
    wire.resume_writing()
    assert (transport.written, wire.has_sent_all) == (len(REQUEST), True)
    wire.data_received(WHOLE)
    assert ends.noted == [(200, "OK", True)]


CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 10_000
DONE = [(200, "OK", False)]


def flooded(
    loop_budget: LoopBudget, count: int, account_id: str
) -> list[tuple[Ends, DeafTransport]]:
    """So many connections, each with the same long answer, all in one round."""
    flood = []
    for _ in range(count):
        wire, transport = wired(loop_budget=loop_budget, cap=50_000)
        ends = Ends(account_id)
        wire.send(ends, b"request", False)
        wire.data_received(CHUNKS)
        flood.append((ends, transport))
    return flood


def test_answers_beyond_the_ration_wait_unread_for_their_accounts_turn_in_later_rounds() -> None:
    loop = SteppedLoop()
    loop_budget = LoopBudget(cast("Any", loop))
    flood = flooded(loop_budget, 100, "acc_00_a")
    at_once = [ends for ends, _ in flood if ends.noted]
    assert len(at_once) == ROUND_BYTES // len(CHUNKS) + 1
    assert [transport.reading for ends, transport in flood] == [bool(e.noted) for e, _ in flood]
    [(neighbour, _)] = flooded(loop_budget, 1, "acc_00_b")
    small, _ = wired(loop_budget=loop_budget)
    small.send(ends := Ends("acc_00_b"), b"request", False)
    small.data_received(WHOLE)
    assert ends.noted  # nothing to wait for
    loop.next_round()
    assert neighbour.noted == DONE
    rounds = 1
    while loop.soon:
        rounds += 1
        loop.next_round()
    assert 100 // (len(at_once) + 1) <= rounds <= 100 // (len(at_once) - 1)
    assert all(ends.noted == DONE for ends, _ in flood)


def test_an_answer_that_drips_is_looked_at_ever_more_rarely_and_its_wire_not_used_again() -> None:
    loop = SteppedLoop()
    wire, transport = wired(loop, cap=1000)
    wire.send(ends := Ends(), b"request", False)
    wire.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n")
    dripped_s = 0.0
    for _ in range(299):
        assert transport.reading
        wire.data_received(b"x")
        if not transport.reading:
            [(delay_s, look_again)], loop.later = loop.later, []
            dripped_s += delay_s
            look_again()
    assert dripped_s > 30
    wire.data_received(b"x")
    assert ends.noted == DONE
    for _, look_again in loop.later:
        look_again()


def test_chunks_count_as_well_as_bytes() -> None:
    wire, _ = wired(cap=10_000_000)
    wire.send(ends := Ends(), b"request", False)
    wire.data_received(CHUNKS)
    assert not ends.noted
    wire.data_received(b"1\r\nx\r\n" * (MAX_LINES // 2 + 1))
    assert ends.noted == DONE


def test_heads_before_the_answer_are_counted() -> None:
    interim = b"HTTP/1.1 100 \r\n\r\n"
    assert play(interim * MAX_INTERIMS + WHOLE, 1000, False) == [(200, "OK", True)]
    assert play(interim * 3000, 40_000, False) == [(Failure.HEADERS_TOO_LARGE, False)]


@pytest.mark.parametrize("size", [3, 10_000])
def test_a_retry_after_belongs_to_its_answer(size: int) -> None:
    """Of many on one connection, each with a status, what it asks for, and what is told of it."""
    wire, _ = wired()
    for status, asked, told in (
        *((503, b"7", "7"), (503, b"7", "7"), (200, b"", ""), (200, b"", "")),
        *((429, b"8", "8"), (503, b"", ""), (500, b"9", ""), (503, b"7", "7")),
    ):
        header = b"Retry-After: %b\r\n" % asked if asked else b""
        said = b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n%b\r\n" % (status, header)
        wire.send(ends := Ends(), b"request", False)
        for at in range(0, len(said), size):
            wire.data_received(said[at : at + size])
        assert (len(ends.noted), wire.received.retry_after) == (1, told)


def test_a_wire_that_is_kept_holds_no_long_answer() -> None:
    wire, _ = wired(cap=50_000)
    wire._keep_bytes = 8
    wire.send(Ends(), b"request", False)
    wire.data_received(b"HTTP/1.1 500 Oh\r\nA: %b\r\nContent-Length: 2\r\n\r\nno" % (b"x" * 9000))
    assert wire.received.kept is not None
    assert (wire.received.kept.body, wire.received.raw) == (b"no", None)
