"""A target whose door is shut at first: connections to it do not come about until it opens."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections import Counter
from typing import Self

_ID = re.compile(rb"\r\npostdate-schedule-id: *(\S+)\r\n", re.IGNORECASE)
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Door:
    """An HTTP server on 127.0.0.1 for requests without a body; it answers each with a 200.

    While it is shut its accept queue is full, so that the kernel drops what knocks, which knocks
    again after one second, two and four. Linux only.
    """

    def __init__(self) -> None:
        self.arrived: Counter[str] = Counter()
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        self._guest = socket.create_connection(self._listener.getsockname())
        self._guests: set[socket.socket] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def open(self) -> None:
        self._listener.listen(4096)
        threading.Thread(target=self._accept, name="door", daemon=True).start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends an accept that waits
        self._listener.close()
        self._guest.close()
        for guest in list(self._guests):
            with contextlib.suppress(OSError):
                guest.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                guest, _ = self._listener.accept()
            except OSError:
                return
            self._guests.add(guest)
            threading.Thread(target=self._serve, args=(guest,), name="guest", daemon=True).start()

    def _serve(self, guest: socket.socket) -> None:
        head = b""
        with guest, contextlib.suppress(OSError):
            while b"\r\n\r\n" not in head:
                piece = guest.recv(65536)
                if not piece:
                    break
                head += piece
            schedule = _ID.search(head)
            if schedule is not None:
                self.arrived[schedule[1].decode()] += 1
                guest.sendall(_ANSWER)
        self._guests.discard(guest)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
