"""Which addresses are this machine's own, as its system says."""

from __future__ import annotations

import socket

import pytest

from worker.sockets import is_own_address


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
