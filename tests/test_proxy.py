"""The one breaker of connections breaks them as it says."""

from __future__ import annotations

import socket
import time

import pytest

from tests.proxy import DroppingProxy
from tests.waiting import DEADLINE_S

PING, PONG = b"PING\r\n", b"+PONG\r\n"


def connect(line: DroppingProxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", line.port), DEADLINE_S)


def assert_replies(client: socket.socket, command: bytes = PING, reply: bytes = PONG) -> None:
    client.sendall(command)
    got = b""
    while not got.endswith(reply):
        got += client.recv(100)
    assert got == reply


def test_a_reset_ends_idle_connections_with_an_rst_and_new_ones_are_taken(
    proxy: DroppingProxy,
) -> None:
    with connect(proxy) as one, connect(proxy) as other:
        for client in (one, other):
            assert_replies(client)
        proxy.reset()
        for client in (one, other):
            with pytest.raises(ConnectionResetError):
                client.recv(100)
    with connect(proxy) as client:
        assert_replies(client)


def test_a_cut_line_refuses_until_it_is_healed_and_keeps_its_port(proxy: DroppingProxy) -> None:
    port = proxy.port
    with connect(proxy) as client:
        assert_replies(client)
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(100)
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    proxy.heal()
    assert proxy.port == port
    with connect(proxy) as client:
        assert_replies(client)


def test_a_silent_line_keeps_everything_back_and_lets_it_go_in_order(proxy: DroppingProxy) -> None:
    with connect(proxy) as client:
        assert_replies(client)
        proxy.silence()
        client.sendall(b"SET a 1\r\n")
        client.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.recv(100)
        client.settimeout(DEADLINE_S)
        proxy.heal()
        assert_replies(client, b"GET a\r\n", b"+OK\r\n$1\r\n1\r\n")


def test_a_slow_line_delays_both_ways_and_keeps_the_order_when_it_is_healed(
    proxy: DroppingProxy,
) -> None:
    with connect(proxy) as client:
        assert_replies(client)
        proxy.slow(0.05)
        began_s = time.monotonic()
        assert_replies(client)
        assert time.monotonic() - began_s >= 0.1
        client.sendall(b"SET a 2\r\n")
        time.sleep(0.02)  # so that it is on its way when the next one starts without a delay
        proxy.heal()
        assert_replies(client, b"GET a\r\n", b"+OK\r\n$1\r\n2\r\n")


def test_a_lost_reply_was_done(proxy: DroppingProxy) -> None:
    """By any command; healed, no further one is lost."""
    with connect(proxy) as client:
        assert_replies(client)
        proxy.drop_reply(b"", times=2)
        client.sendall(b"SET lost 1\r\n")
        with pytest.raises(ConnectionResetError):
            client.recv(100)
    proxy.heal()
    with connect(proxy) as client:
        assert_replies(client, b"GET lost\r\n", b"$1\r\n1\r\n")
