"""Pauses in long work, in which the event loop does what else there is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

# As long as about ten small creates take.
PIECE_S = 0.0005
_FEW = 8


class Pause:
    """Times one piece of the work after the other: `if pause.is_due: await pause.take()`."""

    __slots__ = ("_due_s",)

    def __init__(self) -> None:
        self._due_s = time.perf_counter() + PIECE_S

    @property
    def is_due(self) -> bool:
        return time.perf_counter() >= self._due_s

    async def take(self) -> None:
        await asyncio.sleep(0)
        self._due_s = time.perf_counter() + PIECE_S


async def collected(work: Iterable[T]) -> list[T]:
    """The list of what an iterator makes, with pauses in between. A few are made at once: a call
    for one is not overtaken by the next."""
    found, pause = list[T](), Pause()
    for each in work:
        found.append(each)
        if len(found) > _FEW and pause.is_due:
            await pause.take()
    return found
