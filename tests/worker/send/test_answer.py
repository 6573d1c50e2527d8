"""Heads of answers, weighed; and the kept part of a failed one: little, whatever the target sends;
of others, nothing."""

from __future__ import annotations

import gzip
import zlib

import pytest

from scheduler.models import Answer, Status
from tests.worker.scripted import answer, answering
from tests.worker.send.firing import fired, firing_at, invocation_of
from worker.send.answer import (
    MAX_HEAD_BYTES,
    NOTHING,
    Head,
    _unzipped,
    answer_of,
    retry_after,
    weigh,
)

INTERIM = b"\r\nHTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\n"
KEPT = 1024
CUT = b"x" + "é".encode() * KEPT  # a character is at the bound


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data, wbits=-zlib.MAX_WBITS)


RAW = raw_deflate(b"why")
MEMBERS = gzip.compress(b"some\n") + gzip.compress(b"more\n")
HOSTILE = b"\x00\x1b[31m\x9b<script>\xff\r\n"


def chunked(*pieces: bytes) -> bytes:
    framed = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces)
    return b"Transfer-Encoding: chunked\r\n\r\n" + framed + b"0\r\nContent-Type: late\r\n\r\n"


def sized(body: bytes, *lines: bytes) -> bytes:
    return b"\r\n".join((*lines, b"Content-Length: %d" % len(body), b"", body))


GZIP, DEFLATE = b"Content-Encoding: gzip", b"Content-Encoding: deflate"
SECOND = b"HTTP/1.1 200 OK\r\n"
KEEPING = {
    "small": (sized(b"no", b"content-TYPE: text/plain"), Answer("text/plain", b"no")),
    "hostile": (sized(HOSTILE, b"Content-Type: a\x9bb"), Answer("ab", HOSTILE)),
    "huge": (sized(b"x" * 50_000), Answer("", b"x" * KEPT)),
    "cut": (sized(CUT), Answer("", CUT[: KEPT - 1])),
    "cut zip": (sized(zlib.compress(CUT), DEFLATE), Answer("", CUT[: KEPT - 1])),
    "chunks": (chunked(b"some", b"thing"), Answer("", b"something")),
    "bomb": (sized(gzip.compress(b"y" * 10**7), GZIP), Answer("", b"y" * KEPT)),
    "deflate": (sized(zlib.compress(b"why"), DEFLATE), Answer("", b"why")),
    "no gzip": (sized(b"not zipped", GZIP), Answer("", b"not zipped")),
    "no deflate": (sized(b"bad request", DEFLATE), Answer("", b"bad request")),
    "raw deflate": (sized(RAW, DEFLATE), Answer("", b"why")),
    "more than raw deflate": (sized(RAW + b"more", DEFLATE), Answer("", RAW + b"more")),
    "raw deflate, cut": (sized(raw_deflate(CUT), DEFLATE), Answer("", CUT[: KEPT - 1])),
    "raw deflate is no gzip": (sized(RAW, GZIP), Answer("", RAW)),
    "members": (sized(MEMBERS, GZIP), Answer("", b"some\nmore\n")),
    "members and more": (
        sized(MEMBERS + b"\0\0", b"Content-Encoding: x-gzip"),
        Answer("", b"some\nmore\n"),
    ),
    "a cut member": (sized(MEMBERS[:-8], GZIP), Answer("", b"some\nmore\n")),
    "many members": (sized(gzip.compress(b"z") * 3000, GZIP), Answer("", b"z" * 64)),
    "two": (sized(b"") + SECOND + sized(b"smuggled"), None),
    "open": (b"\r\nuntil it closes", Answer("", b"until it closes")),
}


@pytest.mark.parametrize("how", KEEPING)
def test_what_is_kept(how: str) -> None:
    rest, kept = KEEPING[how]
    assert answer_of(b"HTTP/1.1 500 Oh\r\n" + rest, 0, KEPT) == kept


@pytest.mark.parametrize("before", [0, 1, KEPT])
def test_no_more_is_made_of_a_bomb_than_may_be_kept_whatever_stands_before_it(before: int) -> None:
    zipped = gzip.compress(b"y" * before) + gzip.compress(b"z" * 10**6)
    assert len(_unzipped(zipped, b"gzip", KEPT)) == KEPT


