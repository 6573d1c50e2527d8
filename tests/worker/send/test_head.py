"""Heads of answers, weighed."""

from __future__ import annotations

import pytest

from worker.send.answer import MAX_HEAD_BYTES, Head, retry_after, weigh

INTERIM = b"\r\nHTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\n"


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
