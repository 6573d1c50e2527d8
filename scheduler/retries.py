"""How often and after which waits an attempt that failed may be made again."""

from __future__ import annotations

from scheduler.durations import DAY_MS
from scheduler.models import Request
from scheduler.schema import USUAL_DELAYS_MS

# The longest Retry-After that is followed.
LONGEST_ASKED_MS = DAY_MS
# Maximum jitter, as a fraction of the delay: what failed together does not come back together.
SPREAD = 0.2


def delays_ms(request: Request) -> tuple[int, ...] | None:
    """The waits between its attempts; None where there is only one attempt."""
    return (request.retry_delays_ms or USUAL_DELAYS_MS) if request.retries else None
