"""The event loop's pulse: does it step, and how late is it when it does?"""

from __future__ import annotations

import asyncio

from metrics.histogram import Histogram

STEP_S = 0.25
# A loop that has not stepped for so long hangs; a supervisor may restart the process.
HUNG_AFTER_S = 5.0
_LAG_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Pulse:
    """Steps a few times a second by itself. Make it inside a running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.lag_s = Histogram(_LAG_S)
        self._stepped_s = self._loop.time()
        self._timer = self._loop.call_at(self._stepped_s + STEP_S, self._step)

    @property
    def beats(self) -> bool:
        """Whether the loop has stepped recently. The store is not asked: without it, workers must
        keep what they hold, and not be restarted."""
        return self._loop.time() - self._stepped_s < HUNG_AFTER_S

    def close(self) -> None:
        self._timer.cancel()

    def _step(self) -> None:
        now_s = self._loop.time()
        self.lag_s.note(max(0.0, now_s - self._stepped_s - STEP_S))
        self._stepped_s = now_s
        self._timer = self._loop.call_at(now_s + STEP_S, self._step)
