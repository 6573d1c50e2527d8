"""How much time has passed, that in which the machine slept included.

What others count as well, while this machine stands still, is measured so: leases, connections that
are kept, how long what was read or said is good for, and the store's clock between two replies. The
loop's clock and `time.monotonic` stop while a machine is suspended, on Linux. So nothing that waits
for a moment of theirs comes too early for it, but later by the sleep: timers, time limits, and what
the wheel holds. That is due within moments; and before it goes its lease is looked at, which did
not stop.

Of a virtual machine that was stopped from outside, no clock in it may tell. What it holds may then
be sent a second time, beside the worker that took it over.
"""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def slept_s() -> float:
    """How long this machine has slept since it was started, or a little more where this process
    stood still just then; 0 where the system does not tell."""
    awake_s = time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.clock_gettime(_CLOCK) - awake_s


def elapsed_s() -> float:
    """Seconds since some moment. Its moments are not those of `time.monotonic`."""
    return time.clock_gettime(_CLOCK)
