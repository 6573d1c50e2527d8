"""A real API process: what HTTP itself can do to it, and how it ends."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.api.conftest import payload
from tests.api.process import ApiProcess, Reply, chunk, head
from tests.servers import ValkeyProcess


@pytest.fixture(scope="module")
def server(valkey_server: ValkeyProcess) -> Iterator[ApiProcess]:
    valkey_server.flush()
    process = ApiProcess(valkey_server.url)
    try:
        process.wait_until_ready()
        yield process
    finally:
        process.remove()


def body() -> bytes:
    return json.dumps(payload()).encode()


def test_a_body_in_chunks_is_one_body(server: ApiProcess, key: str) -> None:
    text = body()
    with closing(server.connect()) as connection:
        connection.sendall(head(key, "Transfer-Encoding: chunked"))
        for n in range(0, len(text), 7):
            connection.sendall(chunk(text[n : n + 7]))
        connection.sendall(b"0\r\n\r\n")
        assert Reply(connection).status == 201


def test_chunks_beyond_the_limit_are_413_before_they_end(server: ApiProcess, key: str) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(head(key, "Transfer-Encoding: chunked"))
        for _ in range(5):
            connection.sendall(chunk(b"x" * 60_000))
        reply = Reply(connection)  # the last chunk was never sent
    assert reply.status == 413
    assert reply.json == {"error": "The request body is larger than 262,144 bytes"}


def test_a_length_beyond_the_limit_is_413_before_the_body(server: ApiProcess, key: str) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(head(key, "Content-Length: 262145"))
        assert Reply(connection).status == 413


def test_a_client_that_waits_for_100_is_refused_without_it(server: ApiProcess, key: str) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(head(key, "Content-Length: 9999999", "Expect: 100-continue"))
        assert Reply(connection).status == 413


def test_a_client_that_waits_for_100_gets_it(server: ApiProcess, key: str) -> None:
    text = body()
    with closing(server.connect()) as connection:
        connection.sendall(head(key, f"Content-Length: {len(text)}", "Expect: 100-continue"))
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(text)
        assert Reply(connection).status == 201


def test_without_a_key_a_large_body_is_401(server: ApiProcess) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(b"POST /schedule HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n\r\n")
        reply = Reply(connection)
    assert reply.status == 401
    assert reply.json == {"error": "Missing API key"}


def test_a_connection_goes_on_after_an_error(server: ApiProcess, key: str) -> None:
    large, text = b"x" * 300_000, body()
    with closing(server.connect()) as connection:
        connection.sendall(head(key, f"Content-Length: {len(large)}") + large)
        assert Reply(connection).status == 413
        connection.sendall(head(key, "Content-Length: 1") + b"{")
        assert Reply(connection).status == 400
        connection.sendall(head(key, f"Content-Length: {len(text)}") + text)
        assert Reply(connection).status == 201


def test_pipelined_requests_are_answered_in_order(server: ApiProcess, key: str) -> None:
    text = body()
    create = head(key, f"Content-Length: {len(text)}") + text
    credits = head(key, request="GET /stats/remaining-credits")
    with closing(server.connect()) as connection:
        connection.sendall(create + credits + create + head(key, request="GET /healthz"))
        data = b""
        while b'{"status":"ok"}' not in data:
            data += connection.recv(65536)
    found = [data.index(text) for text in (b"sch_", b'{"creditsRemaining":9}', b"ok")]
    assert found == sorted(found)
    assert data.count(b"HTTP/1.1 201") == 2


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX Y: 1\r\n\r\n",
        b"POST /schedule HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /schedule HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT example.com:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_what_is_no_http_is_a_400_in_our_shape(server: ApiProcess, data: bytes) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(data)
        reply = Reply(connection, "GET")
    assert reply.status == 400
    assert reply.json["error"]
    assert [detail["field"] for detail in reply.json["details"]] == ["request"]


def test_an_upgrade_that_is_not_offered_is_passed_over(server: ApiProcess) -> None:
    with closing(server.connect()) as connection:
        lines = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        connection.sendall(f"GET /healthz HTTP/1.1\r\nHost: a\r\n{lines}\r\n".encode())
        assert Reply(connection, "GET").status == 200


def test_a_head_has_headers_and_no_body(server: ApiProcess) -> None:
    with closing(server.connect()) as connection:
        for path, status in (
            ("/healthz", 200),
            ("/schedule", 401),
            ("/schedule/batch", 405),
            ("/nothing", 404),
        ):
            connection.sendall(f"HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            reply = Reply(connection, "HEAD")
            assert reply.status == status
            assert reply.body == b""


def test_http_1_0_is_answered_and_closed(server: ApiProcess) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert Reply(connection, "GET").json == {"status": "ok"}
        assert connection.recv(1) == b""


def test_a_client_that_leaves_in_mid_body_costs_nothing(server: ApiProcess, key: str) -> None:
    text = body()
    with closing(server.connect()) as connection:
        connection.sendall(head(key, f"Content-Length: {len(text)}") + text[:-1])
    with closing(server.connect()) as connection:
        connection.sendall(head(key, request="GET /stats/remaining-credits"))
        assert Reply(connection, "GET").json == {"creditsRemaining": 10}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_is_in_flight_finish(
    valkey_server: ValkeyProcess, key: str, number: int
) -> None:
    server = ApiProcess(valkey_server.url)
    try:
        server.wait_until_ready()
        text = body()
        with closing(server.connect()) as busy, closing(server.connect()) as idle:
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert Reply(idle, "GET").status == 200
            busy.sendall(head(key, f"Content-Length: {len(text)}", "Expect: 100-continue"))
            assert busy.recv(100).startswith(b"HTTP/1.1 100")  # so it is in flight
            server.process.send_signal(number)
            assert idle.recv(1) == b""  # closed, as no request of it is in flight
            busy.sendall(text)
            assert Reply(busy).status == 201
        assert server.ended() == (0, "")
    finally:
        server.remove()


def test_a_process_ends_when_its_parent_does(valkey_server: ValkeyProcess) -> None:
    read_end, write_end = os.pipe()
    server = ApiProcess(valkey_server.url, parent_fd=read_end)
    os.close(read_end)
    try:
        server.wait_until_ready()
        os.close(write_end)
        assert server.ended() == (0, "")
    finally:
        server.remove()


def test_a_taken_port_is_one_sentence(valkey_server: ValkeyProcess, server: ApiProcess) -> None:
    second = ApiProcess(valkey_server.url, port=server.port)
    try:
        status, said = second.ended()
    finally:
        second.remove()
    assert status == 1
    assert said == (
        f"PostdateError: Port {server.port} on 127.0.0.1 is taken by another program;"
        " choose another with --port.\n"
    )


def test_an_answer_to_head_is_that_to_get_without_its_body(server: ApiProcess) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(b"HEAD /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"\r\ncontent-length: 15\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


def test_a_store_that_cannot_be_used_ends_it_with_a_sentence() -> None:
    with ValkeyProcess(options={"maxmemory-policy": "allkeys-lru"}) as evicting:
        server = ApiProcess(evicting.url)
        try:
            status, said = server.ended()
        finally:
            server.remove()
    assert status == 1
    assert "StoreMisconfigured: The store evicts keys" in said
    assert "Traceback" not in said
