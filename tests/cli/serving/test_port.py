"""The HTTP port: free, taken, about to be free."""

from __future__ import annotations

import asyncio
import socket

import pytest

from cli.serving.port import reserve
from scheduler.errors import PostdateError


async def test_only_who_is_given_sockets_is_connected_to_and_no_other_may_have_the_port() -> None:
    port = await reserve("127.0.0.1", 0, patience_s=0)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port.number))
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", port.number))
    sentence = rf"^Port {port.number} on 127\.0\.0\.1 is taken by another program"
    with port.listen()[0] as first, port.listen()[0] as second:
        assert first.getsockname() == second.getsockname() == ("127.0.0.1", port.number)
        with pytest.raises(PostdateError, match=sentence):
            await reserve("127.0.0.1", port.number, patience_s=0)
    port.free()


async def test_every_address_of_a_name_is_listened_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the same one, and one that this machine does not have, are no obstacle."""
    kind, protocol = socket.SOCK_STREAM, 6
    found = [
        (socket.AF_INET, kind, protocol, "", (address, 0))
        for address in ("192.0.2.1", "127.0.0.1", "127.0.0.1", "127.0.0.2")
    ]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: found)
    port = await reserve("somewhere", 0, patience_s=0)
    listeners = port.listen()
    names = [each.getsockname() for each in listeners]
    assert names == [("127.0.0.1", port.number), ("127.0.0.2", port.number)]
    for each in listeners:
        each.close()
    port.free()


async def test_a_port_that_is_about_to_be_free_is_waited_for() -> None:
    leaving = socket.create_server(("127.0.0.1", 0))
    number = leaving.getsockname()[1]
    waiting = asyncio.create_task(reserve("127.0.0.1", number, patience_s=10))
    await asyncio.sleep(0)
    assert not waiting.done()
    leaving.close()
    port = await waiting
    assert port.number == number
    port.free()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
async def test_a_host_that_is_not_ours_is_one_sentence(host: str) -> None:
    with pytest.raises(PostdateError, match=rf"^The API cannot listen on {host}:0: .*\.$"):
        await reserve(host, 0, patience_s=0)


async def test_the_kernel_keeps_no_more_of_a_connection_than_the_listener_says() -> None:
    """Without that bound, Linux buffers 6 MB or more while nobody reads."""
    port = await reserve("127.0.0.1", 0, patience_s=0)
    with port.listen()[0] as listener, socket.create_connection((port.host, port.number)) as client:
        client.setblocking(False)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) <= 512 * 1024
    port.free()
