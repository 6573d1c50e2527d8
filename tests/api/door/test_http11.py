"""Bytes on a connection to a real process, the answers, and whether the connection stays."""

from __future__ import annotations

import json
import re
import socket
from contextlib import closing
from typing import NamedTuple

import pytest

from api.limits import MAX_PIPELINED, MAX_TARGET_BYTES
from tests.api.conftest import payload
from tests.api.process import ApiProcess, chunk, head

GET = b"GET /healthz HTTP/1.1\r\n"
HOST = b"Host: a\r\n"
ASK = GET + HOST + b"\r\n"
END = b"0\r\n\r\n"


def get(*lines: bytes) -> bytes:
    return GET + HOST + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def hosts(*values: bytes) -> bytes:
    return GET + b"".join(b"Host: " + value + b"\r\n" for value in values) + b"\r\n"


def target(text: bytes, method: bytes = b"GET", version: bytes = b"HTTP/1.1") -> bytes:
    return method + b" " + text + b" " + version + b"\r\n" + HOST + b"\r\n"


def post(*lines: bytes, version: bytes = b"1.1") -> bytes:
    """Without a key, so that a request that is let through is a 401."""
    every = b"".join(line + b"\r\n" for line in lines)
    return b"POST /schedule HTTP/" + version + b"\r\n" + HOST + every + b"\r\n"


def coded(*codings: bytes) -> bytes:
    return post(*(b"Transfer-Encoding: " + coding for coding in codings)) + END


