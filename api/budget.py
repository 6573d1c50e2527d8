"""Bytes that may be held at once."""

from __future__ import annotations

import asyncio
from collections import deque


class Budget:
    """So many bytes, for what is read and for what is made of it; all of them have to be given
    back. What is read leaves `kept_bytes` to what is made: that gets on, whatever is being read.
    """

    def __init__(self, size_bytes: int, kept_bytes: int = 0) -> None:
        self.left_bytes = size_bytes
        self._left_to_read_bytes = size_bytes - kept_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def take(self, wanted_bytes: int) -> bool:
        """All of them, to read, or none and False."""
        if wanted_bytes > min(self.left_bytes, self._left_to_read_bytes):
            return False
        self.left_bytes -= wanted_bytes
        self._left_to_read_bytes -= wanted_bytes
        return True

    def give_back(self, taken_bytes: int) -> None:
        self._left_to_read_bytes += taken_bytes
        self.free(taken_bytes)

    async def room(self, wanted_bytes: int) -> None:
        """Takes them, at most `kept_bytes`, when it is the caller's turn and they are there. They
        are given back by `free`."""
        if wanted_bytes <= self.left_bytes and not self._waiting:
            self.left_bytes -= wanted_bytes
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            self.free(0 if turn.cancelled() else wanted_bytes)
            raise

    def free(self, taken_bytes: int) -> None:
        self.left_bytes += taken_bytes
        while self._waiting:
            wanted_bytes, turn = self._waiting[0]
            if turn.cancelled():
                self._waiting.popleft()
            elif wanted_bytes <= self.left_bytes:
                self._waiting.popleft()
                self.left_bytes -= wanted_bytes
                turn.set_result(None)
            else:
                return
