"""How many files a process may have open, and what it does with them."""

from __future__ import annotations

import errno
import os

import pytest

from worker.send.sockets import SocketBudget, budget, fires_at_once, is_out_of_ports, is_own_address


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (1024, SocketBudget(sockets=768, fires=672, spares=96)),
        (100, SocketBudget(sockets=50, fires=44, spares=6)),
    ],
)
def test_fires_and_their_second_attempts_fit_and_leave_room(
    files: int, expected: SocketBudget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda which: (files, files))
    assert budget() == expected
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


@pytest.mark.parametrize(
    ("address", "is_own"),
    [("127.0.0.1", True), ("::1", True), ("8.8.8.8", False), ("2606:4700::1", False)],
)
def test_an_address_is_ones_own_if_what_goes_there_stays_here(address: str, is_own: bool) -> None:
    """Whether there is a way to others or none."""
    assert is_own_address(address) is is_own
