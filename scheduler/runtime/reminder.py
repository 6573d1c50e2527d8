"""A condition that lasts is logged when it begins, and again each minute."""

from __future__ import annotations

import time

_EVERY_S = 60.0


class Reminder:
    def __init__(self) -> None:
        self._last_s: float | None = None

    def is_due(self) -> bool:
        """At once, and once a minute after that."""
        now_s = time.monotonic()
        if self._last_s is not None and now_s - self._last_s < _EVERY_S:
            return False
        self._last_s = now_s
        return True

    def end(self) -> bool:
        """Whether it had begun."""
        had_begun, self._last_s = self._last_s is not None, None
        return had_begun
