"""How many files a process may have open, and what it does with them."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from worker.sockets import SocketBudget, budget_of, fires_at_once, is_out_of_ports, is_own_address


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (65_536, SocketBudget(sockets=65_280, fires=57_120, spares=8_160)),
        (1024, SocketBudget(sockets=768, fires=672, spares=96)),
        (100, SocketBudget(sockets=50, fires=44, spares=6)),
    ],
)
def test_fires_and_their_second_attempts_fit_and_leave_room(
    files: int, expected: SocketBudget
) -> None:
    assert budget_of(files) == expected
    assert expected.fires + expected.spares == expected.sockets


def test_no_more_fires_at_once_than_there_are_sockets_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda which: (1024, 1024))
    assert fires_at_once(4096) == 672
    assert fires_at_once(100) == 100


@pytest.mark.parametrize(
    ("number", "address", "expected"),
    [
        (errno.EADDRNOTAVAIL, "127.0.0.1", True),
        (errno.ECONNREFUSED, "127.0.0.1", False),
        # No way to there: a socket that a program may not broadcast by.
        (errno.EADDRNOTAVAIL, "255.255.255.255", False),
    ],
)
def test_a_shortage_of_local_ports_differs_from_an_unreachable_address(
    number: int, address: str, expected: bool
) -> None:
    error = OSError(number, os.strerror(number))
    assert is_out_of_ports(error, address, 443) is expected


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_loopback_is_ones_own(address: str) -> None:
    assert is_own_address(address)


def test_every_address_that_can_be_listened_on_is_ones_own() -> None:
    """Of whatever this machine's name stands for, if that is its own."""
    found = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), 80)}
    for address in map(str, found):
        assert is_own_address(address) is _can_be_listened_on(address), address


@pytest.mark.parametrize(
    "address", ["192.0.2.1", "8.8.8.8", "255.255.255.255", "2606:4700::1", "ff02::1", "64:ff9b::1"]
)
def test_those_of_others_are_not_whether_there_is_a_way_to_them_or_none(address: str) -> None:
    assert not is_own_address(address)


def _can_be_listened_on(address: str) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as listener:
        try:
            listener.bind((address, 0))
        except OSError:
            return False
        return True
