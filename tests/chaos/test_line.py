"""The network that runs break does what its description says."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from tests.chaos.stores import LossyLine
from tests.valkey import ValkeyProcess
from tests.waiting import DEADLINE_S

PING, PONG = b"PING\r\n", b"+PONG\r\n"


@pytest.fixture
def line(valkey: ValkeyProcess) -> Iterator[LossyLine]:
    with LossyLine(valkey) as between:
        yield between


def connect(line: LossyLine) -> socket.socket:
    return socket.create_connection(("127.0.0.1", line.port), DEADLINE_S)


def asked(client: socket.socket) -> bytes:
    client.sendall(PING)
    return client.recv(100)


def test_it_passes_on_what_is_said(line: LossyLine) -> None:
    with connect(line) as client:
        assert asked(client) == PONG


def test_a_reset_ends_idle_connections_with_an_rst_and_new_ones_are_taken(line: LossyLine) -> None:
    with connect(line) as one, connect(line) as other:
        assert asked(one) == asked(other) == PONG
        line.reset()
        for client in (one, other):
            with pytest.raises(ConnectionResetError):
                client.recv(100)
    with connect(line) as client:
        assert asked(client) == PONG


def test_a_cut_line_refuses_until_it_is_healed_and_keeps_its_port(line: LossyLine) -> None:
    port = line.port
    with connect(line) as client:
        assert asked(client) == PONG
        line.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(100)
    with pytest.raises(ConnectionRefusedError):
        connect(line)
    line.heal()
    assert line.port == port
    with connect(line) as client:
        assert asked(client) == PONG


def test_a_silent_line_keeps_everything_back_and_lets_it_go_in_order(line: LossyLine) -> None:
    with connect(line) as client:
        assert asked(client) == PONG
        line.silence()
        client.sendall(b"SET a 1\r\nGET a\r\n")
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(100)
        client.settimeout(DEADLINE_S)
        line.heal()
        assert received(client, b"$1\r\n1\r\n") == b"+OK\r\n$1\r\n1\r\n"


def test_a_slow_line_delays_both_ways_and_keeps_the_order_when_it_is_healed(
    line: LossyLine,
) -> None:
    with connect(line) as client:
        assert asked(client) == PONG
        line.slow(0.1)
        began = time.monotonic()
        assert asked(client) == PONG
        assert time.monotonic() - began >= 0.2
        client.sendall(b"SET a 2\r\n")
        time.sleep(0.02)  # so that it is on its way when the next one starts without a delay
        line.heal()
        client.sendall(b"GET a\r\n")
        assert received(client, b"$1\r\n2\r\n") == b"+OK\r\n$1\r\n2\r\n"


def test_a_lost_reply_was_done(line: LossyLine) -> None:
    with connect(line) as client:
        assert asked(client) == PONG
        line.lose_replies(1)
        client.sendall(b"SET lost 1\r\n")
        with pytest.raises(ConnectionResetError):
            client.recv(100)
    with connect(line) as client:
        client.sendall(b"GET lost\r\n")
        assert client.recv(100) == b"$1\r\n1\r\n"


def received(client: socket.socket, until: bytes) -> bytes:
    got = b""
    while not got.endswith(until):
        got += client.recv(100)
    return got
