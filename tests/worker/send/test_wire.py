"""The wire against targets that play every corner of HTTP/1.1."""

from __future__ import annotations

import ssl

import msgspec
import pytest
import trustme

from scheduler.models import Delivery, Invocation, Outcome, Status
from tests.worker.scripted import (
    Line,
    answer,
    answering,
    answering_then_closing,
    dying,
    silent,
    until,
)
from tests.worker.send.firing import OK, fired, firing_at, invocation_of, server_context
from worker.send.fire import Fire


def head(status: str, *lines: str) -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


CHUNKED = head("200 OK", "Transfer-Encoding: chunked") + b"2\r\nok\r\n0\r\n\r\n"
INTERIMS = head("100 Continue") + head("103 Early Hints", "Link: </a>")
UPGRADE = head("101 Switching Protocols", "Upgrade: x", "Connection: upgrade")
SWITCHED = ("failed", 101, "Switching Protocols")
STRAY = "Loose HTTP: a body in an answer to HEAD"
IN_UTF_8 = "500 \u65e0\u202e".encode().decode("latin-1")
OLD = b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n"
# One exchange: answer, method, outcome, and whether the connection is kept for the next.
CORNERS = {
    "with a length": (answer(), "POST", OK, True),
    "chunked": (CHUNKED, "POST", OK, True),
    "204": (head("204 No Content"), "POST", ("completed", 204, ""), True),
    "304": (head("304 As Before"), "GET", ("failed", 304, "As Before"), True),
    "304 with a length": (head("304 X", "Content-Length: 9"), "GET", ("failed", 304, "X"), False),
    "HEAD with a length": (head("200 OK", "Content-Length: 900"), "HEAD", OK, True),
    "HEAD with a body after all": (answer(), "HEAD", ("completed", 200, STRAY), False),
    "HEAD with chunks after all": (CHUNKED, "HEAD", ("completed", 200, STRAY), False),
    "1xx first": (INTERIMS + answer(), "POST", OK, True),
    "101": (UPGRADE + b"bytes", "POST", SWITCHED, False),
    "101 without Upgrade": (head("101 Switching Protocols"), "POST", SWITCHED, False),
    "Connection: close": (answer(b"ok", "200 OK", "Connection: close"), "POST", OK, False),
    "HTTP/1.0": (OLD + b"\r\nok", "POST", OK, False),
    "HTTP/1.0 kept": (OLD + b"Connection: keep-alive\r\n\r\nok", "POST", OK, True),
    "a second answer": (answer() + answer(), "POST", OK, False),
    "garbage after the end": (answer() + b"\0\0", "POST", OK, False),
    "no reason phrase": (answer(b"", "503"), "POST", ("failed", 503, "Service Unavailable"), True),
    "own reason phrase": (answer(b"", "500 Caf\xe9"), "POST", ("failed", 500, "Caf\xe9"), True),
    "a reason in UTF-8": (answer(b"", IN_UTF_8), "POST", ("failed", 500, "\u65e0\\u202e"), True),
    "many headers": (head("200 OK", "Content-Length: 0", *["X: x"] * 5000), "POST", OK, True),
    "blank lines first": (b"\r\n\n" + answer(), "POST", OK, True),
}


@pytest.mark.parametrize("corner", CORNERS)
async def test_an_answer_is_understood(corner: str) -> None:
    said, method, expected, kept = CORNERS[corner]
    body = b"{}" if method == "POST" else None
    async with firing_at(answering(said)) as (target, firer):
        result = await fired(firer, invocation_of(target.url(), method, body))
        assert result.brief == expected
        assert result.sent_at_s > 0
        assert firer.pool.idle_count == kept


