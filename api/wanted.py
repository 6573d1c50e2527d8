"""How many workers there should be: enough for the wave that is three minutes away. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

# So much of what a worker can fire it is given, and is late with nothing.
_BUSY = 0.7


def workers_wanted(
    overdue: float, coming: Sequence[float], window_s: float, fires_per_s: float
) -> int:
    """At least one. `coming` is what is due in each of the next windows, `fires_per_s` what one
    worker can fire. What is overdue is to be fired within one window, beside what comes in it."""
    first, *later = coming or (0.0,)
    most_per_s = max(overdue + first, *later, 0.0) / window_s
    return max(1, math.ceil(most_per_s / (fires_per_s * _BUSY)))
