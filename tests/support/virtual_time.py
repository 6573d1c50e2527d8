"""An event loop whose clock does not depend on the machine's."""

from __future__ import annotations

import asyncio
import selectors

_ROUND_S = 1e-6


class _NeverWaiting(selectors.DefaultSelector):
    """Lets the time pass that it is to wait for, and looks at once."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now_s += max(timeout or 0.0, _ROUND_S)
        return super().select(None if timeout is None else 0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A round takes a microsecond by its clock, which jumps to the next timer when there is
    nothing to do: nothing is late, however slow the machine. For code that waits for no I/O."""

    def __init__(self) -> None:
        self._waiter = _NeverWaiting()
        super().__init__(self._waiter)

    def time(self) -> float:
        return self._waiter.now_s
