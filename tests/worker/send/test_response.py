"""The answer that a callback is to have: all of it, within bounds; of others nothing."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.callbacks import Callback, Response
from scheduler.models import Invocation, Outcome
from tests.worker.scripted import Line, answer, answering
from tests.worker.send.firing import fired, firing_at, invocation_of
from worker.send.answer import Received, response_of

MOST = 1024
ASKS = Callback("https://example.com/ended", with_response=True)
OK = b"HTTP/1.1 200 OK\r\n"
E = "é".encode()
CHUNKS = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
LINE = b"X: " + 8000 * b"x"


def asking(url: str, *rest: Any, callback: Callback = ASKS) -> Invocation:
    invocation = invocation_of(url, *rest)
    invocation.request = replace(invocation.request, callback=callback)
    return invocation


def sized(body: bytes, *lines: bytes) -> bytes:
    length = b"Content-Length: %d" % len(body)
    return OK + b"\r\n".join((*lines, length, b"", body))


def said(response: Response | None) -> tuple[dict[str, str], bytes, bool] | None:
    """Without the length, which each has."""
    if response is None:
        return None
    headers = {n: v for n, v in response.headers if n.lower() != "content-length"}
    return headers, response.body, response.cut


ANSWERS = {
    "small": (sized(b"yes", b"A: 1"), ({"A": "1"}, b"yes", False)),
    "empty": (sized(b""), ({}, b"", False)),
    "no content": (b"HTTP/1.1 204 No\r\nA: 1\r\n\r\n", ({"A": "1"}, b"", False)),
    "as much": (sized(MOST * b"x"), ({}, MOST * b"x", False)),
    "more": (sized(MOST * b"x" + b"y"), ({}, MOST * b"x", True)),
    "much more": (sized(60_000 * b"x"), ({}, MOST * b"x", True)),
    "cut in a character": (sized(b"x" + MOST * E), ({}, b"x" + 511 * E, True)),
    "chunks": (
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + CHUNKS,
        ({"Transfer-Encoding": "chunked"}, b"abcde", False),
    ),
    "gzip": (
        sized(gzip.compress(b"packed"), b"Content-Encoding: gzip"),
        ({"Content-Encoding": "gzip"}, b"packed", False),
    ),
    "bomb": (
        sized(gzip.compress(10**7 * b"x"), b"Content-Encoding: gzip"),
        ({"Content-Encoding": "gzip"}, MOST * b"x", True),
    ),
    "latin": (sized(b"\xff", b"A: \xe9"), ({"A": "é"}, b"\xff", False)),
    "long headers": (sized(b"a", LINE, LINE, LINE), ({"X": 8000 * "x"}, b"a", True)),
    "failed": (
        b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno",
        ({}, b"no", False),
    ),
}


async def outcome_of(firer: Any, asked: Invocation) -> Outcome:
    return (await fired(firer, asked)).outcome


@pytest.mark.parametrize("how", ANSWERS)
async def test_what_is_reported(how: str) -> None:
    """Once by itself, and once more where it is well known."""
    data, expected = ANSWERS[how]
    async with firing_at(answering(data, data), callback_body_bytes=MOST) as (target, firer):
        for _ in range(2):
            outcome = await outcome_of(firer, asking(target.url()))
            assert said(outcome.response) == expected
            assert outcome.status_code == int(data.split()[1])


async def test_headers_keep_their_order_and_their_repeats() -> None:
    data = sized(b"", b"Set-Cookie: a", b"B: 1", b"set-cookie: b")
    async with firing_at(answering(data)) as (target, firer):
        response = (await outcome_of(firer, asking(target.url()))).response
    assert response is not None
    names = ("Set-Cookie", "a"), ("B", "1"), ("set-cookie", "b"), ("Content-Length", "0")
    assert response.headers == names


async def test_others_have_none_beside_it_on_the_same_connection() -> None:
    """However well known an answer is, who asks for it gets it."""
    known = answer(b"known")
    async with firing_at(answering(*[known] * 5)) as (target, firer):
        for is_asked in (False, False, True, False, True):
            asked = asking(target.url()) if is_asked else invocation_of(target.url())
            response = (await outcome_of(firer, asked)).response
            assert (response.body if response else None) == (b"known" if is_asked else None)
        assert target.accepted == 1


@pytest.mark.parametrize("callback", [None, Callback("https://example.com/ended")])
async def test_who_does_not_ask_gets_none(callback: Callback | None) -> None:
    async with firing_at(answering(sized(b"yes"))) as (target, firer):
        asked = invocation_of(target.url())
        asked.request = replace(asked.request, callback=callback)
        assert (await outcome_of(firer, asked)).response is None


async def test_of_head_there_are_headers_only() -> None:
    data = OK + b"A: 1\r\nContent-Length: 5\r\n\r\n"
    async with firing_at(answering(data)) as (target, firer):
        outcome = await outcome_of(firer, asking(target.url(), "HEAD", None))
    assert said(outcome.response) == ({"A": "1"}, b"", False)


@pytest.mark.parametrize(
    ("most", "body", "is_cut"), [(0, b"", True), (1, b"y", True), (3, b"yes", False)]
)
async def test_so_much_is_reported_as_is_set(most: int, body: bytes, is_cut: bool) -> None:
    for data in (sized(b"yes"), sized(b"yes", LINE[:3000])):
        async with firing_at(answering(data), callback_body_bytes=most) as (target, firer):
            response = (await outcome_of(firer, asking(target.url()))).response
        assert response is not None
        assert (response.body, response.cut) == (body, is_cut)


async def test_what_ends_before_its_body_does_is_cut() -> None:
    async def breaks_off(line: Line) -> None:
        await line.request()
        await line.say(OK + b"Content-Length: 5\r\n\r\nyes")

    async with firing_at(breaks_off) as (target, firer):
        outcome = await outcome_of(firer, asking(target.url()))
    assert said(outcome.response) == ({}, b"yes", True)


async def test_without_an_answer_there_is_none() -> None:
    async def hangs_up(line: Line) -> None:
        await line.request()

    async with firing_at(hangs_up) as (target, firer):
        outcome = await outcome_of(firer, asking(target.url()))
    assert (outcome.status_code, outcome.response) == (0, None)


@pytest.mark.parametrize("data", [b"", b"\0" * 50, b"HTTP/1.1 200 OK\r\n\xff: \r\n: \r\n\r\n"])
def test_nothing_that_a_target_sends_is_an_error(data: bytes) -> None:
    assert isinstance(response_of(Received(), data, MOST), Response)
