"""The wire against targets that play every corner of HTTP/1.1."""

from __future__ import annotations

import asyncio
import ssl

import msgspec
import pytest
import trustme

from scheduler.models import Delivery, Invocation, Outcome, Status
from tests.worker.firing import (
    OK,
    all_fired,
    fired,
    firer_for_tests,
    firing_at,
    invocation_of,
    server_context,
)
from tests.worker.scripted import (
    Line,
    answer,
    answering,
    answering_then_closing,
    dying,
    playing,
    silent,
    until,
)
from worker.fire import Fire

# One exchange: answer, method, outcome, and whether the connection is kept for the next.
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
CORNERS = {
    "with a length": (answer(), "POST", OK, True),
    "chunked": (CHUNKED, "POST", OK, True),
    "chunked with trailers": (CHUNKED[:-2] + b"Sum: 1\r\n\r\n", "POST", OK, True),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", "POST", ("completed", 204, ""), True),
    "304 with a length": (
        b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
        "GET",
        ("failed", 304, "Not Modified"),
        True,
    ),
    "HEAD with a length": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n",
        "HEAD",
        OK,
        True,
    ),
    "HEAD with a body after all": (answer(), "HEAD", OK, False),
    "1xx first": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + answer(),
        "POST",
        OK,
        True,
    ),
    "101": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbytes",
        "POST",
        ("failed", 101, "Switching Protocols"),
        False,
    ),
    "101 without Upgrade": (
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        "POST",
        ("failed", 101, "Switching Protocols"),
        False,
    ),
    "Connection: close": (answer(b"ok", "200 OK", "Connection: close"), "POST", OK, False),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "POST", OK, False),
    "HTTP/1.0 kept": (
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        "POST",
        OK,
        True,
    ),
    "bytes after the end": (answer() + b"HTTP", "POST", OK, False),
    "a second answer": (answer() + answer(), "POST", OK, False),
    "garbage after the end": (answer() + b"\0\0", "POST", OK, False),
    "a redirect": (
        answer(b"", "302 Found", "Location: /elsewhere"),
        "POST",
        ("failed", 302, "Found"),
        True,
    ),
    "no reason phrase": (answer(b"", "503"), "POST", ("failed", 503, "Service Unavailable"), True),
    "own reason phrase": (answer(b"", "500 Caf\xe9"), "POST", ("failed", 500, "Caf\xe9"), True),
    "unknown status": (answer(b"", "599"), "POST", ("failed", 599, "HTTP 599"), True),
}


@pytest.mark.parametrize("corner", CORNERS)
async def test_an_answer_is_understood(corner: str) -> None:
    said, method, expected, kept = CORNERS[corner]
    body = b"{}" if method == "POST" else None
    async with playing(answering(said)) as target, firer_for_tests() as firer:
        result = await fired(firer, invocation_of(target.url(), method, body))
        assert result.brief == expected
        assert result.sent_at_s > 0
        assert firer.pool.idle_count == kept


@pytest.mark.parametrize("corner", [corner for corner in CORNERS if CORNERS[corner][3]])
async def test_what_an_answer_means_does_not_depend_on_those_before_it(corner: str) -> None:
    """The same again, and then any other: the first answer's meaning is not taken for the next."""
    before = CORNERS[corner]
    for then in CORNERS.values():
        said = (before[0], before[0], then[0])
        async with playing(answering(*said)) as target, firer_for_tests() as firer:
            for _, method, expected, kept in (before, before, then):
                body = b"{}" if method == "POST" else None
                result = await fired(firer, invocation_of(target.url(), method, body))
                assert result.brief == expected
                assert firer.pool.idle_count == kept
            assert target.accepted == 1


async def test_a_body_without_a_length_ends_with_the_connection() -> None:
    script = answering_then_closing(b"HTTP/1.1 200 OK\r\n\r\nsome body")
    async with firing_at(script) as (target, firer):
        assert (await fired(firer, invocation_of(target.url()))).brief == OK
        assert firer.pool.idle_count == 0


