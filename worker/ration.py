"""The ration: what targets' bytes may cost in one round of the loop, so that the store is heard."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

from worker.turns import Turns

# A byte of the most costly answers, one-byte chunks and empty 1xx, is 5 to 30 ns of parsing.
ROUND_BYTES = 256 * 1024
# Linux takes this twice, for what belongs to it as well.
_UNREAD_BYTES = 32 * 1024


class _Portion(NamedTuple):
    """A piece of an answer that has come and was not parsed."""

    account_id: str
    started_s: float
    data: bytes
    parse: Callable[[bytes], None]


class Ration:
    """So many bytes of answers are parsed in one round. What comes beyond it waits for the next
    ones, its connection unread meanwhile, and accounts take turns.

    Between two rounds the loop reads all its sockets, the store's too: leases, acks and the small
    answers of others wait for one round, whatever targets send.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, round_bytes: int = ROUND_BYTES) -> None:
        self._loop = loop
        self._round_bytes = round_bytes
        self._left = round_bytes
        self._waiting: Turns[_Portion] = Turns()
        self._is_serving = False
        self._next_round: asyncio.Handle | None = None

    def take(self, size: int) -> bool:
        """Whether a piece of this size may be parsed now; if not, `wait` is to follow. The last one
        in a round may be larger than what is left."""
        if (self._waiting and not self._is_serving) or self._left <= 0:
            return False
        self._left -= size
        self._count_round()
        return True

    def wait(self, account_id: str, data: bytes, parse: Callable[[bytes], None]) -> None:
        """`parse` is called with the piece in the account's turn; it is to `take` then."""
        self._waiting.add(_Portion(account_id, time.monotonic(), data, parse))
        self._count_round()

    def pause(self, delay_s: float, resume: Callable[[], None]) -> None:
        """`resume` is called after a while: for a connection not worth a look at each piece."""
        self._loop.call_later(delay_s, resume)

    def _count_round(self) -> None:
        if self._next_round is None:
            self._next_round = self._loop.call_soon(self._begin_round)

    def _begin_round(self) -> None:
        self._next_round = None
        self._left = self._round_bytes
        self._is_serving = True
        try:
            while self._waiting and self._left > 0:
                portion = self._waiting.pop()
                portion.parse(portion.data)
        finally:
            self._is_serving = False
            if self._waiting:
                self._count_round()


def bound_reading(transport: asyncio.BaseTransport) -> None:
    """Bounds what a target may send before it is read, by the system and by TLS: so much comes in
    one piece, and no more is held of an answer that has to wait."""
    opened = transport.get_extra_info("socket")
    if opened is not None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _UNREAD_BYTES)
    set_limits = getattr(transport, "set_read_buffer_limits", None)
    if set_limits is not None:
        set_limits(_UNREAD_BYTES)
