"""How much time has passed, that in which the machine slept included.

What others count as well, while this machine stands still, is measured so: leases, and how long
what was read or said is good for. The loop's clock and `time.monotonic` stop while a machine is
suspended, on Linux.
"""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_s() -> float:
    """Seconds since some moment. Its moments are not those of `time.monotonic`."""
    return time.clock_gettime(_CLOCK)