BROKEN = {
    "closed at once": (b"", "Connection closed before an answer"),
    "closed in the head": (b"HTTP/1.1 20", "Connection closed before the answer was complete"),
    "closed in the body": (answer()[:-1], "Connection closed before the answer was complete"),
    "closed in a chunk": (CHUNKED[:-3], "Connection closed before the answer was complete"),
    "not HTTP": (b"SSH-2.0-OpenSSH_9\r\n", "Answer is not valid HTTP"),
    "two lengths": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok",
        "Answer is not valid HTTP",
    ),
    "a huge header": (
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        "Answer headers are too large",
    ),
    "a header without an end": (
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 700_000,
        "Answer headers are too large",
    ),
    "many headers": (
        b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 300 + b"\r\n",
        "Answer headers are too large",
    ),
    "1xx without an end": (
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20_000,
        "Answer headers are too large",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_broken_answer_says_what_is_wrong_with_it(how: str) -> None:
    said, message = BROKEN[how]
    async with playing(answering_then_closing(said)) as target, firer_for_tests() as firer:
        result = await fired(firer, invocation_of(target.url()))
        assert result.brief == ("failed", 0, message)
        assert result.invocation.attempt == 1
        assert len(target.requests) == 1


@pytest.mark.parametrize("said", [b"", answer()[:-1]])
async def test_a_reset_is_called_one(said: bytes) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.say(said)
        await asyncio.sleep(0.01)  # an RST may overtake the answer, which then stays unread
        line.reset()

    async with firing_at(script) as (target, firer):
        result = await fired(firer, invocation_of(target.url()))
        assert result.brief == ("failed", 0, "Connection reset")


@pytest.mark.parametrize(
    "head", [b"Content-Length: 10000000", b"Transfer-Encoding: chunked", b"X-None: 1"]
)
async def test_over_the_body_cap_the_status_decides_and_the_connection_goes(head: bytes) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.say(b"HTTP/1.1 201 Created\r\n" + head + b"\r\n\r\n")
        piece = b"1000\r\n" + b"x" * 4096 + b"\r\n"
        while True:
            await line.say(piece)

    async with playing(script) as target, firer_for_tests() as firer:
        result = await fired(firer, invocation_of(target.url()))
        assert result.brief == ("completed", 201, "")
        await until(lambda: target.ended == 1)
        assert firer.pool.idle_count == 0


async def test_what_a_target_says_between_exchanges_ends_the_connection() -> None:
    async def chatty(line: Line) -> None:
        await line.request()
        await line.say(answer())
        await line.say(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        await line.until_closed()

    async with playing(chatty, answering(answer())) as target, firer_for_tests() as firer:
        assert (await fired(firer, invocation_of(target.url()))).brief == OK
        await until(lambda: firer.pool.idle_count == 0)
        second = await fired(firer, invocation_of(target.url()))
        assert (second.brief, second.invocation.attempt) == (OK, 1)


async def test_a_kept_connection_that_died_is_replaced_and_the_raised_attempt_told_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[str, int]] = []

    def told(invocation: Invocation) -> None:
        done.append(("told", invocation.attempt))

    async with firing_at(dying, answering(answer()), resent=told) as (target, firer):
        connect = firer.connect

        def connect_and_note(fire: Fire) -> None:
            done.append(("connects", fire.invocation.attempt))
            connect(fire)

        monkeypatch.setattr(firer, "connect", connect_and_note)
        await fired(firer, invocation_of(target.url()))
        second = await fired(firer, invocation_of(target.url()))
        assert (second.brief, second.invocation.attempt) == (OK, 2)
    assert [b"Postdate-Attempt: 2" in each for each in target.requests] == [False, False, True]
    assert done == [("connects", 1), ("told", 2), ("connects", 2)]


async def deaf(line: Line) -> None:
    """Hangs up on reading a request."""
    await line.request()


async def test_a_request_is_sent_again_only_once() -> None:
    async with firing_at(dying, deaf) as (target, firer):
        await fired(firer, invocation_of(target.url()))
        second = await fired(firer, invocation_of(target.url()))
        assert second.brief == ("failed", 0, "Connection closed before an answer")
        assert (second.invocation.attempt, len(target.requests)) == (2, 3)


async def test_a_kept_connection_that_dies_in_mid_answer_is_a_failure() -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.say(answer())
        await line.request()
        await line.say(b"HTTP/1.1 200")

    async with playing(script) as target, firer_for_tests() as firer:
        await fired(firer, invocation_of(target.url()))
        second = await fired(firer, invocation_of(target.url()))
        assert second.brief == ("failed", 0, "Connection closed before the answer was complete")
        assert (second.invocation.attempt, target.accepted) == (1, 1)


async def test_at_most_once_uses_fresh_connections_only() -> None:
    async with playing(dying) as target, firer_for_tests() as firer:
        await fired(firer, invocation_of(target.url()))
        for _ in range(2):
            once = invocation_of(target.url(), delivery=Delivery.AT_MOST_ONCE)
            assert (await fired(firer, once)).brief == OK
        assert (target.accepted, firer.pool.idle_count) == (3, 1)


async def test_at_most_once_is_never_sent_again() -> None:
    async with firing_at(deaf) as (target, firer):
        once = invocation_of(target.url(), delivery=Delivery.AT_MOST_ONCE)
        result = await fired(firer, once)
        assert result.brief == ("failed", 0, "Connection closed before an answer")
        assert (result.invocation.attempt, len(target.requests)) == (1, 1)


async def test_a_target_that_never_answers_times_out_at_the_limit() -> None:
    async with firing_at(silent, limit_ms=150) as (target, firer):
        result = await fired(firer, invocation_of(target.url()))
        timeout = Outcome(Status.FAILED, 0, 150, "Timeout after 0.15 seconds")
        assert msgspec.structs.replace(result.outcome, phases=None) == timeout
        assert result.sent_at_s > 0
        await until(lambda: target.ended == 1)


async def test_an_answer_that_drips_past_the_limit_times_out() -> None:
    async def drip(line: Line) -> None:
        await line.request()
        await line.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            await line.say(b"x")
            await asyncio.sleep(0.005)

    async with playing(drip) as target, firer_for_tests(limit_ms=150) as firer:
        result = await fired(firer, invocation_of(target.url()))
        assert result.brief == ("failed", 0, "Timeout after 0.15 seconds")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_large_body_arrives_whole(
    scheme: str, authority: trustme.CA, trusting: ssl.SSLContext
) -> None:
    tls = server_context(authority.issue_cert("127.0.0.1")) if scheme == "https" else None
    body = b'{"x":"' + b"y" * (1024 * 1024) + b'"}'
    script = answering(answer(), answer())
    async with firing_at(script, tls=tls, ssl_context=trusting) as (target, firer):
        for _ in range(2):
            result = await fired(firer, invocation_of(target.url(scheme=scheme), body=body))
            assert result.brief == OK
        assert all(request.endswith(b"\r\n\r\n" + body) for request in target.requests)
        assert target.accepted == 1


async def test_an_answer_before_the_request_was_whole_counts_but_the_connection_goes() -> None:
    async def hasty(line: Line) -> None:
        await line.reader.readuntil(b"\r\n\r\n")
        await line.say(answer(b"", "413 Content Too Large"))
        await asyncio.sleep(0.05)  # so that it is not the reset that arrives first
        await line.until_closed()

    body = b"x" * (32 * 1024 * 1024)
    async with playing(hasty) as target, firer_for_tests() as firer:
        result = await fired(firer, invocation_of(target.url(), body=body))
        assert result.brief == ("failed", 413, "Content Too Large")
        assert firer.pool.idle_count == 0


async def test_four_hundred_fires_at_once_reach_one_target() -> None:
    async with firing_at(answering(*[answer()] * 50)) as (target, firer):
        results = await all_fired(firer, [invocation_of(target.url()) for _ in range(400)])
        assert {result.brief for result in results} == {OK}
        assert len(target.requests) == 400
