"""Bytes that may be held at once."""

from __future__ import annotations

import asyncio
from collections import deque


class Budget:
    """So many bytes, of which some are taken; what was taken has to be given back."""

    def __init__(self, size_bytes: int) -> None:
        self.left_bytes = size_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def take(self, wanted_bytes: int) -> bool:
        """All of them, or none and False."""
        if wanted_bytes > self.left_bytes:
            return False
        self.left_bytes -= wanted_bytes
        return True

    async def wait_for(self, wanted_bytes: int) -> None:
        """Takes them when it is the caller's turn and they are there, which more than the whole
        budget never is."""
        if not self._waiting and self.take(wanted_bytes):
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((wanted_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            self.give_back(0 if turn.cancelled() else wanted_bytes)
            raise

    def give_back(self, taken_bytes: int) -> None:
        self.left_bytes += taken_bytes
        while self._waiting:
            wanted_bytes, turn = self._waiting[0]
            if not turn.cancelled():
                if not self.take(wanted_bytes):
                    return
                turn.set_result(None)
            self._waiting.popleft()