NO = answer(b"no", "400 Bad")
LONG_NO = b"HTTP/1.1 500 Oh\r\n" + chunked(*[b"z" * 1000] * 20)


async def test_each_failure_has_its_own_however_often_it_is_the_same() -> None:
    said = [NO, NO, answer(b"ok"), answer(b"ok"), LONG_NO, NO, answer(b"", "400 Bad")]
    bodies = [b"no", b"no", None, None, b"z" * KEPT, b"no", None]
    async with firing_at(answering(*said)) as (target, firer):
        for body in bodies:
            kept = (await fired(firer, invocation_of(target.url()))).outcome.answer
            assert (kept and kept.body) == body
        assert target.accepted == 1


@pytest.mark.parametrize(("keep_bytes", "kept"), [(0, None), (1, Answer("", b"n"))])
async def test_so_much_is_kept_as_is_set(keep_bytes: int, kept: Answer | None) -> None:
    async with firing_at(answering(NO), keep_answer_bytes=keep_bytes) as (target, firer):
        assert (await fired(firer, invocation_of(target.url()))).outcome.answer == kept


async def test_of_an_answer_to_head_nothing_is_kept_whatever_comes_behind_it() -> None:
    alone = b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\n"
    async with firing_at(answering(alone, NO), answering(NO)) as (target, firer):
        for accepted in (1, 1, 2):  # with a body behind it, the start of the next answer is unknown
            asked = invocation_of(target.url(), "HEAD", None)
            outcome = (await fired(firer, asked)).outcome
            assert (outcome.status is Status.FAILED, outcome.answer) == (True, None)
            assert target.accepted == accepted


def test_the_answer_that_connections_share_before_one_comes_cannot_change() -> None:
    for name in NOTHING.__struct_fields__:
        with pytest.raises(AttributeError):
            setattr(NOTHING, name, None)


@pytest.mark.parametrize(
    ("headers", "how"),
    [
        (b"", ""),
        (b"A: b\r\ncontent-LENGTH : 2\r\n", "framed"),
        (b"transfer-encoding: gzip, Chunked \r\n", "framed chunked"),
        (b"Transfer-Encoding:chunked\r\n", "framed chunked"),
        (b"Transfer-Encoding: gzip\r\n", "coded"),
        (b"Transfer-Encoding: xchunked\r\n", "coded"),
        (b"Transfer-Encoding: Identity \r\n", ""),
        (b"X: Content-Length: 2\r\n", ""),
    ],
)
@pytest.mark.parametrize("interims", [0, 2])
def test_a_head_says_whether_it_says_where_the_answer_ends(
    headers: bytes, how: str, interims: int
) -> None:
    head = INTERIM * interims + b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n"
    body = b"\r\nContent-Length: 2\r\n\r\n"
    expected = Head(len(head), False, "framed" in how, "chunked" in how, how == "coded")
    assert weigh(bytearray(head + body), interims) == expected


@pytest.mark.parametrize(("more", "too_large"), [(0, False), (1, True)])
def test_the_cap(more: int, too_large: bool) -> None:
    start = b"HTTP/1.1 200 OK\r\nA: "
    long = start + b"b" * (MAX_HEAD_BYTES + more - len(start) - 4) + b"\r\n\r\n"
    assert weigh(bytearray(long), 0).too_large is too_large


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (b"", ""),
        (b"A: b\r\nretry-AFTER :  120 \t\r\n", "120"),
        (b"Retry-After: Fri, 20 Nov 2026 08:00:30 GMT\r\n", "Fri, 20 Nov 2026 08:00:30 GMT"),
        (b"Retry-After: 1\r\nRetry-After: 2\r\n", "1"),
        (b"X: Retry-After: 2\r\n", ""),
        (b"Retry-After: " + b"1" * 65 + b"\r\n", ""),
        (b"Retry-After: \xff\r\n", "ÿ"),
    ],
)
@pytest.mark.parametrize("interims", [0, 2])
def test_a_head_says_when_to_come_back(headers: bytes, expected: str, interims: int) -> None:
    early = INTERIM.replace(b"\r\n\r\n", b"\r\nRetry-After: 9\r\n\r\n")
    head = early * interims + b"HTTP/1.1 503 No\r\n" + headers + b"\r\n"
    body = b"\r\nRetry-After: 3\r\n\r\n"
    assert retry_after(head + body, interims) == expected
    assert retry_after(bytearray(head + body), interims) == expected
