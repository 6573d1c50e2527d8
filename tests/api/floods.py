"""What a client can do to an API process without a key: bounded floods.

The caller that opened a flood owns its connections.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

_PATIENCE_S = 10.0
_STALL_S = 0.3
_PIECE = 64 * 1024
_HEAD = b"POST /schedule HTTP/1.1\r\nHost: a\r\n"

Flood = Callable[[int, int], contextlib.AbstractContextManager[list[socket.socket]]]


def connect(port: int, *, receive_bytes: int = 0) -> socket.socket:
    """`receive_bytes` is what the kernel may hold for us before the other side has to wait."""
    made = socket.socket()
    made.settimeout(_PATIENCE_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if receive_bytes:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    made.connect(("127.0.0.1", port))
    return made


def pour(connection: socket.socket, start: bytes, piece: bytes, size: int) -> int:
    """Sends `start`, then `piece` over and over: `size` bytes, or as many as are taken. How many
    that were."""
    sent, patience_s = 0, connection.gettimeout()
    connection.settimeout(_STALL_S)
    with contextlib.suppress(OSError):  # the other side has had enough
        connection.sendall(start)
        while sent < size:
            connection.sendall(piece)
            sent += len(piece)
    connection.settimeout(patience_s)
    return sent


def endless_lines(connection: socket.socket, size: int) -> int:
    """A head of ever more lines, each as short as can be."""
    return pour(connection, _HEAD, b"a:b\r\n" * (_PIECE // 5), size)


def endless_line(connection: socket.socket, size: int) -> int:
    """A head whose second line does not end."""
    return pour(connection, _HEAD + b"a:", b"x" * _PIECE, size)


def endless_url(connection: socket.socket, size: int) -> int:
    return pour(connection, b"GET /", b"x" * _PIECE, size)


def endless_trailers(connection: socket.socket, size: int) -> int:
    """A body that is over, and lines behind it that are not. It takes a key: without one it is
    answered before."""
    return pour(connection, b"0\r\n", b"a:b\r\n" * (_PIECE // 5), size)


def endless_trailer(connection: socket.socket, size: int) -> int:
    """As before, but it is one line that does not end."""
    return pour(connection, b"0\r\na:", b"x" * _PIECE, size)


def endless_extension(connection: socket.socket, size: int) -> int:
    """A chunk of which no byte ever comes, because its size has a remark that does not end."""
    return pour(connection, b"5;", b"x" * _PIECE, size)


def endless_pipeline(connection: socket.socket, size: int) -> int:
    """Requests, and not one answer read."""
    request = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    return pour(connection, b"", request * (_PIECE // len(request)), size)


@contextmanager
def held(
    port: int, number: int, data: bytes, *, receive_bytes: int = 0
) -> Iterator[list[socket.socket]]:
    """So many connections that have sent this, and nothing since. Those that are closed upon
    while it is set up count as held: the flood does not mind."""
    with ExitStack() as stack:
        made = []
        for _ in range(number):
            connection = stack.enter_context(connect(port, receive_bytes=receive_bytes))
            with contextlib.suppress(OSError):
                connection.sendall(data)
            made.append(connection)
        yield made


def silent(port: int, number: int) -> contextlib.AbstractContextManager[list[socket.socket]]:
    """Connections, and nothing on them."""
    return held(port, number, b"")


def half_heads(port: int, number: int) -> contextlib.AbstractContextManager[list[socket.socket]]:
    return held(port, number, _HEAD)


def half_bodies(port: int, number: int) -> contextlib.AbstractContextManager[list[socket.socket]]:
    """A form that anybody may send, and as much of it as is read, but for the last byte."""
    head = b"POST /dashboard/sign-in HTTP/1.1\r\nHost: a\r\nOrigin: http://a\r\n"
    size = 64 * 1024
    return held(port, number, head + b"Content-Length: %d\r\n\r\n" % size + b"x" * (size - 1))


def large_bodies(port: int, number: int) -> contextlib.AbstractContextManager[list[socket.socket]]:
    """Bodies behind a bad key, whose refusal may have to wait for its turn."""
    head = _HEAD + b"x-api-key: pd_00_nobody\r\nContent-Length: 262144\r\n\r\n"
    return held(port, number, head + b"x" * 200_000)


def idle(port: int, number: int) -> contextlib.AbstractContextManager[list[socket.socket]]:
    """Connections on which one request was made and answered."""
    return held(port, number, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")


def deaf(port: int, number: int) -> contextlib.AbstractContextManager[list[socket.socket]]:
    """Clients that ask for the longest answer there is, and read nothing."""
    request = b"GET /schema/assets/swagger-ui-bundle.js HTTP/1.1\r\nHost: a\r\n\r\n"
    return held(port, number, request * 10, receive_bytes=4096)


HELD: tuple[Flood, ...] = (silent, half_heads, half_bodies, large_bodies, idle, deaf)
