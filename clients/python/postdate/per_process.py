"""One object for each process: a connection that a fork inherits is still its parent's."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Makes a T now, and another at its first use in each forked process; threads may share it.
    `abandon` gets what a fork inherited, and must not touch the parent's connections. `closed` is
    the sentence of the error after `close`."""

    def __init__(
        self, make: Callable[[], T], closed: str, abandon: Callable[[T], None] | None = None
    ) -> None:
        self._make, self._abandon = make, abandon
        self._closed = closed
        self._is_closed = False
        # No lock: the thread that holds one is gone in a fork. Each step below is atomic.
        self._made = {os.getpid(): make()}

    def get(self) -> T:
        """This process's. Raises RuntimeError after `close`, in this process or an ancestor."""
        if self._is_closed:
            raise RuntimeError(self._closed)
        pid = os.getpid()
        made = self._made.get(pid)
        if made is None:
            made = self._made.setdefault(pid, self._make())
            self._drop_inherited(pid)
        return made

    def close(self) -> T | None:
        """This process's, if it has one, for the caller to close."""
        self._is_closed = True
        return self._made.get(os.getpid())

    def _drop_inherited(self, pid: int) -> None:
        for other in [each for each in list(self._made) if each != pid]:
            inherited = self._made.pop(other, None)
            if inherited is not None and self._abandon is not None:
                self._abandon(inherited)


class Given(Generic[T]):
    """The caller's own; no other can be made in a fork."""

    def __init__(self, given: T) -> None:
        self._given = given
        self._pid: int | None = None

    def get(self) -> T:
        """Raises RuntimeError in a fork if it was used before: connections are the parent's."""
        pid = os.getpid()
        if self._pid is None:
            self._pid = pid
        if self._pid != pid:
            raise RuntimeError(
                "The httpx client given as `http` was used before a fork. Make a client with a new"
                " one in the child process."
            )
        return self._given

    def close(self) -> None:
        """Nothing: it stays open."""
