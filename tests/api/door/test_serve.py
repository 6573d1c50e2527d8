"""A real API process: what HTTP itself can do to it, and how it ends."""

from __future__ import annotations

import json
import os
import signal
from contextlib import closing

import pytest

from tests.api.conftest import payload
from tests.api.errors import error_of
from tests.api.process import ApiProcess, Reply, chunk, head, serving
from tests.support.servers import ValkeyProcess

BODY = json.dumps(payload()).encode()
LENGTH = f"Content-Length: {len(BODY)}"
TOO_LARGE = {"error": "The request body is larger than 262,144 bytes", "reason": "too_large"}


@pytest.mark.parametrize(
    ("lines", "sent"),
    [
        (["Transfer-Encoding: chunked"], chunk(b"x" * 60_000) * 5),  # the last chunk never comes
        (["Content-Length: 9999999", "Expect: 100-continue"], b""),
    ],
)
def test_a_large_body_is_413_at_once(
    server: ApiProcess, key: str, lines: list[str], sent: bytes
) -> None:
    reply = server.ask(head(key, *lines) + sent)
    assert (reply.status, error_of(reply)) == (413, TOO_LARGE)


def test_a_client_that_waits_for_100_gets_it(server: ApiProcess, key: str) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(head(key, LENGTH, "Expect: 100-continue"))
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(BODY)
        assert Reply(connection).status == 201


def test_a_connection_goes_on_after_an_error(server: ApiProcess, key: str) -> None:
    with closing(server.connect()) as connection:
        for data, status in ((b"x" * 300_000, 413), (b"{", 400), (BODY, 201)):
            connection.sendall(head(key, f"Content-Length: {len(data)}") + data)
            assert Reply(connection).status == status


def test_pipelined_requests_are_answered_in_order(server: ApiProcess, key: str) -> None:
    create = head(key, LENGTH) + BODY
    credits = head(key, request="GET /stats/remaining-credits")
    with closing(server.connect()) as connection:
        connection.sendall(create + credits + create + head(key, request="GET /healthz"))
        data = b""
        while b'{"status":"ok"}' not in data:
            data += connection.recv(65536)
    found = [data.index(text) for text in (b"sch_", b'{"creditsRemaining":9}', b"ok")]
    assert found == sorted(found)
    assert data.count(b"HTTP/1.1 201") == 2


def test_a_client_that_leaves_in_mid_body_costs_nothing(server: ApiProcess, key: str) -> None:
    with closing(server.connect()) as connection:
        connection.sendall(head(key, LENGTH) + BODY[:-1])
    reply = server.ask(head(key, request="GET /stats/remaining-credits"))
    assert reply.json == {"creditsRemaining": 10}


def test_a_signal_lets_requests_finish(valkey_server: ValkeyProcess, key: str) -> None:
    with serving(valkey_server.url) as server:
        with closing(server.connect()) as busy, closing(server.connect()) as idle:
            idle.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
            assert Reply(idle, "GET").status == 200
            busy.sendall(head(key, LENGTH, "Expect: 100-continue"))
            assert busy.recv(100).startswith(b"HTTP/1.1 100")  # so it is in flight
            server.process.send_signal(signal.SIGTERM)
            assert idle.recv(1) == b""  # closed, as no request of it is in flight
            busy.sendall(BODY)
            assert Reply(busy).status == 201
        assert server.ended() == (0, "")


def test_a_process_ends_when_its_parent_does(valkey_server: ValkeyProcess) -> None:
    read_end, write_end = os.pipe()
    with ApiProcess(valkey_server.url, parent_fd=read_end) as server:
        os.close(read_end)
        server.wait_until_ready()
        os.close(write_end)
        assert server.ended() == (0, "")


def test_a_store_that_cannot_be_used_ends_it_with_a_sentence() -> None:
    with (
        ValkeyProcess(options={"maxmemory-policy": "allkeys-lru"}) as evicting,
        ApiProcess(evicting.url) as server,
    ):
        status, said = server.ended()
    assert status == 1
    assert "StoreMisconfigured: The store evicts keys" in said
    assert "Traceback" not in said