@pytest.mark.parametrize("corner", [corner for corner in CORNERS if CORNERS[corner][3]])
async def test_what_an_answer_means_does_not_depend_on_those_before_it(
    corner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same again, and then any other: the first answer's meaning is not taken for the next.
    Each is an account's, with a connection of its own."""
    monkeypatch.setattr("worker.send.pool.IDLE_LIMIT_S", 1000.0)
    before = CORNERS[corner]
    scripts = [answering(before[0], before[0], then[0]) for then in CORNERS.values()]
    async with firing_at(*scripts) as (target, firer):
        for number, then in enumerate(CORNERS.values(), 1):
            others = firer.pool.idle_count
            for _, method, expected, kept in (before, before, then):
                body = b"{}" if method == "POST" else None
                account = {"account_id": f"acc_00_{number}"}
                result = await fired(firer, invocation_of(target.url(), method, body, **account))
                assert result.brief == expected
                assert firer.pool.idle_count == others + kept
            assert target.accepted == number


async def resetting(line: Line) -> None:
    await line.request()
    line.reset()


MIDWAY = "Connection closed before the answer was complete"
TOO_LARGE = "Answer headers are too large"
BROKEN = {
    "closed at once": (b"", "Connection closed before an answer"),
    "reset at once": (None, "Connection reset"),
    "closed in the head": (b"HTTP/1.1 20", MIDWAY),
    "a huge header": (head("200 OK", "X: " + "x" * 70_000), TOO_LARGE),
    "a header without an end": (head("200 OK", "X: " + "x" * 700_000)[:-4], TOO_LARGE),
    "1xx without an end": (head("100 Continue") * 20_000, TOO_LARGE),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_broken_answer_says_what_is_wrong_with_it(how: str) -> None:
    said, message = BROKEN[how]
    script = resetting if said is None else answering_then_closing(said)
    async with firing_at(script) as (target, firer):
        result = await fired(firer, invocation_of(target.url()))
        assert result.brief == ("failed", 0, message)
        assert result.invocation.attempt == 1
        assert len(target.requests) == 1


@pytest.mark.parametrize("head", [b"Content-Length: 10000000", b"X-None: 1"])
async def test_over_the_body_cap_the_status_decides_and_the_connection_goes(head: bytes) -> None:
    async def script(line: Line) -> None:
        await line.request()
        await line.say(b"HTTP/1.1 201 Created\r\n" + head + b"\r\n\r\n")
        piece = b"1000\r\n" + b"x" * 4096 + b"\r\n"
        while True:
            await line.say(piece)

    async with firing_at(script) as (target, firer):
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

    async with firing_at(chatty, answering(answer())) as (target, firer):
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
        connect = firer._get_wire

        def connect_and_note(fire: Fire) -> None:
            done.append(("connects", fire.invocation.attempt))
            connect(fire)

        monkeypatch.setattr(firer, "_get_wire", connect_and_note)
        await fired(firer, invocation_of(target.url()))
        second = await fired(firer, invocation_of(target.url()))
        assert (second.brief, second.invocation.attempt) == (OK, 2)
    assert [b"Postdate-Attempt: 2" in each for each in target.requests] == [False, False, True]
    assert done == [("connects", 1), ("told", 2), ("connects", 2)]


async def test_a_request_is_sent_again_only_once() -> None:
    async with firing_at(dying, answering_then_closing(b"")) as (target, firer):
        await fired(firer, invocation_of(target.url()))
        second = await fired(firer, invocation_of(target.url()))
        assert second.brief == ("failed", 0, "Connection closed before an answer")
        assert (second.invocation.attempt, len(target.requests)) == (2, 3)


async def test_a_kept_connection_that_dies_in_mid_answer_is_a_failure() -> None:
    script = answering_then_closing(answer(), b"HTTP/1.1 200")
    async with firing_at(script) as (target, firer):
        await fired(firer, invocation_of(target.url()))
        second = await fired(firer, invocation_of(target.url()))
        assert second.brief == ("failed", 0, MIDWAY)
        assert (second.invocation.attempt, target.accepted) == (1, 1)


async def test_at_most_once_uses_fresh_connections_only() -> None:
    async with firing_at(dying) as (target, firer):
        await fired(firer, invocation_of(target.url()))
        for _ in range(2):
            once = invocation_of(target.url(), delivery=Delivery.AT_MOST_ONCE)
            assert (await fired(firer, once)).brief == OK
        assert (target.accepted, firer.pool.idle_count) == (3, 1)


async def test_a_target_that_never_answers_times_out_at_the_limit() -> None:
    async with firing_at(silent, limit_ms=150) as (target, firer):
        result = await fired(firer, invocation_of(target.url()))
        timeout = Outcome(Status.FAILED, 0, 150, "Timeout after 0.15 seconds")
        assert msgspec.structs.replace(result.outcome, phases=None) == timeout
        assert result.sent_at_s > 0
        await until(lambda: target.ended == 1)


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
