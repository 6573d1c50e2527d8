"""Elapsed time that includes the time a machine sleeps: for leases, idle connections, cached values
and the store's clock between two replies.

On Linux the loop's clock and `time.monotonic` stop meanwhile, so timers fire late, never early. No
clock shows that a hypervisor stopped the machine: two workers may then send the same invocation.
"""

from __future__ import annotations

import math
import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def slept_s() -> float:
    """How long this machine has slept since its start, or slightly more; 0 where it is unknown."""
    awake_s = time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.clock_gettime(_CLOCK) - awake_s


def until_tick_s(every_s: float) -> float:
    """Until the next whole multiple of `every_s`, the same one for all that wait in a process: they
    wake it up once. In whole milliseconds, as loops count."""
    return math.ceil((every_s - time.monotonic() % every_s) * 1000) / 1000


def elapsed_s() -> float:
    """Seconds since some moment. Its moments are not those of `time.monotonic`."""
    return time.clock_gettime(_CLOCK)
