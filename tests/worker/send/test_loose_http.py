"""Answers in loose HTTP: a status that was understood is the outcome, and the connection ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.models import Answer
from tests.worker.scene import Scene
from tests.worker.scripted import Line, answer, answering, answering_then_closing, playing, until
from tests.worker.send.firing import OK, fired, firing_at, invocation_of
from tests.worker.send.test_wire_bytes import DeafTransport, Ends, wired
from worker.send.answer import MAX_HEAD_BYTES, MAX_INTERIMS, Received
from worker.send.outcome import MAX_MESSAGE_CHARACTERS, Failure
from worker.send.wire import Wire

CHUNKS = b"2\r\nok\r\n0\r\n\r\n"
CHUNKED = b"HTTP/1.1 STATUS\r\nTransfer-Encoding: chunked\r\n\r\n"
NO_NUMBER = "a Content-Length that is no number, or too large a one"
BOTH = "both Content-Length and Transfer-Encoding"
TWICE = "Content-Length more than once"
NO_CR = "lines that end without CR"
FOLDED = "folded header lines"


def with_headers(*lines: bytes, body: bytes = b"ok", begin: bytes = b"HTTP/1.1 STATUS") -> bytes:
    return b"\r\n".join((begin, *lines, b"", body))


SIZED = b"Content-Length: 2"
IN_CHUNKS = b"Transfer-Encoding: chunked"
CLOSING_1XX = b"HTTP/1.1 103 Early\r\nConnection: close\r\n\r\n"
LOWER = b"http/1.1 STATUS"
# By its name: the answer, and what the message says of it. Each is whole.
LOOSE = {
    "both": (with_headers(SIZED, IN_CHUNKS, body=CHUNKS), BOTH),
    "both, the other way round": (with_headers(IN_CHUNKS, SIZED, body=CHUNKS), BOTH),
    "both, and no chunks": (with_headers(SIZED, IN_CHUNKS), BOTH),
    "both, not chunked": (with_headers(SIZED, b"Transfer-Encoding: gzip"), BOTH),
    "both, identity": (with_headers(b"Transfer-Encoding: identity", SIZED), BOTH),
    "an empty coding": (with_headers(b"Transfer-Encoding:", SIZED), BOTH),
    "a length twice": (with_headers(SIZED, SIZED), TWICE),
    "a length three times": (with_headers(SIZED, b"content-length:02", SIZED), TWICE),
    "a list of lengths": (with_headers(b"Content-Length: 2, 2"), TWICE),
    "a signed length": (with_headers(b"Content-Length: +2"), NO_NUMBER),
    "a negative length": (with_headers(b"Content-Length: -2"), NO_NUMBER),
    "no length": (with_headers(b"Content-Length:"), NO_NUMBER),
    "a length in words": (with_headers(b"Content-Length: 2 bytes"), NO_NUMBER),
    "a huge length": (with_headers(b"Content-Length: " + b"9" * 30), NO_NUMBER),
    "bare LF": (with_headers(SIZED).replace(b"\r", b""), NO_CR),
    "bare LF, chunked": ((CHUNKED + CHUNKS).replace(b"\r", b""), NO_CR),
    "bare LF once": (with_headers(b"A: b\nC: d", SIZED), NO_CR),
    "bare LF behind the status": (with_headers(SIZED, begin=b"HTTP/1.1 STATUS\nA: b"), NO_CR),
    "bare LF at the head's end": (b"HTTP/1.1 STATUS\r\nContent-Length: 2\r\n\nok", NO_CR),
    "CR CR LF": (with_headers(SIZED).replace(b"\r", b"\r\r"), "expected LF after CR"),
    "a folded line": (with_headers(b"A: b", b" c", SIZED), FOLDED),
    "a folded length": (with_headers(b"Content-Length:", b"\t2"), FOLDED),
    "a fold behind the status": (with_headers(b" A: b", SIZED), FOLDED),
    "a blank before a colon": (with_headers(b"A : b", b"Content-Length : 2"), "invalid header"),
    "no colon": (with_headers(b"A", SIZED), "invalid header"),
    "no name": (with_headers(b": b", SIZED), "invalid header"),
    "odd bytes in a name": (with_headers(b"A@\xc3\xa4[]: b", SIZED), "invalid header"),
    "NUL": (with_headers(b"A: \0", SIZED), "invalid header"),
    "CR within a value": (with_headers(b"A: b\rContent-Length: 9", SIZED), "missing expected LF"),
    "CR within the reason": (with_headers(SIZED, begin=b"HTTP/1.1 STATUS\r"), "expected LF"),
    "lower case": (with_headers(SIZED, begin=LOWER), "the status line"),
    "a long reason": (with_headers(SIZED, begin=LOWER + b"\xff" * 300), "the status line"),
    "no minor version": (with_headers(SIZED, begin=b"HTTP/2 STATUS"), "the status line"),
    "two blanks": (with_headers(SIZED, begin=b"HTTP/1.1  STATUS"), "the status line"),
    "a tab": (with_headers(SIZED, begin=b"HTTP/1.1\tSTATUS"), "the status line"),
    "a loose 1xx": (b"HTTP/1.1 100 Continue\n\n" + with_headers(SIZED), "missing expected CR"),
    "a 1xx that closes": (CLOSING_1XX + with_headers(SIZED), "data after"),
    "blanks behind a chunk's size": (CHUNKED + b"2  \r\nok\r\n0\r\n\r\n", "invalid character in"),
    "blanks before a chunk's size": (CHUNKED + b" 2\r\nok\r\n0\r\n\r\n", "invalid character in"),
    "no size of a chunk": (CHUNKED + b"\r\nok\r\n0\r\n\r\n", "invalid character in chunk size"),
    "a huge chunk": (CHUNKED + b"f" * 17 + b"\r\nok", "chunk size overflow"),
    "bare LF in chunks": (CHUNKED + CHUNKS.replace(b"\r", b""), "missing expected CR"),
    "no end of a chunk": (CHUNKED + b"2\r\nok0\r\n\r\n", "expected LF"),
    "a length behind chunks": (CHUNKED + CHUNKS[:-2] + SIZED + b"\r\n\r\n", "Content-Length"),
    "a loose trailer": (CHUNKED + CHUNKS[:-2] + b"A b\r\n\r\n", "invalid header token"),
}
STATUSES = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}


def of(said: bytes, status: int) -> bytes:
    return said.replace(b"STATUS", f"{status} {STATUSES[status]}".encode())


def hear(*pieces: bytes, to_head: bool) -> tuple[Wire, Ends, DeafTransport]:
    wire, transport = wired()
    ends = Ends()
    wire.send(ends, b"request", to_head)  # type: ignore[arg-type]
    for piece in pieces:
        if not transport.closing:
            wire.data_received(piece)
    return wire, ends, transport


def cuts(said: bytes) -> list[list[bytes]]:
    """Whole, in two pieces cut anywhere, and byte by byte."""
    pairs = [[said[:at], said[at:]] for at in range(1, len(said))]
    return [[said], *pairs, [said[at : at + 1] for at in range(len(said))]]


@pytest.mark.parametrize("to_head", [False, True])
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("how", LOOSE)
def test_a_status_that_was_understood_is_the_outcome_wherever_the_answer_is_cut(
    how: str, status: int, to_head: bool
) -> None:
    said, odd = LOOSE[how]
    for pieces in cuts(of(said, status)):
        wire, ends, transport = hear(*pieces, to_head=to_head)
        [(code, _, reusable)] = ends.noted
        assert code == status
        # What comes behind an answer to HEAD may come later, and ends the connection then.
        assert transport.closing or not reusable
        assert not wire.closes_first
        if not to_head:
            assert wire.received.odd.startswith(f"Loose HTTP: {odd}")


@pytest.mark.parametrize("how", LOOSE)
async def test_the_request_is_not_sent_again_and_the_connection_is_not_used_again(how: str) -> None:
    """Neither by its own account nor by another; what came is no answer to the next request."""
    said, odd = LOOSE[how]
    loose = [of(said, status) + answer(b"stolen", "418 Stolen") for status in STATUSES]
    scripts = [answering(answer(), each, answer()) for each in loose]
    async with firing_at(*scripts, answering(answer(), answer())) as (target, firer):
        for number, (status, text) in enumerate(STATUSES.items(), 1):
            assert (await fired(firer, invocation_of(target.url()))).brief == OK
            result = await fired(firer, invocation_of(target.url()))
            note = f"Loose HTTP: {odd}" if status == 200 else f"{text} (loose HTTP: {odd}"
            ended, code, message = result.brief
            assert (ended, code) == ("completed" if status == 200 else "failed", status)
            assert message.startswith(note) or "long" in how
            assert note.partition(" (")[2] in message
            assert len(message) <= MAX_MESSAGE_CHARACTERS
            await until(lambda number=number: target.ended == number)  # type: ignore[misc]
            assert firer.pool.idle_count == 0
        for account_id in ("acc_00_a", "acc_00_b"):
            assert (
                await fired(firer, invocation_of(target.url(), account_id=account_id))
            ).brief == OK
        assert len(target.requests) == 2 * len(STATUSES) + 2


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_what_else_a_loose_failure_says_is_kept(size: int) -> None:
    said = (
        b"HTTP/1.1 100 Continue\r\nRetry-After: 1\r\n\r\n"
        b"http/1.1 503 Caf\xc3\xa9\nRETRY-AFTER : 7\nContent-Type: text/plain\0\n"
        b"X: \0\nTransfer-Encoding: chunked\n\n2 \nno\n0\n\n"
    )
    wire, _ = wired()
    wire._keep_bytes = 100
    wire.send(ends := Ends(), b"request", False)  # type: ignore[arg-type]
    for at in range(0, len(said), size):
        if not ends.noted:
            wire.data_received(said[at : at + size])
    assert ends.noted == [(503, "Café", False)]
    assert wire.received.retry_after == "7"
    assert wire.received.kept == Answer("text/plain", b"no")


BODILESS = {
    "a length with 204": (204, with_headers(SIZED), True),
    "chunks with 204": (204, with_headers(IN_CHUNKS, body=CHUNKS), True),
    "a body behind 204": (204, with_headers(), True),
    "a length and no body with 204": (204, with_headers(SIZED, body=b""), True),
    "a body behind 304": (304, with_headers(SIZED), True),
    "a length with 304": (304, with_headers(SIZED, body=b""), False),
    "304": (304, with_headers(b"Content-Length: 0", body=b""), False),
}


@pytest.mark.parametrize("how", BODILESS)
def test_a_body_where_there_is_none_ends_the_connection(how: str) -> None:
    status, said, is_odd = BODILESS[how]
    said = said.replace(b"STATUS", b"%d X" % status)
    has_body = how != "304"
    for pieces in cuts(said):
        wire, ends, transport = hear(*pieces, to_head=False)
        [(code, _, reusable)] = ends.noted
        assert (code, reusable and not transport.closing) == (status, not has_body)
        if is_odd and (len(pieces) == 1 or (status == 204 and b":" in said)):
            assert wire.received.odd == f"Loose HTTP: a body in an answer of {status}"
        elif not is_odd:
            assert wire.received.odd == ""


OTHERS = "contradict each other"
DOUBTFUL = {
    "no status line": (b"SSH-2.0-OpenSSH_9\r\n", 'it begins with "SSH-2.0-OpenSSH_9", not with'),
    "control characters": (b"\x15\x03\0\x02\r\n", r'it begins with "\x15\x03\x00\x02", not'),
    "a long line": (b"x" * 50_000, f'it begins with "{"x" * 40}", not with a status line'),
    "another protocol": (with_headers(begin=b"ICY 200 OK"), 'it begins with "ICY 200 OK", not'),
    "garbage before it": (b"ok" + with_headers(SIZED), 'it begins with "okHTTP/1.1 200 OK", not'),
    "a blank before it": (b" " + with_headers(SIZED), 'it begins with " HTTP/1.1 200 OK", not'),
    "no status": (with_headers(begin=b"HTTP/1.1 OK"), 'it begins with "HTTP/1.1 OK", not'),
    "a short status": (with_headers(begin=b"HTTP/1.1 20 X"), 'it begins with "HTTP/1.1 20 X", not'),
    "a long status": (with_headers(begin=b"HTTP/1.1 2000 X"), 'it begins with "HTTP/1.1 2000 X"'),
    "a status below 100": (with_headers(SIZED, begin=b"HTTP/1.1 099 X"), "it begins with"),
    "two statuses": (with_headers(b"HTTP/1.1 500 Oh", SIZED), "it has two status lines"),
    "two statuses, one as a header": (with_headers(b"HTTP/1.1 500 Oh: 1"), "it has two status"),
    "two lengths": (with_headers(SIZED, b"Content-Length: 11"), f"its lengths 2 and 11 {OTHERS}"),
    "two listed lengths": (with_headers(b"Content-Length: 2, 3"), f"its lengths 2 and 3 {OTHERS}"),
    "two lengths and chunks": (
        with_headers(SIZED, IN_CHUNKS, b"Content-Length: 3", body=CHUNKS),
        f"its lengths 2 and 3 {OTHERS}",
    ),
}


@pytest.mark.parametrize("how", DOUBTFUL)
async def test_an_answer_whose_status_is_in_doubt_is_none_and_the_message_says_why(
    how: str,
) -> None:
    said, why = DOUBTFUL[how]
    said = of(said, 200)
    async with firing_at(answering(said)) as (target, firer):
        result = await fired(firer, invocation_of(target.url()))
        assert result.brief[:2] == ("failed", 0)
        assert result.outcome.error_message.startswith(f"Answer is not valid HTTP: {why}")
        assert len(result.outcome.error_message) <= MAX_MESSAGE_CHARACTERS
        assert len(target.requests) == 1
    for pieces in cuts(said[:200]):
        _, ends, transport = hear(*pieces, to_head=False)
        assert (ends.noted, transport.closing) == ([(Failure.NOT_HTTP, False)], True)


def test_the_head_of_a_loose_answer_has_the_same_caps() -> None:
    begun = b"HTTP/1.1 200 OK\nA: "
    fits = begun + b"b" * (MAX_HEAD_BYTES - len(begun) - 2) + b"\n\n"
    interim = b"HTTP/1.1 100 Continue\n\n"
    whole = b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"
    too_large = [(Failure.HEADERS_TOO_LARGE, False)]
    for size in (1500, 100_000):

        def heard(said: bytes, size: int = size) -> list[tuple[object, ...]]:
            pieces = [said[at : at + size] for at in range(0, len(said), size)]
            wire, ends, _ = hear(*pieces, to_head=False)
            if not ends.noted:
                wire.eof_received()
            return ends.noted

        assert heard(fits) == [(200, "OK", False)]
        assert heard(begun + b"b" + fits[len(begun) :]) == too_large
        assert heard(begun + b"b" * MAX_HEAD_BYTES) == too_large
        assert heard(interim * MAX_INTERIMS + whole) == [(200, "OK", False)]
        assert heard(interim * (MAX_INTERIMS + 1) + whole) == too_large


def are_heard(firer: Any) -> list[bool]:
    """Of each fire in flight, whether the head of its answer is there."""
    flying = [fire for queue in firer._deadlines._queues.values() for fire in queue]
    return [fire.wire is not None and fire.wire.received.headers_done for fire in flying]


CLOSED = "onnection closed before the answer was complete"
RESET = "onnection reset before the answer was complete"
BEGUN = {
    "a length": b"Content-Length: 9\r\n\r\nno",
    "chunks": b"Transfer-Encoding: chunked\r\n\r\n9\r",
}


@pytest.mark.parametrize("by_reset", [False, True])
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("framing", BEGUN)
async def test_a_connection_that_ends_in_mid_body_leaves_the_status(
    framing: str, status: int, by_reset: bool
) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.say(of(b"HTTP/1.1 STATUS\r\n", status) + BEGUN[framing])
        if by_reset:
            await heard.wait()
            line.reset()

    heard = asyncio.Event()
    async with firing_at(script) as (target, firer):
        firing = asyncio.ensure_future(fired(firer, invocation_of(target.url())))
        await until(lambda: any(are_heard(firer)) or firing.done())
        heard.set()
        result = await firing
        why = RESET if by_reset else CLOSED
        said = f"C{why}" if status == 200 else f"{STATUSES[status]} (c{why})"
        assert result.brief == ("completed" if status == 200 else "failed", status, said)
        assert (result.outcome.answer is not None) == (status != 200 and framing == "a length")
        assert len(target.requests) == 1


async def test_chunks_that_go_on_after_one_that_looked_like_the_last_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judge, judged = Wire._end_after_last_chunk, list[tuple[Wire, Received]]()
    monkeypatch.setattr(Wire, "_end_after_last_chunk", lambda *given: judged.append(given))
    monkeypatch.setattr("worker.send.wire._LAST_LINE_S", 0)

    async def script(line: Line) -> None:
        await line.request()
        await line.say(CHUNKED.replace(b"STATUS", b"200 OK") + b"0")
        await until(lambda: judged != [])
        await line.say(b"3\r\nabc")
        await until(lambda: judged[0][1].body_bytes >= len(b"03\r\nabc"))
        judge(*judged[0])
        await line.say(b"\r\n0\r\n\r\n")
        await line.until_closed()

    async with firing_at(script) as (target, firer):
        assert (await fired(firer, invocation_of(target.url()))).brief == OK
        assert firer.pool.idle_count == 1


ENDS = [b"0", b"0\r", b"0\r\n", b"0\r\n\r", b"000\r\n", b"0\n"]
STRICT = b"HTTP/1.1 STATUS\r\nContent-Length: 3\r\n\r\nok"
LATE = "Timeout after 0.1 seconds"
NOT_FOUND = "Not Found (loose HTTP: "
# What is said with a status, what comes of it, and how the message begins.
ENDLESS = {
    **{f"{end!r}": (CHUNKED + b"2\r\nok\r\n" + end, 200, 200, "Loose HTTP: ") for end in ENDS},
    "no size of a chunk": (with_headers(SIZED, IN_CHUNKS, body=b"abcde"), 404, 404, NOT_FOUND),
    "gzip last": (with_headers(b"Transfer-Encoding: chunked, gzip"), 404, 404, NOT_FOUND),
    "no length": (with_headers(b"A: b").replace(b"\r", b""), 404, 404, NOT_FOUND),
    "half a body in strict HTTP": (STRICT, 200, 0, LATE),
    "a chunk of zeros, which is not the last": (CHUNKED + b"1\r\n0\r\n", 200, 0, LATE),
}


@pytest.mark.parametrize("how", ENDLESS)
async def test_an_end_that_does_not_come_leaves_a_loose_answer_its_status(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And that of a last chunk is not waited for. In strict HTTP there was no answer."""
    monkeypatch.setattr("worker.send.wire._LAST_LINE_S", 0.01)
    said, status, code, message = ENDLESS[how]
    limit_ms = 60_000 if code == 200 else 100
    async with firing_at(answering(of(said, status)), limit_ms=limit_ms) as (target, firer):
        result = await fired(firer, invocation_of(target.url()))
        assert result.brief[:2] == ("completed" if code == 200 else "failed", code)
        assert result.outcome.error_message.startswith(message)
        assert code == 200 or result.outcome.response_time_ms == limit_ms
        await until(lambda: target.ended == 1)


@pytest.mark.parametrize("is_callback", [False, True])
@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("how", ["both", "a length twice", "bare LF", "a huge chunk"])
async def test_schedules_and_callbacks_are_tried_again_as_their_status_says(
    scene: Scene, how: str, status: int, is_callback: bool
) -> None:
    async with playing(answering_then_closing(of(LOOSE[how][0], status))) as target:
        given = scene.hand_out(url=target.url(), method="POST", body=b"{}", retries=3)
        given.is_callback = is_callback
        acks = scene.claims.called_back if is_callback else scene.claims.acked
        await scene.run_until(lambda: acks != [])
    [ack] = acks
    assert ack.outcome.status_code == status
    assert (ack.next_attempt_at_ms is not None) == (status == 503)
    assert len(target.requests) == 1