def chunks(body: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked") + body


def sized(*lengths: bytes) -> bytes:
    return post(*(b"Content-Length: " + length for length in lengths)) + b"{}"


def trailer(line: bytes) -> bytes:
    return chunks(b"2\r\n{}\r\n0\r\n" + line + b"\r\n\r\n")


class Case(NamedTuple):
    data: bytes
    statuses: list[int]
    goes_on: bool


def served(data: bytes, *statuses: int) -> Case:
    return Case(data, [*statuses], True)


def refused(data: bytes, *statuses: int) -> Case:
    return Case(data, [*statuses], False)


UPGRADE = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk")

CASES = {
    # Host
    "two hosts": refused(hosts(b"a", b"b"), 400),
    "no host": refused(GET + b"\r\n", 400),
    "no host in 1.0": refused(b"GET /healthz HTTP/1.0\r\n\r\n", 200),
    "empty host": served(hosts(b""), 200),
    "host with a user": refused(hosts(b"a@b"), 400),
    "host of two": refused(hosts(b"a,b"), 400),
    "host with a space": refused(hosts(b"a b"), 400),
    "host with two ports": refused(hosts(b"a:1:2"), 400),
    "host with a port": served(hosts(b"a:80"), 200),
    # Versions
    "HTTP/0.9": refused(b"GET /healthz\r\n\r\n", 400),
    "HTTP/0.9 behind HTTP/1.1": refused(ASK + b"GET /healthz\r\n\r\n", 200, 400),
    "HTTP/2.0": refused(target(b"/healthz", version=b"HTTP/2.0"), 400),
    "TLS": refused(b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", 400),
    # Targets
    "URL": served(target(b"http://a/healthz"), 200),
    "URL without a host line in 1.0": refused(b"GET http://a/healthz HTTP/1.0\r\n\r\n", 200),
    "URL of another host": refused(target(b"http://b/healthz"), 400),
    "URL of another port": refused(target(b"http://a:81/healthz"), 400),
    "URL with a user": refused(target(b"http://u@a/healthz"), 400),
    "CONNECT": refused(target(b"a:80", b"CONNECT"), 400),
    "OPTIONS *": served(target(b"*", b"OPTIONS"), 204),
    "fragment": refused(target(b"/healthz#a"), 400),
    "no slash": refused(target(b"healthz"), 400),
    "space in a target": refused(target(b"/a b"), 400),
    "byte beyond ASCII in a target": refused(target(b"/\xff"), 400),
    "a target as long as can be": served(target(b"/" + b"x" * (MAX_TARGET_BYTES - 1)), 404),
    "a longer target": refused(target(b"/" + b"x" * MAX_TARGET_BYTES), 414),
    # Methods
    "unknown method": served(target(b"/healthz", b"FETCH"), 501),
    "unknown method before another request": served(target(b"/healthz", b"FETCH") + ASK, 501, 200),
    "unknown method behind another request": refused(ASK + target(b"/healthz", b"FETCH"), 200, 400),
    "unknown method with a body": served(
        post(b"Content-Length: 2").replace(b"POST", b"FETCH") + b"{}" + ASK, 501, 200
    ),
    "method in small letters": served(target(b"/healthz", b"get"), 501),
    "method that no path has": served(target(b"/healthz", b"PROPFIND"), 501),
    "unknown method, bad head": refused(b"FETCH /healthz HTTP/1.1\r\nX : a\r\n\r\n", 400),
    "no method": refused(b" /healthz HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    # Paths
    "health with a query": served(target(b"/healthz?x=1"), 200),
    "two slashes": served(target(b"//healthz"), 404),
    "slash at the end": served(target(b"/healthz/"), 404),
    "slash in an escape": served(target(b"/schema%2Fopenapi.json"), 404),
    "letter in an escape": served(target(b"/health%7a"), 200),
    # Lines
    "folded line": refused(get(b"X: a\r\n b"), 400),
    "folded coding": refused(post(b"Transfer-Encoding:\r\n chunked") + END, 400),
    "bare LF": refused(ASK.replace(b"\r", b""), 400),
    "space before a colon": refused(get(b"X : a"), 400),
    "no colon": refused(get(b"X"), 400),
    "NUL in a value": refused(get(b"X: a\0b"), 400),
    "byte beyond ASCII in a value": served(get(b"X: a\xe9b"), 200),
    "empty lines before a request": served(b"\r\n\r\n" + ASK, 200),
    # Length and coding
    "coding of gzip and chunked": refused(coded(b"gzip, chunked"), 501),
    "coding of chunked and chunked": refused(coded(b"chunked, chunked"), 400),
    "coding of chunked, then gzip": refused(coded(b"chunked", b"gzip"), 400),
    "coding behind a control character": refused(coded(b"\x0bchunked"), 400),
    "chunked in 1.0": refused(post(b"Transfer-Encoding: chunked", version=b"1.0") + END, 400),
    "length and coding": refused(
        post(b"Content-Length: 5", b"Transfer-Encoding: chunked") + END, 400
    ),
    "two lengths": refused(sized(b"2", b"3"), 400),
    "a list of lengths": refused(sized(b"2, 2"), 400),
    "length with a sign": refused(sized(b"+2"), 400),
    "length beyond 64 bits": refused(sized(b"18446744073709551616"), 400),
    # Chunks
    "chunk with an extension": served(chunks(b"2;a=b\r\n{}\r\n" + END), 401),
    "extension with a bare LF": refused(chunks(b"2;a\nb\r\n{}\r\n" + END), 400),
    "chunk size beyond 64 bits": refused(chunks(b"10000000000000000\r\n{}"), 400),
    "chunk size with 0x": refused(chunks(b"0x2\r\n{}\r\n" + END), 400),
    "chunk that is too long": refused(chunks(b"2\r\n{}}\r\n" + END), 400),
    "chunks with bare LF": refused(chunks(b"2\n{}\n0\n\n"), 400),
    # Trailers
    "trailer": served(trailer(b"X: a"), 401),
    "trailer with a length": refused(trailer(b"Content-Length: 5"), 400),
    "trailer that closes": refused(trailer(b"Connection: close"), 400),
    "trailer that upgrades": refused(trailer(b"Proxy-Connection: upgrade\r\nUpgrade: a"), 400),
    # Expectations and offers that are not met
    "Expect of something else": served(post(b"Expect: a", b"Content-Length: 2") + b"{}", 401),
    "Upgrade with a body": served(post(*UPGRADE, b"Content-Length: 2") + b"{}" + ASK, 401, 200),
    "Upgrade with a request for a body": served(
        post(*UPGRADE, b"Content-Length: %d" % len(ASK)) + ASK, 401
    ),
    "Upgrade with chunks": served(
        post(*UPGRADE, b"Transfer-Encoding: chunked") + chunk(ASK) + b"0\r\nX: a\r\n\r\n" + ASK,
        401,
        200,
    ),
    # One behind the other
    "body of a GET": served(get(b"Content-Length: 2") + b"{}" + ASK, 200, 200),
    "behind one that closes": refused(get(b"Connection: close") + ASK, 200),
    "behind HTTP/1.0": refused(b"GET /healthz HTTP/1.0\r\n\r\n" + ASK, 200),
    "nonsense behind a request": refused(ASK + b"nonsense\r\n\r\n", 200, 400),
    "a long head behind requests": refused(ASK * 2 + get(b"X: " + b"a" * 60_000), 200, 200, 431),
    "as many as may wait": refused(
        ASK * MAX_PIPELINED + get(b"Connection: close"), *[200] * (MAX_PIPELINED + 1)
    ),
    "more than may wait": refused(ASK * 100, *[200] * (MAX_PIPELINED + 1), 429),
}


def all_of(connection: socket.socket) -> bytes:
    """All that is said until the other side closes."""
    data = b""
    while piece := connection.recv(65_536):
        data += piece
    return data


def statuses(answers: bytes) -> list[int]:
    return [int(each) for each in re.findall(rb"HTTP/1\.1 ([2-5]\d\d) ", answers)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_bytes_are_answered(server: ApiProcess, case: Case) -> None:
    expected = case.statuses
    with closing(server.connect()) as connection:
        connection.sendall(case.data)
        if case.goes_on:
            connection.sendall(get(b"Connection: close"))
            expected = [*expected, 200]
        said = all_of(connection)
    assert statuses(said) == expected
    if not case.goes_on and expected[-1] >= 400:
        assert b"connection: close" in said
        assert json.loads(said.rpartition(b"\r\n\r\n")[2])["error"]


def test_trailers_are_no_headers(server: ApiProcess, key: str) -> None:
    """A proxy that judges headers does not see them."""
    text = json.dumps(payload()).encode()
    body = chunk(text) + b"0\r\nx-api-key: %b\r\nIdempotency-Key: a\r\n\r\n" % key.encode()
    keyed = head(key, "Transfer-Encoding: chunked", "Connection: close") + body
    with closing(server.connect()) as connection:
        connection.sendall(post(b"Transfer-Encoding: chunked", b"Connection: close") + body)
        assert b'{"error":"Missing API key","reason":"unauthorized"' in all_of(connection)
    created = []
    for _ in range(2):
        with closing(server.connect()) as connection:
            connection.sendall(keyed)
            created += re.findall(rb"sch_\w+", all_of(connection))
    assert len({*created}) == 2
