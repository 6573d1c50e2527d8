"""How late this worker has been of late, for operators."""

from __future__ import annotations

from collections import deque

_BEATS_KEPT = 60


class Lateness:
    """The worst lateness of the last sixty heartbeats, a minute."""

    def __init__(self) -> None:
        self._now_ms = -1
        self._worst_ms: deque[int] = deque(maxlen=_BEATS_KEPT)

    def note(self, late_ms: int) -> None:
        if late_ms > self._now_ms:
            self._now_ms = late_ms

    def worst_ms(self) -> int | None:
        """None if nothing was fired. Asked once a heartbeat: each time counts as one."""
        self._worst_ms.append(self._now_ms)
        self._now_ms = -1
        worst = max(self._worst_ms)
        return None if worst < 0 else worst
