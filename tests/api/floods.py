"""What a client can do to an API process without a key: bounded floods.

The caller that opened a flood owns its connections.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_PATIENCE_S = 10.0
_STALL_S = 0.3
_PIECE = 64 * 1024
_HEAD = b"POST /schedule HTTP/1.1\r\nHost: a\r\n"

# The first bytes of connections that then send nothing.
HELD = {
    "silent": b"",
    "half heads": _HEAD,
    # A form that anybody may send, and as much of it as is read, but for the last byte.
    "half bodies": b"POST /dashboard/sign-in HTTP/1.1\r\nHost: a\r\nOrigin: http://a\r\n"
    b"Content-Length: 65536\r\n\r\n" + b"x" * 65535,
    # Bodies behind a bad key, whose refusal may have to wait for its turn.
    "large bodies": _HEAD
    + b"x-api-key: pd_00_nobody\r\nContent-Length: 262144\r\n\r\n"
    + b"x" * 200_000,
    "idle": b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
}
# How each begins, and what then comes without end.
ENDLESS = {
    "lines of a head": (_HEAD, b"a:b\r\n" * (_PIECE // 5)),
    "URL": (b"GET /", b"x" * _PIECE),
    # Behind the head of a body in chunks.
    "trailers": (b"0\r\n", b"a:b\r\n" * (_PIECE // 5)),
    "trailer": (b"0\r\na:", b"x" * _PIECE),
    "extension": (b"5;", b"x" * _PIECE),
    "pipeline": (b"", HELD["idle"] * (_PIECE // 40)),
}


def connect(port: int) -> socket.socket:
    made = socket.socket()
    made.settimeout(_PATIENCE_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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


@contextmanager
def held(port: int, number: int, data: bytes) -> Iterator[list[socket.socket]]:
    """So many connections that have sent this, and nothing since. Those that are closed upon
    while it is set up count as held: the flood does not mind."""
    with ExitStack() as stack:
        made = []
        for _ in range(number):
            connection = stack.enter_context(connect(port))
            with contextlib.suppress(OSError):
                connection.sendall(data)
            made.append(connection)
        yield made
